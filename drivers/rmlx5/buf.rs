// SPDX-License-Identifier: GPL-2.0
//! Memory that the device reads and writes: queue buffers, mailboxes, doorbell pages.
//!
//! A [`Buf`] is made of chunks that are contiguous for the device, so that a deep queue does not
//! need one huge allocation. The device sees a list of 4 KiB pages (PAS). An entry whose size is a
//! power of two never crosses a chunk.

pub(crate) mod user;

use kernel::{
    device::{
        Bound,
        Device, //
    },
    dma::Coherent,
    io::{
        io_project,
        io_read,
        io_write,
        Io,
        IoBase,
        SysMem, //
    },
    prelude::*,
    sync::barrier::{
        self,
        dma_mb, //
    }, //
};
use kernel_ext::numa::{
    self,
    Node, //
};

use self::user::UserBuf;
use crate::census::{
    Counted,
    Kind, //
};

/// Bytes of one page of the list the device gets.
pub(crate) const PAGE: usize = 4096;

/// Bytes of an entry of most queues.
pub(crate) const BLOCK: usize = 64;

/// A block, as it is moved: words are copied as such, bytes one by one.
type Words = [u64; BLOCK / 8];

/// Bytes that must be contiguous at most.
const CHUNK: usize = 64 * 1024;

/// DMA memory, zeroed when allocated, at least one page.
///
/// All accessors check the range and fail with `ERANGE`; they never stop the kernel. Reads and
/// writes of single bytes are volatile; ordering against the device is the caller's (`dma_mb`).
/// The owner must know that the device has let go of the memory before it drops this.
pub(crate) struct Buf {
    chunks: KVec<Coherent<[u8]>>,
    len: usize,
    _counted: Counted,
}

