// SPDX-License-Identifier: GPL-2.0
//! Mailbox blocks: where the bytes of a command go that do not fit its entry.
//!
//! Blocks are 1024 bytes apart and 576 bytes long: 512 of data, then next pointer, number and token
//! (`mlx5_cmd_prot_block` in include/linux/mlx5/device.h). They live in arenas that are allocated
//! once and kept, so that a command during recovery or under memory pressure allocates nothing.

use core::mem::size_of;

use kernel::{
    device::{
        Bound,
        Device, //
    },
    prelude::*,
    sync::SetOnce, //
};
use kernel_ext::numa::Node;
use mlx5_hw::{
    raw::mlx5_cmd_prot_block,
    wire,
    wire::put, //
};

use crate::buf::Buf;

/// Distance of two blocks, also their alignment.
const STRIDE: usize = 1024;
/// Data bytes of a block.
pub(crate) const DATA: usize = 512;
/// Blocks of one arena.
const ARENA_BLOCKS: usize = 64;
/// Arenas at most: an input of 2 MiB, and one more for its answer and for a page command beside it.
const ARENAS: usize = 64 + 1;
/// Blocks of the longest page command, input and output. Others leave as many free: the device may want
/// pages for the command that has all the rest.
const PAGE_BLOCKS: usize = 2 * blocks_for(16 + 8 * super::queue::PAGES_PER_COMMAND);
/// End of a list.
const NIL: u16 = u16::MAX;

/// Blocks needed for `len` bytes of which the first 16 travel in the entry.
pub(crate) const fn blocks_for(len: usize) -> usize {
    len.saturating_sub(16).div_ceil(DATA)
}

/// A list of blocks. Whoever holds it owns the blocks; it is returned with [`Free::put`].
pub(crate) struct Chain {
    head: u16,
    blocks: u16,
}

impl Default for Chain {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Chain {
    /// No block.
    pub(crate) const EMPTY: Self = Self {
        head: NIL,
        blocks: 0,
    };

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.into()
    }
}

/// The free list, under the lock of the command table. No call sleeps or allocates.
pub(crate) struct Free {
    next: KVec<u16>,
    head: u16,
    count: usize,
}

impl Free {
    /// An empty list that can hold the blocks of all arenas.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            next: KVec::from_elem(NIL, ARENAS * ARENA_BLOCKS, GFP_KERNEL)?,
            head: NIL,
            count: 0,
        })
    }

    /// Takes `blocks` blocks, or none. `pages`: for a page command.
    pub(crate) fn take(&mut self, blocks: usize, pages: bool) -> Option<Chain> {
        let kept = if pages { 0 } else { PAGE_BLOCKS };
        if blocks.saturating_add(kept) > self.count {
            return None;
        }
        let head = self.head;
        let mut last = NIL;
        for _ in 0..blocks {
            last = self.head;
            self.head = *self.next.get(usize::from(last))?;
        }
        if let Some(link) = self.next.get_mut(usize::from(last)) {
            *link = NIL;
        }
        self.count -= blocks;
        // CAST: at most 4160 blocks exist.
        Some(Chain {
            head: if blocks == 0 { NIL } else { head },
            blocks: blocks as u16,
        })
    }

    /// Gives blocks back.
    pub(crate) fn put(&mut self, chain: Chain) {
        let mut at = chain.head;
        for _ in 0..chain.blocks {
            let Some(link) = self.next.get_mut(usize::from(at)) else {
                return;
            };
            let following = *link;
            *link = self.head;
            self.head = at;
            self.count += 1;
            at = following;
        }
    }

    /// The indexes of `chain` in order, for use without the lock while the caller owns the chain.
    /// `out` has the room: nothing is allocated.
    pub(crate) fn list(&self, chain: &Chain, out: &mut [u16]) {
        let mut at = chain.head;
        for slot in out.iter_mut().take(chain.blocks.into()) {
            *slot = at;
            at = self.next.get(usize::from(at)).copied().unwrap_or(NIL);
        }
    }

    /// Adds the blocks of arena `number`.
    fn add_arena(&mut self, number: usize) {
        for block in number * ARENA_BLOCKS..(number + 1) * ARENA_BLOCKS {
            // CAST: at most 4160 blocks exist.
            self.put(Chain {
                head: block as u16,
                blocks: 1,
            });
        }
    }
}

