// SPDX-License-Identifier: GPL-2.0
//! BARs that several users map in parts, with write combining where asked for, and accesses to
//! registers that are big endian.
//!
//! C headers: [`include/linux/pci.h`](srctree/include/linux/pci.h),
//! [`include/linux/io.h`](srctree/include/linux/io.h)

use core::ptr::NonNull;

use kernel::{prelude::*, str::CStrExt, sync::Arc};
use rmlx5_bindings as bindings;

use super::BoundDevice;

/// Holds the region of a BAR against other drivers, from [`Bar::claim`] to drop.
struct Region {
    device: BoundDevice,
    index: u32,
    len: u64,
}

impl Drop for Region {
    fn drop(&mut self) {
        // CAST: There are six BARs.
        // SAFETY: Requested in `Bar::claim`.
        unsafe { bindings::pci_release_region(self.device.as_raw(), self.index as i32) }
    }
}

/// A memory BAR that belongs to this driver. Clones share it; it is released with the last clone
/// and the last mapping.
#[derive(Clone)]
pub struct Bar(Arc<Region>);

impl Bar {
    /// Claims BAR `index`; `owner` is what `/proc/iomem` shows.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an index that is none, `ENODEV` when the BAR has no memory, `EBUSY` when
    /// somebody else has it.
    pub fn claim(device: &BoundDevice, index: u32, owner: &'static CStr) -> Result<Self> {
        if index >= bindings::PCI_STD_NUM_BARS {
            return Err(EINVAL);
        }
        let len = device.resource_len(index)?;
        if len == 0 {
            return Err(ENODEV);
        }
        // SAFETY: The device is valid and `owner` lives as long as the module, which the region
        // does not outlast.
        let refused = unsafe {
            // CAST: Checked above.
            bindings::pci_request_region(device.as_raw(), index as i32, owner.as_char_ptr())
        };
        if refused != 0 {
            return Err(EBUSY);
        }
        let region = Region {
            device: device.clone(),
            index,
            len,
        };
        // A failed allocation drops `region`, which gives the region back.
        Ok(Self(Arc::new(region, GFP_KERNEL)?))
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Physical address of the byte at `offset`, for mappings into user space.
    ///
    /// # Errors
    ///
    /// `ERANGE` when `offset` is outside.
    pub fn physical(&self, offset: u64) -> Result<u64> {
        if offset >= self.0.len {
            return Err(ERANGE);
        }
        let start = self.0.device.resource_start(self.0.index)?;
        start.checked_add(offset).ok_or(ERANGE)
    }

    /// Maps `SIZE` bytes at `offset`, uncached.
    ///
    /// # Errors
    ///
    /// `ERANGE` when the range does not fit or `offset` is not a multiple of 8, `ENOMEM` when it
    /// cannot be mapped.
    pub fn map<const SIZE: usize>(&self, offset: u64) -> Result<Io<SIZE>> {
        self.map_with(offset, bindings::pci_iomap_range)
    }

    /// Maps `SIZE` bytes at `offset`, write combining where the CPU can. Nothing else should have
    /// the same page mapped, or the CPU may silently stay uncached.
    ///
    /// # Errors
    ///
    /// As [`Bar::map`].
    pub fn map_wc<const SIZE: usize>(&self, offset: u64) -> Result<Io<SIZE>> {
        self.map_with(offset, bindings::pci_iomap_wc_range)
    }

    fn map_with<const SIZE: usize>(
        &self,
        offset: u64,
        map: unsafe extern "C" fn(*mut bindings::pci_dev, c_int, c_ulong, c_ulong) -> *mut c_void,
    ) -> Result<Io<SIZE>> {
        // CAST: `usize` has at most 64 bits.
        let size = SIZE as u64;
        let end = offset.checked_add(size).ok_or(ERANGE)?;
        if size == 0 || end > self.0.len || offset % 8 != 0 {
            return Err(ERANGE);
        }
        // CAST: Checked in `claim`; lengths of a BAR fit `unsigned long` where it can be mapped.
        // SAFETY: The range lies in a BAR that this driver has requested.
        let base = unsafe {
            map(
                self.0.device.as_raw(),
                self.0.index as c_int,
                offset as c_ulong,
                size as c_ulong,
            )
        };
        // INVARIANT: Mapped above, `SIZE` bytes long, aligned as `offset` in a page.
        Ok(Io {
            base: NonNull::new(base.cast()).ok_or(ENOMEM)?,
            bar: self.clone(),
        })
    }
}

/// `SIZE` bytes of mapped device memory.
///
/// Offsets that are known when compiling are given as const parameters and checked then; the
/// others are checked at run time. After the loss of the device reads give all ones and writes go
/// nowhere: that is for the caller to notice, it harms nobody.
///
/// Reads and writes may be done in any context.
///
/// # Invariants
///
/// `base` is a mapping of `SIZE` bytes of `bar`, aligned to 8 bytes.
pub struct Io<const SIZE: usize> {
    base: NonNull<u8>,
    bar: Bar,
}

// SAFETY: A mapping is usable from every CPU.
unsafe impl<const SIZE: usize> Send for Io<SIZE> {}
// SAFETY: Accesses are single instructions; their order among threads is the device's business.
unsafe impl<const SIZE: usize> Sync for Io<SIZE> {}

impl<const SIZE: usize> Io<SIZE> {
    /// Pointer to `N` bytes at `OFFSET`, aligned to `N`.
    fn at<const OFFSET: usize, const N: usize>(&self) -> *mut c_void {
        const { assert!(OFFSET + N <= SIZE && OFFSET % N == 0) };
        // SAFETY: In the mapping, checked above.
        unsafe { self.base.as_ptr().add(OFFSET) }.cast()
    }

