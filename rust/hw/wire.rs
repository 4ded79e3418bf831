// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! Access to byte structures with big endian members (`mlx5_cqe64`, `mlx5_eqe`, WQE segments).
//!
//! [`wire!`] turns a member path of a C structure into a checked [`Member`]; [`get`] and [`put`]
//! move big endian values of 1, 2, 4 or 8 bytes between it and a byte slice.

use core::marker::PhantomData;

/// A scalar member of the C structure `S`, 1, 2, 4 or 8 bytes long.
pub struct Member<S> {
    off: u16,
    len: u8,
    structure: PhantomData<fn() -> S>,
}

impl<S> Clone for Member<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Member<S> {}

impl<S> Member<S> {
    /// Checked when [`wire!`] is evaluated.
    #[doc(hidden)]
    pub const fn new(off: usize, len: usize) -> Self {
        assert!(
            matches!(len, 1 | 2 | 4 | 8),
            "not a scalar of 1, 2, 4 or 8 bytes"
        );
        assert!(off + len <= core::mem::size_of::<S>());
        // CAST: the structures are at most a few hundred bytes long.
        Self {
            off: off as u16,
            len: len as u8,
            structure: PhantomData,
        }
    }

    /// Offset in bytes.
    pub const fn offset(self) -> usize {
        self.off as usize
    }

    /// Length in bytes.
    pub const fn width(self) -> usize {
        self.len as usize
    }
}

#[doc(hidden)]
pub const fn pointee_bytes<S, F>(_member: fn(*const S) -> *const F) -> usize {
    core::mem::size_of::<F>()
}

/// `wire!(mlx5_cqe64, byte_cnt)`: a [`Member`].
#[macro_export]
macro_rules! wire {
    ($structure:ident, $($member:ident).+) => { const {
        type S = $crate::raw::$structure;
        $crate::wire::Member::<S>::new(
            ::core::mem::offset_of!(S, $($member).+),
            // SAFETY: only a place expression for the type of the member; nothing is read.
            $crate::wire::pointee_bytes(|p: *const S| unsafe { &raw const (*p).$($member).+ }),
        )
    } };
}

/// Reads a big endian member from the bytes of its structure; `None` when they are too short. The width is known where this
/// is called, so it becomes one load.
#[inline(always)]
pub fn get<S>(bytes: &[u8], member: Member<S>) -> Option<u64> {
    let rest = bytes.get(member.offset()..)?;
    Some(match member.width() {
        1 => u64::from(*rest.first()?),
        2 => u64::from(u16::from_be_bytes(*rest.first_chunk()?)),
        4 => u64::from(u32::from_be_bytes(*rest.first_chunk()?)),
        _ => u64::from_be_bytes(*rest.first_chunk()?),
    })
}

/// Writes a big endian member; `false`, and nothing written, when the bytes are too short or the
/// value too wide.
#[inline(always)]
#[must_use]
pub fn put<S>(bytes: &mut [u8], member: Member<S>, value: u64) -> bool {
    let width = member.width();
    if width < 8 && value >> (8 * width) != 0 {
        return false;
    }
    let Some(rest) = bytes.get_mut(member.offset()..) else {
        return false;
    };
    // CAST, three times: checked above.
    match width {
        1 => store(rest, (value as u8).to_be_bytes()),
        2 => store(rest, (value as u16).to_be_bytes()),
        4 => store(rest, (value as u32).to_be_bytes()),
        _ => store(rest, value.to_be_bytes()),
    }
}

#[inline(always)]
fn store<const N: usize>(rest: &mut [u8], value: [u8; N]) -> bool {
    match rest.first_chunk_mut() {
        Some(raw) => {
            *raw = value;
            true
        }
        None => false,
    }
}
