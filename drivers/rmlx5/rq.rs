// SPDX-License-Identifier: GPL-2.0
//! Commands of receive queues that are not part of a QP: those of the network interface, and those of users' raw
//! packets and work queues.
//!
//! Source: `mlx5e_create_rq`, `mlx5e_build_rq_param` in core.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use crate::{
    buf::Memory,
    cmd::Command,
    plain_command,
    queue_state::State, //
};

/// log2 of the bytes of a scatter entry.
pub(crate) const LOG_SEGMENT: u8 = 4;

/// Geometry of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// log2 of the number of WQEs.
    pub(crate) log: u8,
    /// log2 of the scatter entries of a WQE.
    pub(crate) log_segments: u8,
    /// The tag stays in the frame.
    pub(crate) keep_vlan: bool,
}

/// CREATE_RQ; the number of the queue, which is in RST.
pub(crate) struct CreateRq<'a> {
    pub(crate) shape: Shape,
    pub(crate) pd: u32,
    pub(crate) cqn: u32,
    /// Counters; 0 for none.
    pub(crate) counter: u8,
    /// Its WQEs.
    pub(crate) memory: Memory<'a>,
    /// DMA address of the doorbell record.
    pub(crate) record: u64,
    /// What CQEs name it by; 0 for who does not look.
    pub(crate) user_index: u32,
}

impl Command for CreateRq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_RQ;
    type In = ifc::create_rq_in;
    type Out = ifc::create_rq_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.memory.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let stride = LOG_SEGMENT + self.shape.log_segments;
        input.with(span!(create_rq_in, ctx), |rqc| {
            rqc.set_flag(field!(rqc, vsd), self.shape.keep_vlan)
                .set(field!(rqc, state), State::Reset.code())
                .set_flag(field!(rqc, flush_in_error_en), true)
                .set(field!(rqc, counter_set_id), self.counter.into())
                .set(field!(rqc, user_index), self.user_index.into())
                .set(field!(rqc, cqn), self.cqn.into());
            rqc.with(span!(rqc, wq), |wq| {
                wq.set(field!(wq, wq_type), raw::MLX5_WQ_TYPE_CYCLIC.into())
                    .set(field!(wq, pd), self.pd.into())
                    .set(field!(wq, page_offset), self.memory.offset())
                    .set(field!(wq, dbr_addr), self.record)
                    .set(field!(wq, log_wq_stride), stride.into())
                    .set(field!(wq, log_wq_sz), self.shape.log.into());
            });
        });
        self.memory
            .write_pas(input.raw(span!(create_rq_in, ctx.wq.pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_rq_out, rqn)))
    }
}

/// MODIFY_RQ from one state to another.
pub(crate) struct MoveRq {
    pub(crate) number: u32,
    pub(crate) from: State,
    pub(crate) to: State,
}

impl Command for MoveRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_RQ;
    type In = ifc::modify_rq_in;
    type Out = ifc::modify_rq_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(modify_rq_in, rqn), self.number.into())
            .set(field!(modify_rq_in, rq_state), self.from.code())
            .set(field!(modify_rq_in, ctx.state), self.to.code());
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// QUERY_RQ: its state.
pub(crate) struct QueryRq {
    pub(crate) number: u32,
}

impl Command for QueryRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_RQ;
    type In = ifc::query_rq_in;
    type Out = ifc::query_rq_out;
    type Output = State;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_rq_in, rqn), self.number.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<State> {
        State::parse(output.get(field!(query_rq_out, rq_context.state)))
    }
}

plain_command! {
    /// DESTROY_RQ.
    DestroyRq, MLX5_CMD_OP_DESTROY_RQ, destroy_rq_in, destroy_rq_out, number: u32 => rqn
}
