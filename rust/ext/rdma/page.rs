// SPDX-License-Identifier: GPL-2.0
//! Device memory that a process asks for page by page, and maps by the offset that it is told.
//!
//! A page lives as long as the object by which the process has it, or any mapping of it: what is behind the page must
//! not become another's before.

use core::{marker::PhantomData, ops::Deref, ptr::NonNull};

use kernel::{error::to_result, page::PAGE_SIZE, prelude::*, types::Opaque};
use rmlx5_bindings as bindings;

/// The first page offset that such pages get. What is below is the driver's own to give a meaning to.
const FIRST: u32 = 1 << 16;

/// Where a process finds a page.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// What to map its file at, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
}

/// The core's entry and behind it the driver's part.
#[repr(C)]
pub(super) struct Entry<T> {
    entry: Opaque<bindings::rdma_user_mmap_entry>,
    page: T,
}

impl<T> Entry<T> {
    /// Gives a page an offset in the file of `context`. The result is the reference of whoever asked for it:
    /// [`Entry::remove`].
    ///
    /// # Safety
    ///
    /// `context` must be valid, of a device whose pages are all `T`.
    pub(super) unsafe fn insert(
        context: *mut bindings::ib_ucontext,
        page: T,
    ) -> Result<NonNull<bindings::rdma_user_mmap_entry>> {
        let entry = KBox::new(
            Self {
                entry: Opaque::zeroed(),
                page,
            },
            GFP_KERNEL,
        )?;
        let raw = KBox::into_raw(entry);
        let core = raw.cast::<bindings::rdma_user_mmap_entry>();
        // SAFETY: By the safety requirements; the core initialises its part, which stays where it is.
        let inserted = to_result(unsafe {
            bindings::rdma_user_mmap_entry_insert_range(context, core, PAGE_SIZE, FIRST, u32::MAX)
        });
        if let Err(error) = inserted {
            // SAFETY: From above, and the core has not kept it.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(error);
        }
        NonNull::new(core).ok_or(EINVAL)
    }

    /// The driver's part.
    ///
    /// # Safety
    ///
    /// `entry` must come from [`Entry::insert`] for the same `T` and be referred to for `'a`.
    pub(super) unsafe fn page<'a>(entry: NonNull<bindings::rdma_user_mmap_entry>) -> &'a T {
        // SAFETY: By the safety requirements.
        unsafe { &entry.cast::<Self>().as_ref().page }
    }

    /// Where the process finds it.
    ///
    /// # Safety
    ///
    /// As for [`Entry::page`].
    pub(super) unsafe fn place(entry: NonNull<bindings::rdma_user_mmap_entry>) -> Place {
        // SAFETY: By the safety requirements; it does not change.
        let page_offset = unsafe { (*entry.as_ptr()).start_pgoff };
        Place {
            // CAST, twice: the core gives 32 bits; a page is small.
            offset: page_offset as u64 * PAGE_SIZE as u64,
            length: PAGE_SIZE as u32,
        }
    }

    /// Gives the reference of whoever asked for it back: nobody maps it any more.
    ///
    /// # Safety
    ///
    /// `entry` must be null or come from [`Entry::insert`], and not be removed yet.
    pub(super) unsafe fn remove(entry: *mut bindings::rdma_user_mmap_entry) {
        // SAFETY: By the safety requirements; null means nothing to the core.
        unsafe { bindings::rdma_user_mmap_entry_remove(entry) }
    }

    /// Frees it.
    ///
    /// # Safety
    ///
    /// `entry` must come from [`Entry::insert`] for the same `T` and not be referred to any more.
    pub(super) unsafe fn free(entry: *mut bindings::rdma_user_mmap_entry) {
        // SAFETY: The core's part is at the start; by the safety requirements it is nobody else's.
        drop(unsafe { KBox::from_raw(entry.cast::<Self>()) });
    }
}

/// A reference to a page that is being mapped.
///
/// # Invariants
///
/// The entry has a driver's part `T`, and this has a reference to it.
pub struct PageRef<'a, T> {
    entry: NonNull<bindings::rdma_user_mmap_entry>,
    page: PhantomData<&'a T>,
}

impl<T> PageRef<'_, T> {
    /// The page that `context` has at a page offset.
    ///
    /// # Safety
    ///
    /// `context` must be valid for the lifetime of the result, of a device whose pages are all `T`.
    pub(super) unsafe fn find(
        context: *mut bindings::ib_ucontext,
        page_offset: usize,
    ) -> Option<Self> {
        // SAFETY: By the safety requirements. The core gives a reference.
        let entry = unsafe { bindings::rdma_user_mmap_entry_get_pgoff(context, page_offset) };
        // INVARIANT: By the safety requirements.
        Some(Self {
            entry: NonNull::new(entry)?,
            page: PhantomData,
        })
    }

    pub(super) fn as_raw(&self) -> *mut bindings::rdma_user_mmap_entry {
        self.entry.as_ptr()
    }
}

impl<T> Deref for PageRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant.
        unsafe { Entry::page(self.entry) }
    }
}

impl<T> Drop for PageRef<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the reference goes.
        unsafe { bindings::rdma_user_mmap_entry_put(self.entry.as_ptr()) }
    }
}
