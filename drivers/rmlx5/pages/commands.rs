// SPDX-License-Identifier: GPL-2.0
//! The page commands: QUERY_PAGES and the three forms of MANAGE_PAGES.

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

/// When the device wants pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Right after ENABLE_HCA.
    Boot,
    /// Before INIT_HCA.
    Init,
}

/// QUERY_PAGES: how many pages the device wants for a stage.
pub(super) struct QueryPages(pub(super) Stage);

impl Command for QueryPages {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_PAGES;
    type In = ifc::query_pages_in;
    type Out = ifc::query_pages_out;
    type Output = i32;

    fn op_mod(&self) -> u16 {
        match self.0 {
            Stage::Boot => 1,
            Stage::Init => 2,
        }
    }

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<i32> {
        // CAST: the count is signed.
        Some(output.get32(field!(query_pages_out, num_pages)) as i32)
    }
}

/// MANAGE_PAGES, give.
pub(super) struct GivePages<'a>(pub(super) &'a [u64]);

impl Command for GivePages<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MANAGE_PAGES;
    const PAGES: bool = true;
    type In = ifc::manage_pages_in;
    type Out = ifc::manage_pages_out;
    type Output = ();

    fn op_mod(&self) -> u16 {
        1
    }

    fn in_tail(&self) -> usize {
        self.0.len() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        // CAST: at most `PAGES_PER_COMMAND`.
        input.set(
            field!(manage_pages_in, input_num_entries),
            self.0.len() as u64,
        );
        let list = input.raw(span!(manage_pages_in, pas));
        for (slot, address) in list.chunks_exact_mut(8).zip(self.0) {
            slot.copy_from_slice(&address.to_be_bytes());
        }
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// MANAGE_PAGES, take: the addresses that the device returns.
pub(super) struct TakePages(pub(super) usize);

impl Command for TakePages {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MANAGE_PAGES;
    const PAGES: bool = true;
    type In = ifc::manage_pages_in;
    type Out = ifc::manage_pages_out;
    type Output = KVVec<u64>;

    fn op_mod(&self) -> u16 {
        2
    }

    fn out_tail(&self) -> usize {
        self.0 * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        // CAST: at most `PAGES_PER_COMMAND`.
        input.set(field!(manage_pages_in, input_num_entries), self.0 as u64);
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<KVVec<u64>> {
        // CAST: `usize` has 64 bits here.
        let count = output.get(field!(manage_pages_out, output_num_entries)) as usize;
        if count > self.0 {
            return None;
        }
        let list = output.raw(span!(manage_pages_out, pas));
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL).ok()?;
        for bytes in list.chunks_exact(8).take(count) {
            let mut address = [0u8; 8];
            address.copy_from_slice(bytes);
            pages
                .push_within_capacity(u64::from_be_bytes(address))
                .ok()?;
        }
        Some(pages)
    }
}

/// MANAGE_PAGES, cannot give.
pub(super) struct CannotGive;

impl Command for CannotGive {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MANAGE_PAGES;
    const PAGES: bool = true;
    type In = ifc::manage_pages_in;
    type Out = ifc::manage_pages_out;
    type Output = ();

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}
