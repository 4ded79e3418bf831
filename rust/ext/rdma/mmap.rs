// SPDX-License-Identifier: GPL-2.0
//! Device memory in user space.

use core::{marker::PhantomData, ptr};

use kernel::{
    error::to_result,
    mm::virt::{flags, VmaNew},
    page::PAGE_SIZE,
    prelude::*,
};
use rmlx5_bindings as bindings;

use super::{clock::ClockPage, device::Driver, object::Context, page::PageRef};
use crate::pci::Bar;

/// How the CPU accesses mapped device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Each write goes to the device as it is.
    Uncached,
    /// The CPU may gather writes.
    WriteCombining,
}

/// The address range that user space wants device memory at.
///
/// # Invariants
///
/// The pointer is a range that is being set up by `mmap` of `context`'s file, for `'a`.
pub struct Vma<'a, D: Driver> {
    vma: *mut bindings::vm_area_struct,
    context: Context<'a, D::Context>,
    call: PhantomData<&'a mut ()>,
}

impl<'a, D: Driver> Vma<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn from_raw(
        vma: *mut bindings::vm_area_struct,
        context: Context<'a, D::Context>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            vma,
            context,
            call: PhantomData,
        }
    }

    /// The page offset that user space gave: which memory it wants, by the driver's convention.
    pub fn page_offset(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.vma).vm_pgoff }
    }

    /// Length in bytes, whole pages.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant; the union holds the range of a range that is in use.
        unsafe {
            let range = (*self.vma).__bindgen_anon_1.__bindgen_anon_1;
            range.vm_end.wrapping_sub(range.vm_start)
        }
    }

    /// The context whose file is mapped.
    pub fn context(&self) -> Context<'a, D::Context> {
        self.context
    }

    /// The page of the process at that offset.
    pub fn page(&self) -> Option<PageRef<'a, D::Page>> {
        // SAFETY: By the type invariant the context is valid for `'a`; all pages of this driver's contexts are made by
        // this crate for `D`.
        unsafe { PageRef::find(self.context.as_raw(), self.page_offset()) }
    }

    /// Makes sure that user space only ever reads. `EPERM` when it wants to write or execute.
    fn only_read(&self) -> Result {
        // SAFETY: By the type invariant the range is being set up.
        let new = unsafe { VmaNew::from_raw(self.vma) };
        if new.writable() || new.executable() {
            return Err(EPERM);
        }
        new.try_clear_maywrite()?;
        new.try_clear_mayexec()
    }

    /// Maps the page of `bar` that starts at `offset`, shared, to be read and nothing else. The core takes it away when the
    /// device goes away; zeros are read then.
    ///
    /// # Errors
    ///
    /// As for [`Vma::map_page`], and `EPERM` when user space wants to write.
    pub fn map_page_to_read(self, bar: &Bar, offset: u64) -> Result {
        if self.len() != PAGE_SIZE {
            return Err(EINVAL);
        }
        self.only_read()?;
        self.map_page(bar, offset, Cache::Uncached, None)
    }

    /// Maps the page of a clock, shared, to be read. It stays when the device goes away.
    ///
    /// # Errors
    ///
    /// `EINVAL` unless the range is one shared page, `EPERM` when user space wants to write or execute it, `ENOMEM`.
    pub fn map_clock(self, page: &ClockPage) -> Result {
        // SAFETY: By the type invariant the range is being set up.
        let shared = unsafe { VmaNew::from_raw(self.vma) }.flags() & flags::SHARED != 0;
        if self.len() != PAGE_SIZE || !shared {
            return Err(EINVAL);
        }
        self.only_read()?;
        // SAFETY: By the type invariant this is inside an mmap call, for one page. The mapping takes a reference to the
        // page, and cannot write.
        to_result(unsafe { bindings::vm_insert_user_page(self.vma, page.as_raw()) })
    }

    /// Maps the page of `bar` that starts at `offset`, shared, with the access user space asked for.
    /// The core takes it away when the device goes away. The mapping holds `page`, which lives at least as long.
    ///
    /// # Errors
    ///
    /// `EINVAL` unless the range is one shared page and `offset` is a multiple of the page size,
    /// `EPERM` when user space wants to execute it, `ERANGE` outside of the BAR, `EAGAIN`, `ENOMEM`.
    pub fn map_page(
        self,
        bar: &Bar,
        offset: u64,
        cache: Cache,
        page: Option<PageRef<'_, D::Page>>,
    ) -> Result {
        // CAST: The size of a page fits.
        let size = PAGE_SIZE as u64;
        if self.len() != PAGE_SIZE || offset % size != 0 {
            return Err(EINVAL);
        }
        if bar.len().saturating_sub(offset) < size {
            return Err(ERANGE);
        }
        let physical = bar.physical(offset)?;
        let number = usize::try_from(physical / size).map_err(|_| ERANGE)?;
        // SAFETY: By the type invariant this is inside the core's mmap call, and the page is device
        // memory of the driver. The core takes a reference of its own to the entry.
        to_result(unsafe {
            bindings::rdma_map_io_page(
                self.context.as_raw(),
                self.vma,
                number,
                cache == Cache::WriteCombining,
                page.as_ref().map_or(ptr::null_mut(), PageRef::as_raw),
            )
        })
    }
}
