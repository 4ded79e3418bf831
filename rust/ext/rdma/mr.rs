// SPDX-License-Identifier: GPL-2.0
//! Memory regions of users.

use kernel::prelude::*;
use rmlx5_bindings as bindings;

use super::{
    access::Access,
    object::{Context, Object, Pd, Ref},
    umem::Umem,
    verbs::UserVerbs,
};

/// A memory region.
pub type Mr<'a, T> = Ref<'a, bindings::ib_mr, T>;

/// A memory region that is being made, for the duration of the call.
pub struct NewMr<'a, D: UserVerbs> {
    pub(super) context: Context<'a, D::Context>,
    pub(super) pd: Pd<'a, D::Pd>,
    /// Where the memory is in the process.
    pub start: u64,
    /// Bytes; not checked.
    pub length: u64,
    /// Address that keys know the first byte by.
    pub virt: u64,
    /// Who may do what. The core has checked that remote writes imply local ones.
    pub access: Access,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

impl<'a, D: UserVerbs> NewMr<'a, D> {
    /// The user.
    pub fn context(&self) -> Context<'a, D::Context> {
        self.context
    }

    /// The domain that the region is to belong to.
    pub fn pd(&self) -> Pd<'a, D::Pd> {
        self.pd
    }

    /// The keys of the region.
    pub fn set_keys(&mut self, lkey: u32, rkey: u32) {
        self.lkey = lkey;
        self.rkey = rkey;
    }
}

/// What an existing region is to become: the new one has the values given here, and takes the place
/// of the old one when it was made.
pub enum Reregister {
    /// Other memory: pin `start` and `length` of the new region.
    Other,
    /// The memory of the old region.
    Same,
}

impl Umem {
    /// Whether this memory may be registered with `access` as it was pinned.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it was pinned for reading only.
    pub fn check_access(&self, access: Access) -> Result {
        // CAST: a small flag.
        self.check_rereg(
            bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int,
            access,
        )
    }
}

/// The memory of a region: unlike that of other objects the driver allocates it.
pub(super) struct Allocated;

impl Allocated {
    /// Makes a region with a payload; the core gets the pointer.
    pub(super) fn make<D: UserVerbs>(
        new: &NewMr<'_, D>,
        payload: D::Mr,
    ) -> Result<*mut bindings::ib_mr> {
        let place = KBox::<Object<bindings::ib_mr, D::Mr>>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
        let raw = KBox::into_raw(place).cast::<bindings::ib_mr>();
        // SAFETY: Zeroed memory of the size of an object, and nobody else has it yet; moving a value
        // cannot fail.
        unsafe {
            Object::<bindings::ib_mr, D::Mr>::create(raw, Ok::<_, Error>(payload))?;
            (*raw).lkey = new.lkey;
            (*raw).rkey = new.rkey;
            (*raw).length = new.length;
            (*raw).iova = new.virt;
            (*raw).device = (*new.pd.as_raw()).device;
        }
        Ok(raw)
    }

    /// Makes a region of the kernel in domain `pd`, which fills in what it is by itself.
    ///
    /// # Safety
    ///
    /// `pd` must be a domain.
    pub(super) unsafe fn bare<D: UserVerbs>(
        pd: *mut bindings::ib_pd,
        key: u32,
        payload: D::Mr,
    ) -> Result<*mut bindings::ib_mr> {
        let place = KBox::<Object<bindings::ib_mr, D::Mr>>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
        let raw = KBox::into_raw(place).cast::<bindings::ib_mr>();
        // SAFETY: Zeroed memory of the size of an object, and nobody else has it yet; moving a value
        // cannot fail.
        unsafe {
            Object::<bindings::ib_mr, D::Mr>::create(raw, Ok::<_, Error>(payload))?;
            (*raw).lkey = key;
            (*raw).rkey = key;
            (*raw).device = (*pd).device;
        }
        Ok(raw)
    }

    /// Drops the payload and frees the memory.
    ///
    /// # Safety
    ///
    /// `mr` must come from [`Allocated::make`] and not be used any more.
    pub(super) unsafe fn free<D: UserVerbs>(mr: *mut bindings::ib_mr) {
        // SAFETY: By the safety requirements.
        unsafe {
            Object::<bindings::ib_mr, D::Mr>::destroy(mr);
            drop(
                KBox::<core::mem::MaybeUninit<Object<bindings::ib_mr, D::Mr>>>::from_raw(mr.cast()),
            );
        }
    }
}
