// SPDX-License-Identifier: GPL-2.0
//! Commands of the shared receive queues of extended reliable connections: senders name them, and their
//! completions go to a CQ of their own. Source: `create_xrc_srq_cmd` and its neighbours in ib/srq_cmd.c.

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

use super::Config;
use crate::{
    buf::Memory,
    cmd::Command,
    plain_command, //
};

/// What an XRC SRQ has and others have not.
#[derive(Clone, Copy)]
pub(crate) struct Xrc {
    /// Number of its XRC domain.
    pub(crate) xrcdn: u32,
    /// Where its completions go.
    pub(crate) cqn: u32,
    /// What CQEs name it by, when they can carry that.
    pub(crate) user_index: Option<u32>,
}

/// CREATE_XRC_SRQ; the number of the queue.
pub(crate) struct CreateXrcSrq<'a> {
    pub(crate) config: &'a Config,
    pub(crate) xrc: Xrc,
    pub(crate) memory: Memory<'a>,
    /// Bus address of the doorbell record, a multiple of 4.
    pub(crate) record: u64,
}

impl Command for CreateXrcSrq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_XRC_SRQ;
    type In = ifc::create_xrc_srq_in;
    type Out = ifc::create_xrc_srq_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.memory.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.with(span!(create_xrc_srq_in, xrc_srq_context_entry), |srqc| {
            srqc.set(
                field!(xrc_srqc, log_xrc_srq_size),
                self.config.log_entries.into(),
            )
            // Counted from 16 bytes.
            .set(
                field!(xrc_srqc, log_rq_stride),
                self.config.log_stride.wrapping_sub(4).into(),
            )
            .set(field!(xrc_srqc, page_offset), self.memory.offset())
            .set(field!(xrc_srqc, pd), self.config.pd.into())
            .set(field!(xrc_srqc, xrcd), self.xrc.xrcdn.into())
            .set(field!(xrc_srqc, cqn), self.xrc.cqn.into())
            .set(field!(xrc_srqc, db_record_addr_h), self.record >> 32)
            .set(
                field!(xrc_srqc, db_record_addr_l),
                (self.record & 0xffff_ffff) >> 2,
            );
            if let Some(index) = self.xrc.user_index {
                srqc.set(field!(xrc_srqc, user_index), index.into());
            }
        });
        self.memory
            .write_pas(input.raw(span!(create_xrc_srq_in, pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_xrc_srq_out, xrc_srqn)))
    }
}

pub(super) struct ArmXrcSrq {
    pub(super) number: u32,
    pub(super) limit: u16,
}

impl Command for ArmXrcSrq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ARM_XRC_SRQ;
    type In = ifc::arm_xrc_srq_in;
    type Out = ifc::arm_xrc_srq_out;
    type Output = ();

    fn op_mod(&self) -> u16 {
        // CAST: 1.
        raw::MLX5_ARM_XRC_SRQ_IN_OP_MOD_XRC_SRQ as u16
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(arm_xrc_srq_in, xrc_srqn), self.number.into())
            .set(field!(arm_xrc_srq_in, lwm), self.limit.into());
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

pub(super) struct QueryXrcSrq {
    pub(super) number: u32,
}

impl Command for QueryXrcSrq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_XRC_SRQ;
    type In = ifc::query_xrc_srq_in;
    type Out = ifc::query_xrc_srq_out;
    type Output = u16;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_xrc_srq_in, xrc_srqn), self.number.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u16> {
        // CAST: a field of 16 bits.
        Some(output.get(field!(query_xrc_srq_out, xrc_srq_context_entry.lwm)) as u16)
    }
}

plain_command! {
    /// DESTROY_XRC_SRQ.
    DestroyXrcSrq, MLX5_CMD_OP_DESTROY_XRC_SRQ, destroy_xrc_srq_in, destroy_xrc_srq_out,
    number: u32 => xrc_srqn
}
