// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! Access to the big endian dwords of commands and contexts (`struct mlx5_ifc_*_bits`).
//!
//! In those structures one array byte stands for one bit, so `offset_of!` is a bit offset and
//! `size_of` a width in bits. [`field!`], [`span!`] and [`list!`] turn a member path into a checked
//! constant at compile time: an unknown member, a member wider than 64 bits, one that crosses a
//! dword or one of another layout does not compile.

use core::marker::PhantomData;

/// A member of layout `L` that is at most 64 bits wide.
pub struct Field<L> {
    off: u32,
    bits: u32,
    layout: PhantomData<fn() -> L>,
}

impl<L> Clone for Field<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Field<L> {}

impl<L> Field<L> {
    /// Bit offset and width, checked when [`field!`] is evaluated.
    #[doc(hidden)]
    pub const fn new(off: usize, bits: usize) -> Self {
        assert!(
            bits >= 1 && bits <= 64,
            "field wider than 64 bits: use span!"
        );
        assert!(
            (bits == 64 && off % 32 == 0) || (off % 32) + bits <= 32,
            "field crosses a dword"
        );
        assert!(off + bits <= core::mem::size_of::<L>());
        // CAST: layouts are a few KiB, both fit.
        Self {
            off: off as u32,
            bits: bits as u32,
            layout: PhantomData,
        }
    }

    /// Offset from the start of the layout, in bits.
    pub const fn offset(self) -> u32 {
        self.off
    }

    /// Width in bits, 1 to 64.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Largest value the field can hold.
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
}

/// A member of layout `L` that is a layout `M` itself, or bytes.
pub struct Span<L, M> {
    off: u32,
    layout: PhantomData<fn() -> (L, M)>,
}

impl<L, M> Clone for Span<L, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, M> Copy for Span<L, M> {}

impl<L, M> Span<L, M> {
    /// Checked when [`span!`] is evaluated; the pointer function only carries the type.
    #[doc(hidden)]
    pub const fn new(off: usize, _member: fn(*const L) -> *const M) -> Self {
        assert!(off % 8 == 0, "span does not start at a byte");
        assert!(
            core::mem::size_of::<M>() % 8 == 0,
            "span does not end at a byte"
        );
        // CAST: layouts are a few KiB.
        Self {
            off: (off / 8) as u32,
            layout: PhantomData,
        }
    }

    /// Offset from the start of the layout, in bytes.
    pub const fn offset(self) -> usize {
        self.off as usize
    }

    /// Length in bytes. Zero for a flexible array.
    pub const fn len(self) -> usize {
        core::mem::size_of::<M>() / 8
    }

    /// Whether the member is a flexible array (or empty).
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[doc(hidden)]
pub const fn pointee_bits<L, F>(_member: fn(*const L) -> *const F) -> usize {
    core::mem::size_of::<F>()
}

#[doc(hidden)]
pub const fn element_bits<L, E, const N: usize>(
    _member: fn(*const L) -> *const [E; N],
    index: usize,
) -> usize {
    assert!(index < N, "array index out of range");
    core::mem::size_of::<E>()
}

/// Length of layout `L` in bytes.
pub const fn bytes_of<L>() -> usize {
    core::mem::size_of::<L>() / 8
}

/// `field!(create_qp_in, qpc.pd)`: a [`Field`]; `field!(layout, array[3])` for an array element.
#[macro_export]
macro_rules! field {
    ($layout:ident, $($member:ident).+) => { const {
        type L = $crate::ifc::$layout;
        $crate::field::Field::<L>::new(
            ::core::mem::offset_of!(L, $($member).+),
            // SAFETY: only a place expression for the type of the member; nothing is read.
            $crate::field::pointee_bits(|p: *const L| unsafe { &raw const (*p).$($member).+ }),
        )
    } };
    ($layout:ident, $($member:ident).+ [$index:expr]) => { const {
        type L = $crate::ifc::$layout;
        let bits = $crate::field::element_bits(
            // SAFETY: only a place expression for the type of the member; nothing is read.
            |p: *const L| unsafe { &raw const (*p).$($member).+ },
            $index,
        );
        $crate::field::Field::<L>::new(
            ::core::mem::offset_of!(L, $($member).+) + $index * bits,
            bits,
        )
    } };
}

/// `span!(create_qp_in, qpc)`: a [`Span`], for a nested layout, wide bytes or a flexible array.
#[macro_export]
macro_rules! span {
    ($layout:ident, $($member:ident).+) => { const {
        type L = $crate::ifc::$layout;
        $crate::field::Span::<L, _>::new(
            ::core::mem::offset_of!(L, $($member).+),
            // SAFETY: only a place expression for the type of the member; nothing is read.
            |p: *const L| unsafe { &raw const (*p).$($member).+ },
        )
    } };
}

/// A zeroed byte array of the size of a layout: `ifc_buf!(query_issi_in)`.
#[macro_export]
macro_rules! ifc_buf {
    ($layout:ident) => {
        [0u8; $crate::field::bytes_of::<$crate::ifc::$layout>()]
    };
}

/// Read access to bytes laid out as `L`.
pub struct Ref<'a, L> {
    bytes: &'a [u8],
    layout: PhantomData<fn() -> L>,
}

impl<L> Clone for Ref<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Ref<'_, L> {}

