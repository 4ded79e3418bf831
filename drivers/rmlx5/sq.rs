// SPDX-License-Identifier: GPL-2.0
//! Commands of send queues that are not part of a QP: those of the network interface, those of users' raw
//! packets, and the one that tries write combining.
//!
//! Source: `mlx5e_create_sq`, `mlx5e_modify_sq` in core/en_main.c, `mlx5_wc_create_sq` in core/wc.c.

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
    queue_state::State,
    wq::SEND_WQE_BYTES, //
};

/// Inline mode "L2 headers" (`MLX5_INLINE_MODE_L2`).
const INLINE_L2: u64 = 1;

/// CREATE_SQ; the number of the queue, which is in RST.
pub(crate) struct CreateSq<'a> {
    /// Its blocks.
    pub(crate) memory: Memory<'a>,
    /// log2 of their number.
    pub(crate) log: u8,
    pub(crate) pd: u32,
    pub(crate) cqn: u32,
    /// Doorbell page.
    pub(crate) uar: u32,
    /// DMA address of the doorbell record.
    pub(crate) record: u64,
    /// Where its packets go; none for a queue that sends no packet.
    pub(crate) tis: Option<u32>,
    /// WQEs carry the Ethernet header.
    pub(crate) inline_mode: bool,
    /// What CQEs name it by; 0 for who does not look.
    pub(crate) user_index: u32,
}

impl Command for CreateSq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_SQ;
    type In = ifc::create_sq_in;
    type Out = ifc::create_sq_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.memory.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.with(span!(create_sq_in, ctx), |sqc| {
            sqc.set_flag(field!(sqc, flush_in_error_en), true)
                .set(field!(sqc, state), State::Reset.code())
                .set(field!(sqc, user_index), self.user_index.into())
                .set(field!(sqc, cqn), self.cqn.into());
            if let Some(tis) = self.tis {
                sqc.set(field!(sqc, tis_lst_sz), 1)
                    .set(field!(sqc, tis_num_0), tis.into());
            }
            if self.inline_mode {
                sqc.set(field!(sqc, min_wqe_inline_mode), INLINE_L2);
            }
            sqc.with(span!(sqc, wq), |wq| {
                wq.set(field!(wq, wq_type), raw::MLX5_WQ_TYPE_CYCLIC.into())
                    .set(field!(wq, pd), self.pd.into())
                    .set(field!(wq, uar_page), self.uar.into())
                    .set(field!(wq, page_offset), self.memory.offset())
                    .set(field!(wq, dbr_addr), self.record)
                    .set(field!(wq, log_wq_stride), SEND_WQE_BYTES.ilog2().into())
                    .set(field!(wq, log_wq_sz), self.log.into());
            });
        });
        self.memory
            .write_pas(input.raw(span!(create_sq_in, ctx.wq.pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_sq_out, sqn)))
    }
}

/// MODIFY_SQ from one state to another.
pub(crate) struct MoveSq {
    pub(crate) number: u32,
    pub(crate) from: State,
    pub(crate) to: State,
}

impl Command for MoveSq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_SQ;
    type In = ifc::modify_sq_in;
    type Out = ifc::modify_sq_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(modify_sq_in, sqn), self.number.into())
            .set(field!(modify_sq_in, sq_state), self.from.code())
            .set(field!(modify_sq_in, ctx.state), self.to.code());
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// QUERY_SQ: its state.
pub(crate) struct QuerySq {
    pub(crate) number: u32,
}

impl Command for QuerySq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_SQ;
    type In = ifc::query_sq_in;
    type Out = ifc::query_sq_out;
    type Output = State;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_sq_in, sqn), self.number.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<State> {
        State::parse(output.get(field!(query_sq_out, sq_context.state)))
    }
}

plain_command! {
    /// DESTROY_SQ.
    DestroySq, MLX5_CMD_OP_DESTROY_SQ, destroy_sq_in, destroy_sq_out, number: u32 => sqn
}
