// SPDX-License-Identifier: GPL-2.0
//! Pages for received packets, mapped once and used again and again.
//!
//! C header: [`include/net/page_pool/helpers.h`](srctree/include/net/page_pool/helpers.h)

use core::ptr::NonNull;

use kernel::{error::from_err_ptr, page::PAGE_SIZE, prelude::*};
use rmlx5_bindings as bindings;

use super::NetDevice;
use crate::{numa::Node, pci::BoundDevice};

/// A pool of pages that one device writes to.
///
/// Pages that are in packets when the pool is dropped come back later; the core keeps what it needs of
/// the pool until then, and unmaps them at once.
///
/// # Invariants
///
/// The pointer is a pool that belongs to this value.
pub struct PagePool {
    pool: NonNull<bindings::page_pool>,
    _device: BoundDevice,
}

// SAFETY: The pool may be destroyed by any thread, and `alloc` has it exclusively.
unsafe impl Send for PagePool {}
// SAFETY: A shared reference offers nothing.
unsafe impl Sync for PagePool {}

impl PagePool {
    /// A pool for queue `queue` of `netdev` that keeps about `size` pages, preferably on `node`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `E2BIG` when `size` is beyond what the core allows.
    pub fn new(
        netdev: &NetDevice,
        device: &BoundDevice,
        node: Node,
        size: u32,
        queue: u16,
    ) -> Result<Self> {
        // SAFETY: Both devices are valid; the pool keeps a reference of the second.
        let pool = from_err_ptr(unsafe {
            bindings::page_pool_new(
                netdev.as_raw(),
                device.as_raw_device(),
                node.as_raw(),
                size,
                queue.into(),
            )
        })?;
        // INVARIANT: Made above.
        Ok(Self {
            pool: NonNull::new(pool).ok_or(ENOMEM)?,
            _device: device.clone(),
        })
    }

    /// A page that the device may write. Any context; `None` when memory is short.
    pub fn alloc(&mut self) -> Option<RxPage> {
        // SAFETY: By the type invariant, and nobody else allocates from it meanwhile.
        let page = NonNull::new(unsafe { bindings::page_pool_alloc(self.pool.as_ptr()) })?;
        // INVARIANT: The page is from this pool, which the core keeps as long as a page is out.
        Some(RxPage {
            page,
            pool: self.pool,
        })
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours.
        unsafe { bindings::page_pool_destroy(self.pool.as_ptr()) }
    }
}

/// A page of a pool; goes back there when dropped. Who drops it knows that the device has let go of it.
///
/// # Invariants
///
/// `page` is a page of `pool` that belongs to this value, mapped for the pool's device.
pub struct RxPage {
    page: NonNull<bindings::page>,
    pool: NonNull<bindings::page_pool>,
}

// SAFETY: Pages may be given back by any thread.
unsafe impl Send for RxPage {}
// SAFETY: A shared reference only reads.
unsafe impl Sync for RxPage {}

impl RxPage {
    /// Length in bytes.
    pub const SIZE: usize = PAGE_SIZE;

    /// Where the device sees it; page aligned.
    pub fn address(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { bindings::page_pool_dma_addr(self.page.as_ptr()) }
    }

    /// The device has written these bytes; the CPU may read them now.
    pub fn sync_for_cpu(&self, offset: u32, len: u32) {
        if self.bytes(offset, len).is_some() {
            // SAFETY: By the type invariant, and the range is in the page.
            unsafe {
                bindings::page_pool_sync_for_cpu(
                    self.pool.as_ptr(),
                    self.page.as_ptr(),
                    offset,
                    len,
                )
            }
        }
    }

    /// How many of the first `len` bytes are headers, by their own account; at most `len`.
    pub fn header_len(&self, netdev: &NetDevice, len: u32) -> u32 {
        let Some(start) = self.bytes(0, len) else {
            return 0;
        };
        // SAFETY: `start` points to `len` bytes; what they say is not trusted by the function.
        unsafe { bindings::eth_get_headlen(netdev.as_raw(), start.cast(), len) }
    }

    /// Pointer to bytes of the page, which must lie in it. No reference is made of it: a device that
    /// misbehaves may write there at any time.
    pub(super) fn bytes(&self, offset: u32, len: u32) -> Option<*const u8> {
        // CAST: `usize` has 64 bits here.
        let end = offset.checked_add(len)? as usize;
        if end > Self::SIZE {
            return None;
        }
        // SAFETY: By the type invariant; pages of a pool have a kernel address.
        let start: *const u8 = unsafe { bindings::page_address(self.page.as_ptr()) }.cast();
        if start.is_null() {
            return None;
        }
        // SAFETY: Within the page.
        Some(unsafe { start.add(offset as usize) })
    }

    pub(super) fn as_raw(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    /// A packet has it now.
    pub(super) fn into_packet(self) {
        core::mem::forget(self);
    }
}

impl Drop for RxPage {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours, and the pool is there as long as a page is out.
        unsafe { bindings::page_pool_put(self.pool.as_ptr(), self.page.as_ptr()) }
    }
}