impl<'a, L> Ref<'a, L> {
    /// `None` when `bytes` is shorter than the fixed part of the layout. Longer is fine: inputs
    /// carry lists behind it.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() >= bytes_of::<L>()).then_some(Self {
            bytes,
            layout: PhantomData,
        })
    }

    /// All bytes, the list behind the fixed part included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Value of a field.
    #[inline]
    pub fn get(&self, field: Field<L>) -> u64 {
        load(self.bytes, field.off, field.bits)
    }

    /// Value of a field of at most 32 bits.
    #[inline]
    pub fn get32(&self, field: Field<L>) -> u32 {
        // CAST: wider fields lose their upper half by contract.
        self.get(field) as u32
    }

    /// Whether a field is not zero.
    #[inline]
    pub fn flag(&self, field: Field<L>) -> bool {
        self.get(field) != 0
    }

    /// A nested layout.
    #[inline]
    pub fn sub<M>(&self, span: Span<L, M>) -> Ref<'a, M> {
        // PANIC: `new` checked the length against `L`, which contains `span`.
        Ref {
            bytes: &self.bytes[span.offset()..],
            layout: PhantomData,
        }
    }

    /// The bytes of a member; for a flexible array all bytes from its start.
    #[inline]
    pub fn raw<M>(&self, span: Span<L, M>) -> &'a [u8] {
        // PANIC: `new` checked the length against `L`, which contains `span`.
        let tail = &self.bytes[span.offset()..];
        if span.is_empty() {
            tail
        } else {
            &tail[..span.len()]
        }
    }
}

/// Write access to bytes laid out as `L`.
///
/// A value too wide for its field is never cut silently: the field is left alone and
/// [`Mut::overflowed`] says so, which the owner of the buffer checks before the device sees it.
pub struct Mut<'a, L> {
    bytes: &'a mut [u8],
    overflowed: bool,
    layout: PhantomData<fn() -> L>,
}

impl<'a, L> Mut<'a, L> {
    /// `None` when `bytes` is shorter than the fixed part of the layout.
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        (bytes.len() >= bytes_of::<L>()).then_some(Self {
            bytes,
            overflowed: false,
            layout: PhantomData,
        })
    }

    /// Read access to the same bytes.
    pub fn as_ref(&self) -> Ref<'_, L> {
        Ref {
            bytes: self.bytes,
            layout: PhantomData,
        }
    }

    /// Sets a field. A value that does not fit changes nothing and marks the buffer.
    #[inline]
    pub fn set(&mut self, field: Field<L>, value: u64) -> &mut Self {
        if value > field.max() {
            self.overflowed = true;
        } else {
            store(self.bytes, field.off, field.bits, value);
        }
        self
    }

    /// Sets a one-bit field.
    #[inline]
    pub fn set_flag(&mut self, field: Field<L>, value: bool) -> &mut Self {
        self.set(field, value.into())
    }

    /// Runs `fill` on a nested layout.
    #[inline]
    pub fn with<M>(&mut self, span: Span<L, M>, fill: impl FnOnce(&mut Mut<'_, M>)) -> &mut Self {
        let mut inner = Mut {
            // PANIC: `new` checked the length against `L`, which contains `span`.
            bytes: &mut self.bytes[span.offset()..],
            overflowed: false,
            layout: PhantomData,
        };
        fill(&mut inner);
        let overflowed = inner.overflowed;
        self.overflowed |= overflowed;
        self
    }

    /// The bytes of a member; for a flexible array all bytes from its start.
    #[inline]
    pub fn raw<M>(&mut self, span: Span<L, M>) -> &mut [u8] {
        // PANIC: `new` checked the length against `L`, which contains `span`.
        let tail = &mut self.bytes[span.offset()..];
        if span.is_empty() {
            tail
        } else {
            &mut tail[..span.len()]
        }
    }

    /// All bytes behind the fixed part: a list whose length is not part of the layout.
    #[inline]
    pub fn tail(&mut self) -> &mut [u8] {
        // PANIC: `new` checked the length against `L`.
        &mut self.bytes[bytes_of::<L>()..]
    }

    /// Whether some value did not fit its field.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }
}

#[inline]
fn load(bytes: &[u8], off: u32, bits: u32) -> u64 {
    // PANIC: the views check the length of `bytes` against the layout of the field.
    let at = (off / 32 * 4) as usize;
    let dword = |at: usize| {
        let mut raw = [0u8; 4];
        raw.copy_from_slice(&bytes[at..at + 4]);
        u32::from_be_bytes(raw)
    };
    if bits == 64 {
        return (u64::from(dword(at)) << 32) | u64::from(dword(at + 4));
    }
    let shift = 32 - off % 32 - bits;
    u64::from(dword(at) >> shift) & (u64::MAX >> (64 - bits))
}

#[inline]
fn store(bytes: &mut [u8], off: u32, bits: u32, value: u64) {
    // PANIC: the views check the length of `bytes` against the layout of the field.
    let at = (off / 32 * 4) as usize;
    if bits == 64 {
        bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
        return;
    }
    let shift = 32 - off % 32 - bits;
    // CAST: `bits` is at most 32 here, so mask and value fit a dword.
    let mask = (u64::MAX >> (64 - bits)) as u32;
    let mut raw = [0u8; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    let dword = (u32::from_be_bytes(raw) & !(mask << shift)) | ((value as u32) << shift);
    bytes[at..at + 4].copy_from_slice(&dword.to_be_bytes());
}