    /// Pointer to `len` bytes at `offset`, aligned to `align`.
    fn at_dynamic(&self, offset: usize, len: usize, align: usize) -> Result<*mut c_void> {
        let end = offset.checked_add(len).ok_or(ERANGE)?;
        if end > SIZE || offset % align != 0 {
            return Err(ERANGE);
        }
        // SAFETY: In the mapping, checked above.
        Ok(unsafe { self.base.as_ptr().add(offset) }.cast())
    }

    /// Reads a big endian register.
    pub fn read_be32<const OFFSET: usize>(&self) -> u32 {
        // SAFETY: In the mapping and aligned. `readl` gives a little endian register.
        unsafe { bindings::readl(self.at::<OFFSET, 4>()) }.swap_bytes()
    }

    /// Writes a big endian register.
    pub fn write_be32<const OFFSET: usize>(&self, value: u32) {
        // SAFETY: In the mapping and aligned. `writel` takes a little endian register.
        unsafe { bindings::writel(value.swap_bytes(), self.at::<OFFSET, 4>()) }
    }

    /// Writes 8 bytes, big endian, as one access.
    pub fn write_be64<const OFFSET: usize>(&self, value: u64) {
        // SAFETY: In the mapping and aligned. `writeq` takes a little endian register.
        unsafe { bindings::writeq(value.swap_bytes(), self.at::<OFFSET, 8>()) }
    }

    /// Reads a big endian register at a computed offset.
    ///
    /// # Errors
    ///
    /// `ERANGE` when `offset` is outside or not a multiple of 4.
    pub fn try_read_be32(&self, offset: usize) -> Result<u32> {
        let register = self.at_dynamic(offset, 4, 4)?;
        // SAFETY: Checked by `at_dynamic`.
        Ok(unsafe { bindings::readl(register) }.swap_bytes())
    }

    /// Writes a big endian register at a computed offset.
    ///
    /// # Errors
    ///
    /// As [`Io::try_read_be32`].
    pub fn try_write_be32(&self, offset: usize, value: u32) -> Result {
        let register = self.at_dynamic(offset, 4, 4)?;
        // SAFETY: Checked by `at_dynamic`.
        unsafe { bindings::writel(value.swap_bytes(), register) };
        Ok(())
    }

    /// Writes 8 bytes, big endian, as one access at a computed offset.
    ///
    /// # Errors
    ///
    /// `ERANGE` when `offset` is outside or not a multiple of 8.
    pub fn try_write_be64(&self, offset: usize, value: u64) -> Result {
        let register = self.at_dynamic(offset, 8, 8)?;
        // SAFETY: Checked by `at_dynamic`.
        unsafe { bindings::writeq(value.swap_bytes(), register) };
        Ok(())
    }

    /// Copies bytes to the device in units of 8, for a write combining mapping. The CPU may hold
    /// them back until [`write_barrier`] or the next uncached access.
    ///
    /// # Errors
    ///
    /// `ERANGE` when the range does not fit or is not made of whole, aligned units.
    pub fn try_copy_to(&self, offset: usize, bytes: &[u8]) -> Result {
        let target = self.at_dynamic(offset, bytes.len(), 8)?;
        if bytes.len() % 8 != 0 {
            return Err(ERANGE);
        }
        // SAFETY: The mapping has `bytes.len()` bytes there, which is a whole number of units; the
        // source may have any alignment on machines that can map devices write combining.
        unsafe { bindings::__iowrite64_copy(target, bytes.as_ptr().cast(), bytes.len() / 8) };
        Ok(())
    }

    /// The BAR this is a part of.
    pub fn bar(&self) -> &Bar {
        &self.bar
    }
}

impl<const SIZE: usize> Drop for Io<SIZE> {
    fn drop(&mut self) {
        // SAFETY: Mapped in `map_with`, and nobody can use the mapping any more.
        unsafe {
            bindings::pci_iounmap(self.bar.0.device.as_raw(), self.base.as_ptr().cast());
        }
    }
}

/// Flushes what write combining holds back and orders writes before it against those after it
/// (`wmb`).
pub fn write_barrier() {
    kernel::sync::barrier::mb(kernel::sync::barrier::Write);
}
