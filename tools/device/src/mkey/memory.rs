// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory seen through memory keys.

use super::{
    Mkey, //
    Mode,
    ANY_QP,
    MTT_ADDRESS,
    MTT_READ,
    MTT_WRITE,
    RESERVED_LKEY,
};
use crate::{
    env::Env, //
    host::DmaError,
    table::Table,
    violation::Violation,
};

/// Indirect keys may point to indirect keys; deeper than this is refused.
const MAX_DEPTH: u32 = 4;
/// Most pieces of an indirect key that one access may pass: KLM pieces of length zero make no
/// progress, and a packet is short.
const MAX_PIECES: u32 = 1 << 16;

/// What an access wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Fetch for a queue of this side.
    LocalRead,
    /// Store for a queue of this side.
    LocalWrite,
    /// RDMA READ by the other side.
    RemoteRead,
    /// RDMA WRITE by the other side.
    RemoteWrite,
    /// Atomic operation by the other side.
    Atomic,
}

impl Need {
    const fn writes(self) -> bool {
        matches!(self, Self::LocalWrite | Self::RemoteWrite | Self::Atomic)
    }

    /// What an access through an indirect key needs of the keys it is made of: those are the
    /// owner's own, remote rights are those of the indirect key. (`mlx5_ib_sg_to_klms` in ib/mr.c
    /// puts the PD's local key there.)
    const fn inside(self) -> Self {
        match self {
            Self::LocalRead | Self::RemoteRead => Self::LocalRead,
            Self::LocalWrite | Self::RemoteWrite | Self::Atomic => Self::LocalWrite,
        }
    }

    const fn reads(self) -> bool {
        !matches!(self, Self::LocalWrite | Self::RemoteWrite)
    }
}

/// Who asks, with which key, for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Index and variant.
    pub key: u32,
    /// Protection domain of the queue.
    pub pd: u32,
    /// Number of the queue.
    pub qpn: u32,
    /// It may use the reserved key.
    pub reserved: bool,
    /// The right it needs.
    pub need: Need,
}

impl Reach {
    /// A local access with the reserved key, which reaches every bus address.
    fn is_reserved(&self) -> bool {
        self.reserved
            && self.key == RESERVED_LKEY
            && matches!(self.need, Need::LocalRead | Need::LocalWrite)
    }
}

/// Why an access is refused. Nothing was moved, or a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error("no key {0:#x}")]
    NoKey(u32),
    #[error("key {0:#x} is free")]
    Free(u32),
    #[error("key {key:#x} belongs to PD {owner:#x}, not to {pd:#x}")]
    Pd { key: u32, owner: u32, pd: u32 },
    #[error("key {key:#x} belongs to QP {owner:#x}, not to {qpn:#x}")]
    Qp { key: u32, owner: u32, qpn: u32 },
    #[error("key {key:#x} does not permit {need:?}")]
    Rights { key: u32, need: Need },
    #[error("{len} bytes at {va:#x} are outside key {key:#x}")]
    Bounds { key: u32, va: u64, len: u64 },
    #[error("key {key:#x} has no translation for {va:#x}")]
    Unmapped { key: u32, va: u64 },
    #[error("key {0:#x} is nested too deep")]
    Depth(u32),
    #[error("DMA error: {0}")]
    Dma(#[from] DmaError),
}

impl Fault {
    /// The same in the table of all violations.
    pub const fn violation(self) -> Violation {
        match self {
            Self::NoKey(_) => Violation::KeyUnknown,
            Self::Free(_) => Violation::KeyFree,
            Self::Pd { .. } => Violation::KeyDomain,
            Self::Qp { .. } => Violation::KeyQueue,
            Self::Rights { .. } => Violation::KeyRights,
            Self::Bounds { .. } => Violation::KeyBounds,
            Self::Unmapped { .. } => Violation::KeyUnmapped,
            Self::Depth(_) => Violation::KeyDepth,
            Self::Dma(_) => Violation::KeyDma,
        }
    }
}

/// Keys, and the host memory behind them.
pub struct Memory<'a> {
    /// Access to host memory.
    pub env: &'a mut Env,
    /// All keys, by index.
    pub keys: &'a Table<Mkey>,
}

