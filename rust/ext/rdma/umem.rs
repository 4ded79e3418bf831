// SPDX-License-Identifier: GPL-2.0
//! Memory of a process, pinned and mapped for the device.

use core::ptr::NonNull;

use kernel::{error::from_err_ptr, prelude::*};
use rmlx5_bindings as bindings;

use super::{access::Access, object::Context, udata::Udata};

/// Pinned pages of a process, mapped for DMA until drop. They count against the process' limit of
/// locked memory.
///
/// The owner must know that the device has let go of them before it drops this.
///
/// C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)
///
/// # Invariants
///
/// The pointer is a umem that is released by drop only, of a device that outlives it.
pub struct Umem(NonNull<bindings::ib_umem>);

// SAFETY: A umem may be released by any thread.
unsafe impl Send for Umem {}
// SAFETY: Through a shared reference it is only read.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes of the calling process at `address`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the range is empty or wraps, `ENOMEM` when the process may not lock so much,
    /// `EFAULT` when something of it is not mapped, or not writable though `access` asks for it,
    /// `EPERM`, `EIO` when it is pinned but the DMA layer cannot map it for the device.
    pub fn pin<T>(
        context: Context<'_, T>,
        address: u64,
        len: usize,
        access: Access,
    ) -> Result<Self> {
        // SAFETY: The context is alive, and so is its device; without attributes the range is that
        // of the calling process.
        unsafe {
            Self::from_result(bindings::ib_umem_get_attr_or_va(
                (*context.as_raw()).device,
                core::ptr::null(),
                0,
                address,
                len,
                access.as_raw(),
            ))
        }
    }

    /// Pins the buffer of a CQ that is being created: what the call describes by attributes of its
    /// own, otherwise `len` bytes at `address`. Errors as for [`Umem::pin`].
    pub fn pin_cq<T>(
        context: Context<'_, T>,
        udata: &Udata<'_>,
        address: u64,
        len: usize,
    ) -> Result<Self> {
        // SAFETY: As in `pin`; the attributes are those of the call that `udata` belongs to.
        unsafe {
            Self::from_result(bindings::ib_umem_get_cq_buf_or_va(
                (*context.as_raw()).device,
                bindings::udata_bundle(udata.as_raw()),
                address,
                len,
                Access::LOCAL_WRITE.as_raw(),
            ))
        }
    }

    /// # Safety
    ///
    /// `umem` must be an error or a umem that nobody else releases.
    unsafe fn from_result(umem: *mut bindings::ib_umem) -> Result<Self> {
        // INVARIANT: By the safety requirements. Users' objects go before the device does.
        NonNull::new(from_err_ptr(umem)?).map(Self).ok_or(EFAULT)
    }

    /// Address of the first byte in the process.
    pub fn address(&self) -> u64 {
        // SAFETY: By the type invariant.
        // CAST: an address has 64 bits here.
        unsafe { (*self.0.as_ptr()).address as u64 }
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).length }
    }

    /// Whether it is memory of the process that calls.
    pub fn is_current(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_umem_is_current(self.0.as_ptr()) }
    }

    /// Bus address of the first byte; what follows is contiguous to the end of the page only.
    pub fn start(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_umem_start_dma_addr(self.0.as_ptr()) }
    }

    /// The largest of the page sizes in `supported` (a bit for each power of two) that the memory
    /// can be described by when the device knows its first byte as `virt`. [`Umem::write_blocks`] counts
    /// pages of that address space from now on.
    pub fn best_page_size(&mut self, supported: usize, virt: u64) -> Option<usize> {
        // SAFETY: By the type invariant, exclusively held.
        let size = unsafe { bindings::ib_umem_find_best_pgsz(self.0.as_ptr(), supported, virt) };
        (size != 0).then_some(size)
    }

    /// Number of blocks of `size` bytes that it touches.
    pub fn count(&self, size: usize) -> usize {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_umem_num_dma_blocks(self.0.as_ptr(), size) }
    }

    /// Writes the bus addresses of the blocks of `size` bytes that it touches, each a multiple of
    /// `size`: a power of two that is at most a page, or what [`Umem::best_page_size`] said. Eight
    /// bytes each, big endian, with `low` (below `size`) in the low bits. The number of blocks;
    /// `ERANGE` when `list` has no room for all of them.
    pub fn write_blocks(&self, size: usize, low: u64, list: &mut [u8]) -> Result<usize> {
        let room = list.len() / 8;
        // SAFETY: By the type invariant; `room` entries of eight bytes, unaligned ones too, fit the
        // list.
        let count = unsafe {
            bindings::ib_umem_write_blocks(self.0.as_ptr(), size, low, list.as_mut_ptr(), room)
        };
        match count <= room {
            true => Ok(count),
            false => Err(ERANGE),
        }
    }

    /// Whether a registration may be changed by `flags` and to `access` without pinning anew.
    pub(super) fn check_rereg(&self, flags: c_int, access: Access) -> Result {
        // SAFETY: By the type invariant.
        kernel::error::to_result(unsafe {
            bindings::ib_umem_check_rereg(self.0.as_ptr(), flags, access.as_raw())
        })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_umem_release(self.0.as_ptr()) };
    }
}
