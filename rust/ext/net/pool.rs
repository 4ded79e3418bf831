// SPDX-License-Identifier: GPL-2.0
//! Pages, and pieces of pages, for received packets, mapped once and used again and again.
//!
//! C header: [`include/net/page_pool/helpers.h`](srctree/include/net/page_pool/helpers.h)

use core::ptr::NonNull;

use kernel::{error::from_err_ptr, page::PAGE_SIZE, prelude::*};
use rmlx5_bindings as bindings;

use super::{NetDevice, SkBuff};
use crate::{numa::Node, pci::BoundDevice};

/// Alignment of what the stack puts behind a frame (`SKB_DATA_ALIGN`).
const CACHE_LINE: usize = 64;

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

    /// `size` bytes that the device may write: a page, or a piece of one. A power of two. Any context; `None` when memory
    /// is short, or for another size.
    #[inline]
    pub fn alloc(&mut self, size: u32) -> Option<RxPage> {
        // CAST: `usize` has 64 bits here.
        if !size.is_power_of_two() || size as usize > PAGE_SIZE {
            return None;
        }
        let mut offset = 0;
        // SAFETY: By the type invariant, and nobody else allocates from it meanwhile; the size is in range.
        let page = unsafe { bindings::page_pool_alloc(self.pool.as_ptr(), &mut offset, size) };
        // INVARIANT: The piece is from this pool, which the core keeps as long as a page is out; it lies in its page.
        Some(RxPage {
            page: NonNull::new(page)?,
            offset,
            size,
            pool: self.pool,
        })
    }
}

impl Drop for PagePool {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours.
        unsafe { bindings::page_pool_destroy(self.pool.as_ptr()) }
    }
}

/// A page of a pool or a piece of one; goes back there when dropped. Who drops it knows that the device has let go of it.
///
/// # Invariants
///
/// `page` is a page of `pool`, mapped for the pool's device, whose `size` bytes from `offset` on belong to this value.
pub struct RxPage {
    page: NonNull<bindings::page>,
    offset: u32,
    size: u32,
    pool: NonNull<bindings::page_pool>,
}

// SAFETY: Pages may be given back by any thread.
unsafe impl Send for RxPage {}
// SAFETY: A shared reference only reads.
unsafe impl Sync for RxPage {}

impl RxPage {
    /// Bytes of a whole page.
    pub const PAGE: usize = PAGE_SIZE;

    /// Bytes behind a frame that a packet around it needs for itself (`struct skb_shared_info`).
    pub const TAIL: usize = size_of::<bindings::skb_shared_info>().next_multiple_of(CACHE_LINE);

    /// Length in bytes.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Where the device sees it.
    #[inline]
    pub fn address(&self) -> u64 {
        // SAFETY: By the type invariant.
        let page = unsafe { bindings::page_pool_dma_addr(self.page.as_ptr()) };
        page.wrapping_add(self.offset.into())
    }

    /// Makes a packet of the `len` bytes behind the first `head`, which are headroom. In a poll only; see
    /// [`super::napi::Poll::around`]. Gives the piece back when memory is short, or when it is too short for [`RxPage::TAIL`].
    #[inline]
    pub(super) fn into_skb(self, head: u32, len: u32) -> core::result::Result<SkBuff, Self> {
        // CAST: a small constant.
        let needed = head
            .checked_add(len)
            .and_then(|n| n.checked_add(Self::TAIL as u32));
        if needed.is_none_or(|needed| needed > self.size) {
            return Err(self);
        }
        // SAFETY: By the type invariant; the frame and what the packet needs lie in the piece.
        let skb = unsafe {
            bindings::skb_around(
                self.pool.as_ptr(),
                self.page.as_ptr(),
                self.offset,
                self.size,
                head,
                len,
            )
        };
        let Some(skb) = NonNull::new(skb) else {
            return Err(self);
        };
        // The packet has the piece now.
        core::mem::forget(self);
        // SAFETY: It is new.
        Ok(unsafe { SkBuff::from_raw(skb) })
    }

    /// The device has written these bytes; the CPU may read them now.
    pub fn sync_for_cpu(&self, offset: u32, len: u32) {
        if self.bytes(offset, len).is_some() {
            // SAFETY: By the type invariant, and the range is in the page.
            unsafe {
                bindings::page_pool_sync_for_cpu(
                    self.pool.as_ptr(),
                    self.page.as_ptr(),
                    self.offset.wrapping_add(offset),
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

    /// Pointer to bytes of the piece, which must lie in it. No reference is made of it: a device that
    /// misbehaves may write there at any time.
    #[inline]
    pub(super) fn bytes(&self, offset: u32, len: u32) -> Option<*const u8> {
        if offset.checked_add(len)? > self.size {
            return None;
        }
        // SAFETY: By the type invariant; pages of a pool have a kernel address.
        let start: *const u8 = unsafe { bindings::page_address(self.page.as_ptr()) }.cast();
        if start.is_null() {
            return None;
        }
        let at = self.offset.checked_add(offset)?;
        // CAST: `usize` has 64 bits here.
        // SAFETY: Within the page.
        Some(unsafe { start.add(at as usize) })
    }

    /// Where it begins in its page.
    #[inline]
    pub(super) fn offset(&self) -> u32 {
        self.offset
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    /// A packet has it now.
    #[inline]
    pub(super) fn into_packet(self) {
        core::mem::forget(self);
    }
}

impl Drop for RxPage {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours, and the pool is there as long as a page is out.
        unsafe { bindings::page_pool_put(self.pool.as_ptr(), self.page.as_ptr()) }
    }
}