impl Buf {
    /// Allocates `len` bytes, rounded up to whole pages, on `node` where possible.
    ///
    /// Sleeps. Fails with `ENOMEM`, or `EINVAL` when `len` is zero.
    pub(crate) fn new(dev: &Device<Bound>, node: Node, len: usize) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        let len = len.checked_next_multiple_of(PAGE).ok_or(ENOMEM)?;
        let mut chunks = KVec::with_capacity(len.div_ceil(CHUNK), GFP_KERNEL)?;
        let mut left = len;
        while left > 0 {
            let part = left.min(CHUNK);
            chunks.push(numa::coherent(dev, node, part)?, GFP_KERNEL)?;
            left -= part;
        }
        Ok(Self {
            chunks,
            len,
            _counted: Counted::new(Kind::Buffer),
        })
    }

    /// Length in bytes, a multiple of [`PAGE`].
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of 4 KiB pages.
    pub(crate) fn pages(&self) -> usize {
        self.len / PAGE
    }

    /// Bus address of the byte at `at`.
    pub(crate) fn address(&self, at: usize) -> Result<u64> {
        let chunk = self.chunks.get(at / CHUNK).ok_or(ERANGE)?;
        let offset = at % CHUNK;
        if offset >= chunk.len() {
            return Err(ERANGE);
        }
        // CAST: an offset within 64 KiB.
        Ok(chunk.dma_address().wrapping_add(offset as u64))
    }

    /// Writes the page list, 8 bytes big endian a page, to the start of `pas`.
    pub(crate) fn write_pas(&self, pas: &mut [u8]) -> Result {
        for page in 0..self.pages() {
            let address = self.address(page * PAGE)?;
            let slot = pas.get_mut(page * 8..page * 8 + 8).ok_or(ERANGE)?;
            slot.copy_from_slice(&address.to_be_bytes());
        }
        Ok(())
    }

    /// Reads one byte, volatile.
    #[inline]
    pub(crate) fn read8(&self, at: usize) -> Result<u8> {
        let chunk = self.chunks.get(at / CHUNK).ok_or(ERANGE)?;
        Ok(io_read!(chunk, [try: at % CHUNK]))
    }

    /// Writes one byte, volatile.
    #[inline]
    pub(crate) fn write8(&self, at: usize, value: u8) -> Result {
        let chunk = self.chunks.get(at / CHUNK).ok_or(ERANGE)?;
        io_write!(chunk, [try: at % CHUNK], value);
        Ok(())
    }

    /// Writes 8 bytes, big endian, in one access. `at` is a multiple of 8.
    #[inline]
    pub(crate) fn write_be64(&self, at: usize, value: u64) -> Result {
        let chunk = self.chunks.get(at / CHUNK).ok_or(ERANGE)?;
        let word = io_project!(chunk, [try: at % CHUNK..]).try_cast::<u64>()?;
        word.write_val(value.to_be());
        Ok(())
    }

    /// The block at `at`, a multiple of its size.
    #[inline(always)]
    fn block(&self, at: usize) -> Result<SysMem<'_, Words>> {
        let chunk = self.chunks.get(at / CHUNK).ok_or(ERANGE)?;
        let chunk = chunk.as_view().as_sys_mem();
        io_project!(chunk, [try: at % CHUNK..]).try_cast()
    }

    /// Reads the block at `at`, a multiple of its size, by words, if `is_written` says so of its last byte: the
    /// device writes that last, and it is read before the rest.
    #[inline(always)]
    pub(crate) fn read_written(
        &self,
        at: usize,
        is_written: impl FnOnce(u8) -> bool,
    ) -> Option<[u8; BLOCK]> {
        let place = self.block(at).ok()?;
        let [.., last] = io_read!(place, [build: BLOCK / 8 - 1]).to_ne_bytes();
        if !is_written(last) {
            return None;
        }
        dma_mb(barrier::Read);
        let mut block = [0; BLOCK];
        for (bytes, word) in block.chunks_exact_mut(8).zip(place.copy_read()) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Some(block)
    }

    /// Writes the block at `at`, a multiple of its size, by words.
    #[inline(always)]
    pub(crate) fn write_block(&self, at: usize, block: &[u8; BLOCK]) -> Result {
        let place = self.block(at)?;
        for (n, bytes) in block.chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(*bytes.first_chunk().ok_or(ERANGE)?);
            io_write!(place, [try: n], word);
        }
        Ok(())
    }

    /// Copies out of the buffer.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> Result {
        let mut at = at;
        let mut rest = to;
        while !rest.is_empty() {
            let chunk = self.chunks.get(at / CHUNK).ok_or(ERANGE)?;
            let offset = at % CHUNK;
            let n = rest.len().min(CHUNK - offset);
            let (head, tail) = rest.split_at_mut_checked(n).ok_or(ERANGE)?;
            // PANIC: the view is as long as `head` by the range.
            io_project!(chunk, [try: offset..offset + n]).copy_to_slice(head);
            rest = tail;
            at += n;
        }
        Ok(())
    }

    /// Copies into the buffer.
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> Result {
        let mut at = at;
        let mut rest = from;
        while !rest.is_empty() {
            let chunk = self.chunks.get(at / CHUNK).ok_or(ERANGE)?;
            let offset = at % CHUNK;
            let n = rest.len().min(CHUNK - offset);
            let (head, tail) = rest.split_at_checked(n).ok_or(ERANGE)?;
            // PANIC: the view is as long as `head` by the range.
            io_project!(chunk, [try: offset..offset + n]).copy_from_slice(head);
            rest = tail;
            at += n;
        }
        Ok(())
    }

    /// Zeroes the whole buffer. The device must not use it meanwhile.
    pub(crate) fn clear(&self) -> Result {
        self.fill(&[0; BLOCK])
    }

    /// Makes every block of the buffer the same. The device must not use it meanwhile.
    pub(crate) fn fill(&self, block: &[u8; BLOCK]) -> Result {
        // Few large copies. A buffer is whole pages.
        let image = [*block; PAGE / BLOCK / 4];
        let image = image.as_flattened();
        for at in (0..self.len).step_by(image.len()) {
            self.write(at, image)?;
        }
        Ok(())
    }
}

/// The memory of a queue, as commands describe it to the device: a list of 4 KiB pages, and where
/// the queue begins in the first one.
#[derive(Clone, Copy)]
pub(crate) enum Memory<'a> {
    /// Of the driver.
    Own(&'a Buf),
    /// Of a process.
    User(&'a UserBuf),
}

impl Memory<'_> {
    /// Number of 4 KiB pages.
    pub(crate) fn pages(self) -> usize {
        match self {
            Self::Own(buf) => buf.pages(),
            Self::User(buf) => buf.pages(),
        }
    }

    /// Where the queue begins in the first page, in units of 64 bytes (`page_offset` of contexts).
    pub(crate) fn offset(self) -> u64 {
        match self {
            Self::Own(_) => 0,
            Self::User(buf) => buf.offset(),
        }
    }

    /// Writes the page list, 8 bytes big endian a page, to the start of `pas`.
    pub(crate) fn write_pas(self, pas: &mut [u8]) -> Result {
        match self {
            Self::Own(buf) => buf.write_pas(pas),
            Self::User(buf) => buf.write_pas(pas),
        }
    }
}
