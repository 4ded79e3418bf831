// SPDX-License-Identifier: GPL-2.0
//! Sets of counters of queues: what went wrong, and how often.
//!
//! Source: `mlx5e_create_q_counters` in core/en_main.c, `mlx5_ib_query_q_counters` in ib/counters.c.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw, //
};

use crate::{
    cmd::{
        Cmd,
        CmdError,
        Command, //
    },
    plain_command, //
};

plain_command! {
    /// ALLOC_Q_COUNTER.
    Alloc, MLX5_CMD_OP_ALLOC_Q_COUNTER, alloc_q_counter_in, alloc_q_counter_out => counter_set_id: u8
}

plain_command! {
    /// DEALLOC_Q_COUNTER.
    Dealloc, MLX5_CMD_OP_DEALLOC_Q_COUNTER, dealloc_q_counter_in, dealloc_q_counter_out,
    set: u32 => counter_set_id
}

struct Query {
    set: u8,
}

impl Command for Query {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_Q_COUNTER;
    type In = ifc::query_q_counter_in;
    type Out = ifc::query_q_counter_out;
    type Output = Counts;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_q_counter_in, counter_set_id), self.set.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Counts> {
        Some(Counts::parse(&output))
    }
}

macro_rules! counts {
    ($($name:ident,)+) => {
        /// What a set has counted, by the names of `query_q_counter_out`. Each wraps around at 32
        /// bits.
        #[derive(Clone, Copy)]
        pub(crate) struct Counts {
            $(pub(crate) $name: u32,)+
        }

        impl Counts {
            fn parse(output: &Ref<'_, ifc::query_q_counter_out>) -> Self {
                Self {
                    $($name: output.get32(field!(query_q_counter_out, $name)),)+
                }
            }
        }
    };
}

counts! {
    rx_write_requests,
    rx_read_requests,
    rx_atomic_requests,
    out_of_buffer,
    out_of_sequence,
    duplicate_request,
    rnr_nak_retry_err,
    packet_seq_err,
    implied_nak_seq_err,
    local_ack_timeout_err,
    resp_local_length_error,
    resp_cqe_error,
    req_cqe_error,
    req_remote_invalid_request,
    req_remote_access_errors,
    resp_remote_access_errors,
    resp_cqe_flush_error,
    req_cqe_flush_error,
    req_transport_retries_exceeded,
    req_rnr_retries_exceeded,
}

/// Makes a set that counts from 0; its number. Sleeps.
pub(crate) fn alloc(cmd: &Cmd) -> Result<u8, CmdError> {
    cmd.exec(&Alloc {})
}

/// Reads a set. Sleeps.
pub(crate) fn query(cmd: &Cmd, set: u8) -> Result<Counts, CmdError> {
    cmd.exec(&Query { set })
}

/// Takes a set away whose queues are gone. Sleeps.
pub(crate) fn dealloc(cmd: &Cmd, set: u8) -> Result<(), CmdError> {
    cmd.exec(&Dealloc { set: set.into() })
}
