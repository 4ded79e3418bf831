/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of rmlx5. Strings come from Rust as pointer and length.
 */
#undef TRACE_SYSTEM
#undef TRACE_INCLUDE_FILE
#undef TRACE_INCLUDE_PATH
#define TRACE_SYSTEM rmlx5
#define TRACE_INCLUDE_FILE rmlx5_events
#define TRACE_INCLUDE_PATH .

#if !defined(_RMLX5_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _RMLX5_EVENTS_H

#include <linux/tracepoint.h>

/* A command that has ended; result is the device's status, or a negative errno. */
TRACE_EVENT(rmlx5_command,
	    TP_PROTO(const char *dev, const char *name, size_t name_len,
		     unsigned short opcode, unsigned short op_mod, int result,
		     unsigned int syndrome, unsigned long long ns),
	    TP_ARGS(dev, name, name_len, opcode, op_mod, result, syndrome, ns),
	    TP_STRUCT__entry(__string(dev, dev)
			     __string_len(name, name, name_len)
			     __field(unsigned short, opcode)
			     __field(unsigned short, op_mod)
			     __field(int, result)
			     __field(unsigned int, syndrome)
			     __field(unsigned long long, ns)
	    ),
	    TP_fast_assign(__assign_str(dev);
			   __assign_str(name);
			   __entry->opcode = opcode;
			   __entry->op_mod = op_mod;
			   __entry->result = result;
			   __entry->syndrome = syndrome;
			   __entry->ns = ns;
	    ),
	    TP_printk("%s %s opcode=0x%x op_mod=0x%x result=%d syndrome=0x%x ns=%llu",
		      __get_str(dev), __get_str(name), __entry->opcode,
		      __entry->op_mod, __entry->result, __entry->syndrome,
		      __entry->ns)
);

/* An entry of an event queue, as the device wrote it. */
TRACE_EVENT(rmlx5_event,
	    TP_PROTO(const char *dev, unsigned short vector, unsigned char type,
		     unsigned char sub_type, unsigned int data0,
		     unsigned int data6),
	    TP_ARGS(dev, vector, type, sub_type, data0, data6),
	    TP_STRUCT__entry(__string(dev, dev)
			     __field(unsigned short, vector)
			     __field(unsigned char, type)
			     __field(unsigned char, sub_type)
			     __field(unsigned int, data0)
			     __field(unsigned int, data6)
	    ),
	    TP_fast_assign(__assign_str(dev);
			   __entry->vector = vector;
			   __entry->type = type;
			   __entry->sub_type = sub_type;
			   __entry->data0 = data0;
			   __entry->data6 = data6;
	    ),
	    TP_printk("%s vector=%u type=0x%x sub_type=0x%x data=0x%x..0x%x",
		      __get_str(dev), __entry->vector, __entry->type,
		      __entry->sub_type, __entry->data0, __entry->data6)
);

#endif /* _RMLX5_EVENTS_H */

#include <trace/define_trace.h>
