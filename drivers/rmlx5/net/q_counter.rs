// SPDX-License-Identifier: GPL-2.0
//! A set of counters of queues: what the card had to drop because a receive queue had no WQE.
//!
//! Source: `mlx5e_create_q_counters` in core/en_main.c.

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
    cmd::Command,
    home::Home,
    plain_command, //
};

struct Alloc;

impl Command for Alloc {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ALLOC_Q_COUNTER;
    type In = ifc::alloc_q_counter_in;
    type Out = ifc::alloc_q_counter_out;
    type Output = u8;

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u8> {
        // CAST: a field of 8 bits.
        Some(output.get(field!(alloc_q_counter_out, counter_set_id)) as u8)
    }
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
    type Output = u32;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_q_counter_in, counter_set_id), self.set.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(query_q_counter_out, out_of_buffer)))
    }
}

/// A set; its queues go before it.
pub(super) struct QCounter {
    set: u8,
    home: Home,
}

impl QCounter {
    /// A set that counts from 0. Sleeps.
    pub(super) fn new(home: &Home) -> Result<Self> {
        Ok(Self {
            set: home.cmd().exec(&Alloc)?,
            home: home.clone(),
        })
    }

    /// Its number.
    pub(super) fn number(&self) -> u8 {
        self.set
    }

    /// Frames that found no WQE; wraps around. Sleeps.
    pub(super) fn out_of_buffer(&self) -> Result<u32> {
        Ok(self.home.cmd().exec(&Query { set: self.set })?)
    }
}

impl Drop for QCounter {
    fn drop(&mut self) {
        self.home.end(&Dealloc {
            set: self.set.into(),
        });
    }
}