/// The memory behind the blocks. Arenas are added, never removed before drop.
pub(crate) struct Memory {
    arenas: KVec<SetOnce<Buf>>,
}

impl Memory {
    /// No memory yet.
    pub(crate) fn new() -> Result<Self> {
        let mut arenas = KVec::with_capacity(ARENAS, GFP_KERNEL)?;
        for _ in 0..ARENAS {
            arenas.push(SetOnce::new(), GFP_KERNEL)?;
        }
        Ok(Self { arenas })
    }

    /// Allocates one more arena; `ENOMEM` when all exist. Sleeps; `publish` runs afterwards and puts
    /// the blocks on the free list.
    pub(crate) fn grow(
        &self,
        dev: &Device<Bound>,
        node: Node,
        publish: impl FnOnce(&dyn Fn(&mut Free)),
    ) -> Result {
        let mut memory = Some(Buf::new(dev, node, ARENA_BLOCKS * STRIDE)?);
        for (number, arena) in self.arenas.iter().enumerate() {
            if arena.as_ref().is_some() {
                continue;
            }
            let Some(buf) = memory.take() else { break };
            if arena.populate(buf) {
                publish(&|free: &mut Free| free.add_arena(number));
                return Ok(());
            }
            // Somebody else was faster: the buffer is gone, the blocks of the other are there.
            return Ok(());
        }
        Err(ENOMEM)
    }

    fn place(&self, block: u16) -> Result<(&Buf, usize)> {
        let block = usize::from(block);
        let arena = self.arenas.get(block / ARENA_BLOCKS).ok_or(ERANGE)?;
        Ok((arena.as_ref().ok_or(ERANGE)?, block % ARENA_BLOCKS * STRIDE))
    }

    /// Bus address of a block, 0 for none.
    pub(crate) fn address(&self, block: Option<u16>) -> Result<u64> {
        let Some(block) = block else { return Ok(0) };
        let (buf, at) = self.place(block)?;
        buf.address(at)
    }

    /// Writes the bytes of a command behind the first 16 into its blocks, and links them.
    ///
    /// `data` may be shorter than the chain: what is missing is zero (output chains pass nothing).
    pub(crate) fn write(&self, blocks: &[u16], token: u8, data: &[u8]) -> Result {
        let mut rest = data;
        for (number, block) in blocks.iter().enumerate() {
            let mut image = [0u8; size_of::<mlx5_cmd_prot_block>()];
            let (head, tail) = rest.split_at(rest.len().min(DATA));
            if let Some(to) = image.get_mut(..head.len()) {
                to.copy_from_slice(head);
            }
            rest = tail;
            let next = self.address(blocks.get(number + 1).copied())?;
            // CAST: at most 4160 blocks exist.
            let fits = put(&mut image, wire!(mlx5_cmd_prot_block, next), next)
                && put(
                    &mut image,
                    wire!(mlx5_cmd_prot_block, block_num),
                    number as u64,
                )
                && put(&mut image, wire!(mlx5_cmd_prot_block, token), token.into());
            if !fits {
                return Err(ERANGE);
            }
            let (buf, at) = self.place(*block)?;
            buf.write(at, &image)?;
        }
        Ok(())
    }

    /// Reads the bytes of an answer behind the first 16 out of its blocks.
    pub(crate) fn read(&self, blocks: &[u16], data: &mut [u8]) -> Result {
        let mut rest = data;
        for block in blocks {
            let (buf, at) = self.place(*block)?;
            let n = rest.len().min(DATA);
            let (head, tail) = rest.split_at_mut_checked(n).ok_or(ERANGE)?;
            buf.read(at, head)?;
            rest = tail;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(ERANGE)
        }
    }
}
