// SPDX-License-Identifier: GPL-2.0
//! A CQ as the device sees it.

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

use crate::cmd::Command;

/// QUERY_CQ.
pub(crate) struct QueryCq {
    /// Which one.
    pub(crate) number: u32,
}

/// What QUERY_CQ says.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot {
    /// Entries that were written and that the consumer said it has read; 24 bits each.
    pub(crate) producer: u32,
    pub(crate) consumer: u32,
    /// Not 0 when the CQ does not work any more.
    pub(crate) status: u32,
}

impl Snapshot {
    /// Entries that the consumer has not read yet.
    pub(crate) fn unread(&self) -> u32 {
        self.producer.wrapping_sub(self.consumer) & 0xff_ffff
    }
}

impl Command for QueryCq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_CQ;
    type In = ifc::query_cq_in;
    type Out = ifc::query_cq_out;
    type Output = Snapshot;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_cq_in, cqn), self.number.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Snapshot> {
        let cqc = output.sub(span!(query_cq_out, cq_context));
        Some(Snapshot {
            producer: cqc.get32(field!(cqc, producer_counter)),
            consumer: cqc.get32(field!(cqc, consumer_counter)),
            status: cqc.get32(field!(cqc, status)),
        })
    }
}
