// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scatter and gather lists.

use super::wqe::BadWqe;
use crate::mkey::{
    Fault, //
    Memory,
    Need,
    Reach,
    TERMINATE_LKEY,
};

/// A byte count of zero means the most a data segment can hold.
const ZERO_MEANS: u32 = 1 << 31;
const INLINE: u32 = 1 << 31;
/// Length bits of an inline segment.
const INLINE_LEN: u32 = 0x3ff;

/// One entry: memory behind a key, or bytes that stood in the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Memory {
        key: u32,
        va: u64,
        len: u32,
    },
    /// Bytes of [`Segments::inline`].
    Inline {
        start: u32,
        len: u32,
    },
}

impl Segment {
    const fn len(self) -> u32 {
        match self {
            Self::Memory { len, .. } | Self::Inline { len, .. } => len,
        }
    }
}

/// A list of segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    list: Vec<Segment>,
    inline: Vec<u8>,
    /// Sum of the lengths, in 64 bits: 63 segments of 2 GiB do not fit 32.
    len: u64,
}

/// Protection domain and number of the queue that owns a list.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Protection domain.
    pub pd: u32,
    /// Number of the queue.
    pub qpn: u32,
    /// It may use the reserved key.
    pub reserved: bool,
}

fn words(unit: &[u8]) -> (u32, u32, u64) {
    // PANIC: callers pass units of 16 bytes.
    let word = |at: usize| u32::from_be_bytes([unit[at], unit[at + 1], unit[at + 2], unit[at + 3]]);
    (
        word(0),
        word(4),
        u64::from(word(8)) << 32 | u64::from(word(12)),
    )
}

impl Segments {
    /// The list of a send request: data segments and inline segments, in any order.
    pub fn of_send(mut bytes: &[u8]) -> Result<Self, BadWqe> {
        let mut new = Self::default();
        while bytes.len() >= 16 {
            let (count, key, va) = words(&bytes[..16]);
            let took = if count & INLINE != 0 {
                let len = count & INLINE_LEN;
                // CAST: at most 1023 and 1008.
                let data = bytes
                    .get(4..4 + len as usize)
                    .ok_or(BadWqe::InlineLength(len))?;
                let start = new.inline.len() as u32;
                new.inline.extend_from_slice(data);
                new.push(Segment::Inline { start, len });
                (4 + len as usize).next_multiple_of(16)
            } else {
                new.push_memory(count, key, va);
                16
            };
            bytes = bytes.get(took..).unwrap_or(&[]);
        }
        Ok(new)
    }

    /// The list of a receive request: data segments up to the terminator or the end. Bit 31 of a
    /// count means nothing here.
    pub fn of_receive(bytes: &[u8]) -> Self {
        let mut new = Self::default();
        for unit in bytes.chunks_exact(16) {
            let (count, key, va) = words(unit);
            if key == TERMINATE_LKEY && count == 0 {
                break;
            }
            new.push_memory(count & !INLINE, key, va);
        }
        new
    }

    /// A list of one piece of memory.
    #[cfg(test)]
    pub fn one(key: u32, va: u64, len: u32) -> Self {
        let mut new = Self::default();
        new.push_memory(len, key, va);
        new
    }

    fn push_memory(&mut self, count: u32, key: u32, va: u64) {
        let len = if count == 0 { ZERO_MEANS } else { count };
        self.push(Segment::Memory { key, va, len });
    }

    fn push(&mut self, segment: Segment) {
        self.len += u64::from(segment.len());
        self.list.push(segment);
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether some bytes stood in the request.
    pub fn has_inline(&self) -> bool {
        !self.inline.is_empty()
    }

    /// Calls `each` for the parts of `len` bytes from `offset` on; the caller keeps within the
    /// length of the list.
    fn range(
        &self,
        offset: u64,
        len: usize,
        each: &mut dyn FnMut(Segment, u32, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut skip = offset;
        let mut left = len;
        for segment in &self.list {
            if left == 0 {
                break;
            }
            let have = u64::from(segment.len());
            if skip >= have {
                skip -= have;
                continue;
            }
            // CAST: below 2^32 each.
            let part = left.min((have - skip) as usize);
            each(*segment, skip as u32, part)?;
            skip = 0;
            left -= part;
        }
        Ok(())
    }

    /// Copies `buf.len()` bytes from message offset `offset` out of the list.
    pub fn gather(
        &self,
        memory: &mut Memory<'_>,
        owner: Owner,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), Fault> {
        let mut at = 0;
        let len = buf.len();
        self.range(offset, len, &mut |segment, skip, part| {
            // PANIC: the parts of a range add up to at most its length.
            let out = &mut buf[at..at + part];
            at += part;
            match segment {
                Segment::Inline { start, .. } => {
                    // PANIC: inline segments name bytes that `of_send` stored.
                    let from = (start + skip) as usize;
                    out.copy_from_slice(&self.inline[from..from + part]);
                    Ok(())
                }
                Segment::Memory { key, va, .. } => {
                    let reach = owner.reach(key, Need::LocalRead);
                    memory.read(reach, offset_by(key, va, skip, part)?, out)
                }
            }
        })
    }

    /// Copies `buf` to message offset `offset` of the list.
    pub fn scatter(
        &self,
        memory: &mut Memory<'_>,
        owner: Owner,
        offset: u64,
        buf: &[u8],
    ) -> Result<(), Fault> {
        let mut at = 0;
        self.range(offset, buf.len(), &mut |segment, skip, part| {
            // PANIC: the parts of a range add up to at most its length.
            let from = &buf[at..at + part];
            at += part;
            match segment {
                // Receive lists have none, and requests that receive are refused with one.
                Segment::Inline { .. } => Ok(()),
                Segment::Memory { key, va, .. } => {
                    let reach = owner.reach(key, Need::LocalWrite);
                    memory.write(reach, offset_by(key, va, skip, part)?, from)
                }
            }
        })
    }

    /// Whether every byte may be reached before any is moved.
    pub fn check(
        &self,
        memory: &Memory<'_>,
        owner: Owner,
        need: Need,
        len: u64,
    ) -> Result<(), Fault> {
        let mut left = len;
        for segment in &self.list {
            if left == 0 {
                break;
            }
            let part = left.min(segment.len().into());
            if let Segment::Memory { key, va, .. } = *segment {
                memory.check(owner.reach(key, need), va, part)?;
            }
            left -= part;
        }
        Ok(())
    }
}

fn offset_by(key: u32, va: u64, skip: u32, part: usize) -> Result<u64, Fault> {
    va.checked_add(skip.into()).ok_or(Fault::Bounds {
        key,
        va,
        len: part as u64,
    })
}

impl Owner {
    /// An access of this queue.
    pub fn reach(self, key: u32, need: Need) -> Reach {
        Reach {
            key,
            pd: self.pd,
            qpn: self.qpn,
            reserved: self.reserved,
            need,
        }
    }
}
