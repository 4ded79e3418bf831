// SPDX-License-Identifier: GPL-2.0
/*
 * Trace events can be defined in C only. These functions let Rust fire them;
 * bindgen reads this file too.
 */
#include <linux/types.h>

#ifndef __BINDGEN__
#define CREATE_TRACE_POINTS
#endif
#include "rmlx5_events.h"

int rmlx5_trace_command_enabled(void)
{
	return trace_rmlx5_command_enabled();
}

void rmlx5_trace_command(const char *dev, const char *name, size_t name_len,
			 unsigned short opcode, unsigned short op_mod,
			 int result, unsigned int syndrome,
			 unsigned long long ns)
{
	trace_rmlx5_command(dev, name, name_len, opcode, op_mod, result,
			    syndrome, ns);
}

int rmlx5_trace_event_enabled(void)
{
	return trace_rmlx5_event_enabled();
}

void rmlx5_trace_event(const char *dev, unsigned short vector,
		       unsigned char type, unsigned char sub_type,
		       unsigned int data0, unsigned int data6)
{
	trace_rmlx5_event(dev, vector, type, sub_type, data0, data6);
}