impl Memory<'_> {
    /// Whether `len` bytes at `va` may be reached, as far as the key itself says. Empty accesses
    /// need no key, as the specification has it for RDMA of length zero.
    pub fn check(&self, reach: Reach, va: u64, len: u64) -> Result<(), Fault> {
        if len == 0 || reach.is_reserved() {
            return Ok(());
        }
        key(self.keys, reach, va, len).map(|_| ())
    }

    /// Reads into `buf`.
    pub fn read(&mut self, reach: Reach, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let mut at = 0;
        let len = buf.len() as u64;
        let env = &mut *self.env;
        Walk::new(self.keys).run(reach, va, len, 0, &mut |addr, len| {
            // PANIC: the pieces of a walk add up to its length.
            env.read(addr, &mut buf[at..at + len])?;
            at += len;
            Ok(())
        })
    }

    /// Writes `buf`.
    pub fn write(&mut self, reach: Reach, va: u64, buf: &[u8]) -> Result<(), Fault> {
        let mut at = 0;
        let env = &mut *self.env;
        Walk::new(self.keys).run(reach, va, buf.len() as u64, 0, &mut |addr, len| {
            // PANIC: the pieces of a walk add up to its length.
            env.write(addr, &buf[at..at + len])?;
            at += len;
            Ok(())
        })
    }

    /// Replaces the eight bytes at `va` in one step; the old value. Both are the bytes of memory
    /// read as a little endian number. `va` must be 8-byte aligned, and so must its translation.
    pub fn update64(
        &mut self,
        reach: Reach,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault> {
        let mut old = 0;
        let env = &mut *self.env;
        Walk::new(self.keys).run(reach, va, 8, 0, &mut |addr, len| {
            if len != 8 || addr % 8 != 0 {
                return Err(Fault::Unmapped { key: reach.key, va });
            }
            old = env.update64(addr, change)?;
            Ok(())
        })?;
        Ok(old)
    }
}

/// The key of an access, with every check that does not need translations.
fn key(keys: &Table<Mkey>, reach: Reach, va: u64, len: u64) -> Result<&Mkey, Fault> {
    let Reach {
        key, pd, qpn, need, ..
    } = reach;
    let mkey = keys.get(key >> 8).ok_or(Fault::NoKey(key))?;
    // CAST: the low byte.
    if mkey.variant != key as u8 {
        return Err(Fault::NoKey(key));
    }
    if mkey.free {
        return Err(Fault::Free(key));
    }
    if mkey.pd != pd {
        let owner = mkey.pd;
        return Err(Fault::Pd { key, owner, pd });
    }
    if mkey.qpn != ANY_QP && mkey.qpn != qpn {
        let owner = mkey.qpn;
        return Err(Fault::Qp { key, owner, qpn });
    }
    let allowed = match need {
        Need::LocalRead => mkey.rights.local_read,
        Need::LocalWrite => mkey.rights.local_write,
        Need::RemoteRead => mkey.rights.remote_read,
        Need::RemoteWrite => mkey.rights.remote_write,
        Need::Atomic => mkey.rights.atomic,
    };
    if !allowed {
        return Err(Fault::Rights { key, need });
    }
    mkey.contains(va, len)
        .then_some(mkey)
        .ok_or(Fault::Bounds { key, va, len })
}

/// One access on its way through the keys.
struct Walk<'a> {
    keys: &'a Table<Mkey>,
    pieces: u32,
}

type Each<'a> = &'a mut dyn FnMut(u64, usize) -> Result<(), Fault>;

impl<'a> Walk<'a> {
    fn new(keys: &'a Table<Mkey>) -> Self {
        Self { keys, pieces: 0 }
    }

    /// Calls `each` for the pieces of bus address space behind `len` bytes at `va`, in order.
    fn run(
        &mut self,
        reach: Reach,
        va: u64,
        len: u64,
        depth: u32,
        each: Each<'_>,
    ) -> Result<(), Fault> {
        if len == 0 {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            return Err(Fault::Depth(reach.key));
        }
        if reach.is_reserved() {
            // CAST: buffers of the emulator are shorter than usize.
            return each(va, len as usize);
        }
        let mkey = key(self.keys, reach, va, len)?;
        match mkey.mode {
            // CAST: buffers of the emulator are shorter than usize.
            Mode::Pa => each(va, len as usize),
            Mode::Mtt => mtt(mkey, reach, va, len, each),
            Mode::Klm | Mode::Ksm => self.indirect(mkey, reach, va, len, depth, each),
        }
    }

