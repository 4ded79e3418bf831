// SPDX-License-Identifier: GPL-2.0
//! Tables of receive queues that a hash picks from.

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

/// Bytes of an entry.
const ENTRY: usize = 4;

struct CreateRqt<'a> {
    log: u8,
    queues: &'a [u32],
}

impl Command for CreateRqt<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_RQT;
    type In = ifc::create_rqt_in;
    type Out = ifc::create_rqt_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.queues.len().saturating_mul(ENTRY)
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let size = 1u64.checked_shl(self.log.into()).ok_or(EINVAL)?;
        // CAST: at most `size`.
        let used = self.queues.len() as u64;
        input
            .set(field!(create_rqt_in, rqt_context.rqt_max_size), size)
            .set(field!(create_rqt_in, rqt_context.rqt_actual_size), used);
        write_list(input, self.queues)
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_rqt_out, rqtn)))
    }
}

struct ModifyRqt<'a> {
    number: u32,
    queues: &'a [u32],
}

impl Command for ModifyRqt<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_RQT;
    type In = ifc::modify_rqt_in;
    type Out = ifc::modify_rqt_out;
    type Output = ();

    fn in_tail(&self) -> usize {
        self.queues.len() * ENTRY
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        // CAST: at most 256.
        let size = self.queues.len() as u64;
        input
            .set(field!(modify_rqt_in, rqtn), self.number.into())
            .set_flag(field!(modify_rqt_in, bitmask.rqn_list), true)
            .set(field!(modify_rqt_in, ctx.rqt_actual_size), size);
        write_list(input, self.queues)
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// Writes the numbers behind the fixed part.
fn write_list<L>(input: &mut Mut<'_, L>, queues: &[u32]) -> Result {
    let list = input.tail();
    if list.len() != queues.len() * ENTRY {
        return Err(EINVAL);
    }
    for (place, queue) in list.chunks_exact_mut(ENTRY).zip(queues) {
        place.copy_from_slice(&queue.to_be_bytes());
    }
    Ok(())
}

plain_command! {
    /// DESTROY_RQT.
    DestroyRqt, MLX5_CMD_OP_DESTROY_RQT, destroy_rqt_in, destroy_rqt_out, number: u32 => rqtn
}

/// A table. It must go before its queues.
pub(crate) struct Rqt {
    number: u32,
    home: Home,
}

impl Rqt {
    /// Makes a table of up to `1 << log` RQs, with this one in it. Sleeps.
    pub(super) fn new(home: &Home, log: u8, queue: u32) -> Result<Self> {
        Self::with(home, log, &[queue])
    }

    /// Makes a table of up to `1 << log` RQs, with these in it, a power of two of them. Sleeps.
    pub(crate) fn with(home: &Home, log: u8, queues: &[u32]) -> Result<Self> {
        Ok(Self {
            number: home.cmd().exec(&CreateRqt { log, queues })?,
            home: home.clone(),
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Other queues, a power of two of them. Sleeps.
    pub(super) fn set(&self, queues: &[u32]) -> Result {
        Ok(self.home.cmd().exec(&ModifyRqt {
            number: self.number,
            queues,
        })?)
    }
}

impl Drop for Rqt {
    fn drop(&mut self) {
        self.home.end(&DestroyRqt {
            number: self.number,
        });
    }
}
