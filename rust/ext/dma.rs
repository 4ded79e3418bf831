// SPDX-License-Identifier: GPL-2.0
//! DMA: masks without unsafe code, limits, and single pages that are mapped for streaming.
//!
//! Coherent memory is in [`kernel::dma::Coherent`]; [`crate::numa::coherent`] takes it from a node.
//!
//! C header: [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h)

use core::ptr::NonNull;

use kernel::{
    dma::{DataDirection, DmaAddress, DmaMask},
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
};
use rmlx5_bindings as bindings;

use crate::{numa::Node, pci::BoundDevice};

impl BoundDevice {
    /// Says which bus addresses the device can reach, for all kinds of DMA memory. To be called in
    /// probe, before anything is allocated: the kernel crate makes that a safety requirement, but
    /// all that a late call can do is to hand out an address the device cannot reach.
    ///
    /// # Errors
    ///
    /// `EIO` when the platform has no memory the device could reach.
    pub fn set_dma_mask(&self, mask: DmaMask) -> Result {
        let device = self.as_raw_device();
        // SAFETY: The device is valid and bound.
        to_result(unsafe { bindings::dma_set_mask_and_coherent(device, mask.value()) })
    }

    /// Says how long one piece of a scatter list may be for the device, in bytes.
    pub fn set_max_segment(&self, bytes: u32) {
        // SAFETY: The device is valid and bound; PCI devices have DMA parameters.
        unsafe { bindings::dma_set_max_seg_size(self.as_raw_device(), bytes) }
    }

    /// The longest piece of a scatter list, in bytes.
    pub fn max_segment(&self) -> u32 {
        // SAFETY: The device is valid and bound.
        unsafe { bindings::dma_get_max_seg_size(self.as_raw_device()) }
    }

    /// The largest streaming mapping that the DMA layer makes in one piece (bounce buffers limit
    /// it), in bytes; `usize::MAX` without a limit.
    pub fn max_mapping(&self) -> usize {
        // SAFETY: The device is valid and bound.
        unsafe { bindings::dma_max_mapping_size(self.as_raw_device()) }
    }
}

/// One zeroed page, mapped for the device in both directions, for a device that keeps it for a
/// long time and gives it back by address.
///
/// The CPU does not look into it. Whoever drops it must know that the device has let go of it.
///
/// # Invariants
///
/// `page` is an allocated page, mapped for `device` at `address`.
pub struct DevicePage {
    page: NonNull<bindings::page>,
    address: DmaAddress,
    device: BoundDevice,
}

// SAFETY: A page is not bound to a thread.
unsafe impl Send for DevicePage {}
// SAFETY: A shared reference gives the address only.
unsafe impl Sync for DevicePage {}

impl DevicePage {
    /// Length in bytes.
    pub const SIZE: usize = PAGE_SIZE;

    /// Allocates and maps a page, on `node` if there is memory. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when there is no page or it cannot be mapped.
    pub fn new(device: &BoundDevice, node: Node) -> Result<Self> {
        let flags = bindings::GFP_KERNEL | bindings::__GFP_ZERO | bindings::__GFP_NOWARN;
        // SAFETY: Any node is accepted.
        let page = unsafe { bindings::alloc_pages_node(node.as_raw(), flags, 0) };
        let page = NonNull::new(page).ok_or(ENOMEM)?;

        // SAFETY: The device is valid and bound, the page is ours.
        let address = unsafe {
            bindings::dma_map_page_attrs(
                device.as_raw_device(),
                page.as_ptr(),
                0,
                PAGE_SIZE,
                DataDirection::Bidirectional.into(),
                0,
            )
        };
        // SAFETY: As above.
        if unsafe { bindings::dma_mapping_error(device.as_raw_device(), address) } != 0 {
            // SAFETY: Allocated above and not mapped.
            unsafe { bindings::__free_pages(page.as_ptr(), 0) };
            return Err(ENOMEM);
        }
        // INVARIANT: Allocated and mapped above.
        Ok(Self {
            page,
            address,
            device: device.clone(),
        })
    }

    /// Where the device sees the page; page aligned.
    pub fn address(&self) -> DmaAddress {
        self.address
    }
}

impl Drop for DevicePage {
    fn drop(&mut self) {
        // SAFETY: By the type invariant mapped with these arguments, and allocated with order 0.
        unsafe {
            bindings::dma_unmap_page_attrs(
                self.device.as_raw_device(),
                self.address,
                PAGE_SIZE,
                DataDirection::Bidirectional.into(),
                0,
            );
            bindings::__free_pages(self.page.as_ptr(), 0);
        }
    }
}