    fn indirect(
        &mut self,
        mkey: &Mkey,
        reach: Reach,
        va: u64,
        len: u64,
        depth: u32,
        each: Each<'_>,
    ) -> Result<(), Fault> {
        let mut done = 0;
        let mut cursor = Cursor::default();
        while done < len {
            // Bounds were checked: `va + done` does not wrap.
            let here = va + done;
            self.pieces += 1;
            let piece = mkey
                .piece(here, &mut cursor)
                .filter(|_| self.pieces <= MAX_PIECES)
                .ok_or(Fault::Unmapped {
                    key: reach.key,
                    va: here,
                })?;
            let part = piece.room.min(len - done);
            let inner = Reach {
                key: piece.key,
                need: reach.need.inside(),
                ..reach
            };
            self.run(inner, piece.va, part, depth + 1, each)?;
            done += part;
        }
        Ok(())
    }
}

/// Page by page; neighbouring pages become one access.
fn mtt(mkey: &Mkey, reach: Reach, va: u64, len: u64, each: Each<'_>) -> Result<(), Fault> {
    let mut run: Option<(u64, u64)> = None;
    let mut done = 0;
    while done < len {
        // Bounds were checked: `va + done` does not wrap.
        let here = va + done;
        let (addr, room) = mkey.page(here, reach.need).ok_or(Fault::Unmapped {
            key: reach.key,
            va: here,
        })?;
        let piece = room.min(len - done);
        done += piece;
        run = match run {
            Some((start, had)) if start.checked_add(had) == Some(addr) => {
                Some((start, had + piece))
            }
            Some((start, had)) => {
                // CAST: part of a buffer of the emulator.
                each(start, had as usize)?;
                Some((addr, piece))
            }
            None => Some((addr, piece)),
        };
    }
    // CAST: part of a buffer of the emulator.
    run.map_or(Ok(()), |(start, had)| each(start, had as usize))
}

/// Where a walk over KLM entries stands: entry, and the offset at which it starts.
#[derive(Default)]
struct Cursor {
    entry: usize,
    base: u64,
}

/// Part of an indirect key.
struct Piece {
    key: u32,
    va: u64,
    room: u64,
}

impl Mkey {
    /// Bounds by subtraction: address plus length may wrap, the differences cannot.
    fn contains(&self, va: u64, len: u64) -> bool {
        if self.length64 {
            return len == 0 || va.checked_add(len - 1).is_some();
        }
        match va.checked_sub(self.start) {
            Some(offset) => offset <= self.len && len <= self.len - offset,
            None => false,
        }
    }

    /// Bus address of `va` and the bytes left in its page. The first entry covers the page that
    /// contains the start address.
    fn page(&self, va: u64, need: Need) -> Option<(u64, u64)> {
        let size = 1u64.checked_shl(self.log_page.into())?;
        let first = self.start & (size - 1);
        let offset = va.checked_sub(self.start)?.checked_add(first)?;
        let entry = *self
            .xlt
            .get(usize::try_from(offset >> self.log_page).ok()?)?;
        if need.reads() && entry & MTT_READ == 0 || need.writes() && entry & MTT_WRITE == 0 {
            return None;
        }
        let within = offset & (size - 1);
        let addr = (entry & MTT_ADDRESS).checked_add(within)?;
        Some((addr, size - within))
    }

    /// The piece of an indirect key at `va`. `cursor` moves forward only.
    fn piece(&self, va: u64, cursor: &mut Cursor) -> Option<Piece> {
        let entry = |index: usize| -> Option<(u64, u32, u64)> {
            let at = index.checked_mul(2)?;
            let head = *self.xlt.get(at)?;
            // CAST: upper and lower half.
            Some((head >> 32, head as u32, *self.xlt.get(at + 1)?))
        };
        let offset = va.checked_sub(self.start)?;
        if self.mode == Mode::Ksm {
            let size = 1u64.checked_shl(self.log_page.into())?;
            let offset = offset.checked_add(self.start & (size - 1))?;
            let (_, key, base) = entry(usize::try_from(offset >> self.log_page).ok()?)?;
            let within = offset & (size - 1);
            return Some(Piece {
                key,
                va: base.checked_add(within)?,
                room: size - within,
            });
        }
        // Ends at the last entry of the key.
        loop {
            let (len, key, base) = entry(cursor.entry)?;
            let within = offset.checked_sub(cursor.base)?;
            if within < len {
                return Some(Piece {
                    key,
                    va: base.checked_add(within)?,
                    room: len - within,
                });
            }
            cursor.base = cursor.base.checked_add(len)?;
            cursor.entry += 1;
        }
    }
}
