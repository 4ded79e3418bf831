// SPDX-License-Identifier: GPL-2.0
//! Objects of a driver's own: made and destroyed by a process, and kept by what else the driver makes of them.

use core::{marker::PhantomData, ops::Deref};

use kernel::{
    error::from_result,
    prelude::*,
    sync::{
        atomic::{
            ordering::{Acquire, Relaxed, Release},
            Atomic,
        },
        Arc, ArcBorrow,
    },
};
use rmlx5_bindings as bindings;

use super::{
    super::{
        device::Shell,
        object::{Context, Ref},
        verbs::UserVerbs,
    },
    tree::Handlers,
    Call, ObjectNumbers,
};

/// An object of the driver's own. There are a method that makes it and one that destroys it, which is `EBUSY` while it is
/// [`Held`].
pub trait ObjectMethods<D: UserVerbs>: ObjectNumbers + Sized + Send + Sync {
    /// Makes one. Sleeps.
    fn create(
        data: &D::Data,
        context: Context<'_, D::Context>,
        call: &mut Call<'_>,
    ) -> Result<Self>;
}

/// An object and how many hold it.
struct Counted<T> {
    /// Grows only while the core does not let anybody destroy the object.
    holders: Atomic<u32>,
    object: T,
}

/// An object that its process cannot destroy before this is dropped.
pub struct Held<T>(Arc<Counted<T>>);

impl<T> Held<T> {
    /// # Safety
    ///
    /// `object` must be one of [`Owned`] for `T`, which the core has looked up and keeps during this call.
    pub(super) unsafe fn of(object: *mut bindings::ib_uobject) -> Self {
        // SAFETY: By the safety requirements the object has a reference, which is not given back during this call.
        let counted = unsafe { ArcBorrow::from_raw((*object).object.cast::<Counted<T>>()) };
        counted.holders.fetch_add(1, Relaxed);
        Self(counted.into())
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.object
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.0.holders.fetch_sub(1, Release);
    }
}

/// [`ObjectMethods`] as the core calls them.
pub(super) struct Owned<D, O>(PhantomData<(D, O)>);

impl<D: UserVerbs, O: ObjectMethods<D>> Handlers for Owned<D, O> {
    type Numbers = O;

    extern "C" fn create(attrs: *mut bindings::uverbs_attr_bundle) -> c_int {
        // SAFETY: The core passes a new object of a context of this driver's device, both for this call. It is the
        // process's when this has succeeded.
        from_result(|| unsafe {
            let object = bindings::uverbs_attr_get_uobject(attrs, O::NEW);
            let context = (*object).context;
            let data = Shell::<D>::data((*context).device);
            let made = O::create(data, Ref::from_raw(context), &mut Call::from_raw(attrs))?;
            let counted = Arc::new(
                Counted {
                    holders: Atomic::new(0),
                    object: made,
                },
                GFP_KERNEL,
            )?;
            (*object).object = Arc::into_raw(counted).cast_mut().cast();
            Ok(0)
        })
    }

    extern "C" fn destroy(
        object: *mut bindings::ib_uobject,
        _why: bindings::rdma_remove_reason,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: The core destroys what was created, alone, and not again when this has succeeded.
        unsafe {
            let counted = (*object).object.cast::<Counted<O>>();
            if (*counted).holders.load(Acquire) != 0 {
                return EBUSY.to_errno();
            }
            drop(Arc::from_raw(counted));
        }
        0
    }
}
