// SPDX-License-Identifier: GPL-2.0
//! Objects whose memory the core owns and whose payload the driver owns.
//!
//! The core is told a size at registration, allocates that much zeroed memory for each object, and
//! frees it after the destroy function. Its own structure is at the start. The create function
//! initialises the payload behind it in place; when that fails the core frees the memory at once,
//! without calling the destroy function.

use core::{marker::PhantomData, mem::MaybeUninit, ptr};

use kernel::{prelude::*, types::Opaque};
use pin_init::PinInit;
use rmlx5_bindings as bindings;

/// The core's structure `C` and behind it the driver's payload `T`.
#[repr(C)]
pub(super) struct Object<C, T> {
    core: Opaque<C>,
    payload: MaybeUninit<T>,
}

impl<C, T> Object<C, T> {
    /// What the core has to allocate. The payload must be content with what `kmalloc` aligns to.
    pub(super) const SIZE: usize = {
        assert!(core::mem::offset_of!(Self, core) == 0);
        assert!(align_of::<Self>() <= 8, "kmalloc aligns to 8 bytes");
        size_of::<Self>()
    };

    /// Initialises the payload of a new object.
    ///
    /// # Safety
    ///
    /// `core` must be at the start of [`Self::SIZE`] bytes, in the hands of the create function.
    pub(super) unsafe fn create(core: *mut C, payload: impl PinInit<T, Error>) -> Result {
        // SAFETY: In bounds by the safety requirements.
        let slot = unsafe { &raw mut (*core.cast::<Self>()).payload };
        // SAFETY: `slot` is valid, aligned (see `SIZE`) and stays where it is until the object is
        // destroyed. On failure nothing is left in it.
        unsafe { pin_init::raw_try_init(slot.cast(), payload) }
    }

    /// Drops the payload of an object that is being destroyed.
    ///
    /// # Safety
    ///
    /// `core` must have gone through [`Self::create`] successfully, and not be used any more.
    pub(super) unsafe fn destroy(core: *mut C) {
        // SAFETY: Initialised by the safety requirements.
        unsafe { ptr::drop_in_place((&raw mut (*core.cast::<Self>()).payload).cast::<T>()) }
    }

    /// # Safety
    ///
    /// `core` must have gone through [`Self::create`] successfully, and not be destroyed for `'a`.
    pub(super) unsafe fn payload<'a>(core: *mut C) -> Pin<&'a T> {
        // SAFETY: Initialised by the safety requirements, and never moved.
        unsafe { Pin::new_unchecked((*core.cast::<Self>()).payload.assume_init_ref()) }
    }
}

/// For kinds of objects whose memory the core does not allocate.
impl<C, T> Object<C, T> {
    /// Zeroed memory for an object without payload.
    pub(super) fn reserve() -> Result<*mut C> {
        let place = KBox::<Self>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
        Ok(KBox::into_raw(place).cast())
    }

    /// Frees the memory of an object without payload.
    ///
    /// # Safety
    ///
    /// `core` must come from [`Self::reserve`], have no payload, and not be used any more.
    pub(super) unsafe fn release(core: *mut C) {
        // SAFETY: By the safety requirements.
        drop(unsafe { KBox::<MaybeUninit<Self>>::from_raw(core.cast()) });
    }

    /// A new object.
    pub(super) fn allocate(payload: T) -> Result<*mut C> {
        let core = Self::reserve()?;
        // SAFETY: Memory of the size of an object, and nobody else has it yet; moving a value cannot
        // fail.
        unsafe { Self::create(core, Ok::<_, Error>(payload))? };
        Ok(core)
    }

    /// Drops the payload and frees the memory.
    ///
    /// # Safety
    ///
    /// `core` must come from [`Self::reserve`], have a payload, and not be used any more.
    pub(super) unsafe fn free(core: *mut C) {
        // SAFETY: By the safety requirements.
        unsafe {
            Self::destroy(core);
            Self::release(core);
        }
    }
}

/// A reference to an object of the core with a payload `T`, valid for `'a`.
///
/// # Invariants
///
/// The pointer is an object that was created with a payload `T` and is not destroyed for `'a`.
pub struct Ref<'a, C, T> {
    core: *mut C,
    payload: PhantomData<&'a T>,
}

impl<C, T> Clone for Ref<'_, C, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, T> Copy for Ref<'_, C, T> {}

impl<'a, C, T> Ref<'a, C, T> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn from_raw(core: *mut C) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            core,
            payload: PhantomData,
        }
    }

    /// The driver's part.
    pub fn payload(self) -> Pin<&'a T> {
        // SAFETY: By the type invariant.
        unsafe { Object::payload(self.core) }
    }

    pub(super) fn as_raw(self) -> *mut C {
        self.core
    }
}

/// A user context: an open device file.
pub type Context<'a, T> = Ref<'a, bindings::ib_ucontext, T>;

/// A protection domain.
pub type Pd<'a, T> = Ref<'a, bindings::ib_pd, T>;

impl<T> Pd<'_, T> {
    /// Key of all memory for this side, of a domain of the kernel.
    pub fn local_dma_lkey(&self) -> u32 {
        // SAFETY: By the type invariant; it does not change after the creation.
        unsafe { (*self.as_raw()).local_dma_lkey }
    }
}
