// SPDX-License-Identifier: GPL-2.0
//! What a driver adds to the ioctl interface of verbs: methods for the core's objects, objects of its own.
//!
//! A driver lists it in [`UserVerbs::DEFINITIONS`]. The core reads that when the device is registered; it looks objects
//! up, holds them for the call, and checks lengths before a method is called, and calls none when the device is gone.
//! Methods get at objects by their arguments only, never by the number of an attribute: so they are of the right kind.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

mod tree;

use core::{marker::PhantomData, ptr};

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use self::tree::{Asked, OnDevice, OnPd, Paged};
use super::{
    object::{Context, Pd},
    page::Place,
    verbs::UserVerbs,
};

/// An attribute of a method that user space has to give.
#[repr(transparent)]
pub struct Attribute(bindings::uverbs_attr_def);

impl Attribute {
    /// A number, [`Call::number`].
    pub const fn number(id: u16) -> Self {
        Self::value::<u64>(id)
    }

    /// A `T`, no more and no less: [`Call::read`].
    pub const fn value<T>(id: u16) -> Self {
        assert!(size_of::<T>() <= u16::MAX as usize);
        // CAST: checked above.
        let length = size_of::<T>() as u16;
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_IN;
        Self::data(id, kind, length, length, false)
    }

    /// Room for a `T`, no more and no less: [`Call::answer`].
    pub const fn answer<T>(id: u16) -> Self {
        assert!(size_of::<T>() <= u16::MAX as usize);
        // CAST: checked above.
        let length = size_of::<T>() as u16;
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_OUT;
        Self::data(id, kind, length, length, false)
    }

    /// Room for at least the first `minimum` bytes of a `T`, which newer versions make longer:
    /// [`Call::answer_in_part`].
    pub const fn answer_in_part<T>(id: u16, minimum: usize) -> Self {
        assert!(minimum <= size_of::<T>() && size_of::<T>() <= u16::MAX as usize);
        // CAST, twice: checked above.
        let (minimum, length) = (minimum as u16, size_of::<T>() as u16);
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_OUT;
        Self::data(id, kind, minimum, length, true)
    }

    const fn data(id: u16, kind: u32, minimum: u16, length: u16, zero_trailing: bool) -> Self {
        let u = bindings::uverbs_attr_spec__bindgen_ty_1 {
            ptr: bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_1 {
                len: length,
                min_len: minimum,
            },
        };
        Self::new(id, kind, u, zero_trailing)
    }

    const fn object(id: u16, object: u16, access: bindings::uverbs_obj_access) -> Self {
        let u = bindings::uverbs_attr_spec__bindgen_ty_1 {
            obj: bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_2 {
                obj_type: object,
                // CAST: a few values.
                access: access as u8,
            },
        };
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_IDR;
        Self::new(id, kind, u, false)
    }

    const fn new(
        id: u16,
        kind: u32,
        u: bindings::uverbs_attr_spec__bindgen_ty_1,
        zero_trailing: bool,
    ) -> Self {
        /// Bits of the flags, in the order of the C header: `zero_trailing`, `mandatory`.
        const ZERO_TRAILING: u8 = 1 << 0;
        const MANDATORY: u8 = 1 << 2;
        let flags = if zero_trailing {
            ZERO_TRAILING | MANDATORY
        } else {
            MANDATORY
        };
        Self(bindings::uverbs_attr_def {
            id,
            attr: bindings::uverbs_attr_spec {
                // CAST: a few values.
                type_: kind as u8,
                _bitfield_align_1: [],
                _bitfield_1: bindings::__BindgenBitfieldUnit::new([flags]),
                u,
                u2: bindings::uverbs_attr_spec__bindgen_ty_2 {
                    enum_def: bindings::uverbs_attr_spec__bindgen_ty_2__bindgen_ty_1 {
                        ids: ptr::null(),
                    },
                },
            },
        })
    }
}

/// One entry of the list of what a driver adds; the last one is [`Definition::END`].
#[repr(transparent)]
pub struct Definition<D>(bindings::uapi_definition, PhantomData<fn(D)>);

impl<D> Definition<D> {
    /// The end of the list.
    pub const END: Self = Self::new(bindings::uapi_definition_kind_UAPI_DEF_END, 0, ptr::null());

    const fn new(kind: u32, object: u16, tree: *const bindings::uverbs_object_def) -> Self {
        let definition = bindings::uapi_definition {
            // CAST: a few values.
            kind: kind as u8,
            scope: 0,
            __bindgen_anon_1: bindings::uapi_definition__bindgen_ty_1 {
                object_start: bindings::uapi_definition__bindgen_ty_1__bindgen_ty_1 {
                    object_id: object,
                },
            },
            __bindgen_anon_2: bindings::uapi_definition__bindgen_ty_2 {
                chain_obj_tree: tree,
            },
        };
        Self(definition, PhantomData)
    }

    const fn tree(tree: &'static bindings::uverbs_object_def) -> Self {
        let kind = bindings::uapi_definition_kind_UAPI_DEF_CHAIN_OBJ_TREE;
        Self::new(kind, tree.id, tree)
    }

    /// A list as the core wants it. Building fails unless the last entry is the end.
    pub(super) const fn list(all: &'static [Self]) -> *const bindings::uapi_definition {
        let Some(last) = all.last() else {
            panic!("the list of definitions has no end");
        };
        // CAST: a few values.
        assert!(last.0.kind == bindings::uapi_definition_kind_UAPI_DEF_END as u8);
        all.as_ptr().cast()
    }
}

impl<D: UserVerbs> Definition<D> {
    /// What the driver answers when a process asks for its context again:
    /// [`UserVerbs::query_context`].
    pub const fn query_context<A: ContextAnswer>() -> Self {
        Self::tree(Asked::<A>::TREE)
    }

    /// A method for the device.
    pub const fn device_method<M: DeviceMethod<D>>() -> Self {
        Self::tree(OnDevice::<D, M>::TREE)
    }

    /// A method for protection domains.
    pub const fn pd_method<M: PdMethod<D>>() -> Self {
        Self::tree(OnPd::<D, M>::TREE)
    }

    /// An object by which processes have pages of the device.
    pub const fn pages<M: PageMethods<D>>() -> Self {
        Self::tree(Paged::<D, M>::TREE)
    }
}

/// The driver's part of the answer to QUERY_CONTEXT.
pub trait ContextAnswer: 'static {
    /// The attribute.
    const ATTRIBUTE: Attribute;
}

/// A method for the device, by any of its contexts.
pub trait DeviceMethod<D: UserVerbs>: 'static {
    /// Its number, in the part of the numbers that is for drivers.
    const METHOD: u16;
    /// The first attribute.
    const FIRST: Attribute;
    /// What else there is, at most 7.
    const REST: &'static [Attribute];

    /// Does it. Sleeps.
    fn call(data: &D::Data, context: Context<'_, D::Context>, call: &mut Call<'_>) -> Result;
}

/// A method for protection domains.
pub trait PdMethod<D: UserVerbs>: 'static {
    /// Its number.
    const METHOD: u16;
    /// The attribute that names the domain.
    const HANDLE: u16;
    /// What else there is, at most 7.
    const ATTRIBUTES: &'static [Attribute];

    /// Does it. Sleeps.
    fn call(data: &D::Data, pd: Pd<'_, D::Pd>, call: &mut Call<'_>) -> Result;
}

/// An object that is a page of the device. There are a method that makes it and one that destroys it.
pub trait PageMethods<D: UserVerbs>: 'static {
    /// Its number.
    const OBJECT: u16;
    /// The method that makes it.
    const CREATE: u16;
    /// The attribute of that for the new object.
    const NEW: u16;
    /// What else that has, at most 7.
    const ATTRIBUTES: &'static [Attribute];
    /// The method that destroys it.
    const DESTROY: u16;
    /// The attribute of that for the object.
    const OLD: u16;

    /// Gets a page from the device. Sleeps.
    fn create(
        data: &D::Data,
        context: Context<'_, D::Context>,
        call: &mut Call<'_>,
    ) -> Result<D::Page>;

    /// Tells the process what it got. An error destroys the object.
    fn answer(page: &D::Page, place: Place, call: &mut Call<'_>) -> Result;
}

/// The attributes of one call.
///
/// # Invariants
///
/// The pointer is valid for `'a`, the duration of the call.
pub struct Call<'a>(*mut bindings::uverbs_attr_bundle, PhantomData<&'a mut ()>);

impl Call<'_> {
    /// # Safety
    ///
    /// `raw` must be that of a call that lasts longer than the result.
    pub(super) unsafe fn from_raw(raw: *mut bindings::uverbs_attr_bundle) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw, PhantomData)
    }

    /// The number that user space sent.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that does not fit.
    pub fn number(&self, id: u16) -> Result<u32> {
        let mut number = 0u64;
        // SAFETY: By the type invariant; without a default it must be there.
        to_result(unsafe {
            bindings::_uverbs_get_const_unsigned(
                &raw mut number,
                self.0,
                id.into(),
                u32::MAX.into(),
                ptr::null_mut(),
            )
        })?;
        Ok(u32::try_from(number)?)
    }

    /// The value that user space sent.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such an attribute, `EINVAL` for a longer one, `EFAULT` when the memory is not there.
    pub fn read<T: FromBytes + IntoBytes>(&self, id: u16) -> Result<T> {
        let mut value = T::new_zeroed();
        let bytes = value.as_mut_bytes();
        // SAFETY: By the type invariant; the function writes so many bytes at most.
        to_result(unsafe {
            bindings::uverbs_copy_in(bytes.as_mut_ptr().cast(), self.0, id.into(), bytes.len())
        })?;
        Ok(value)
    }

    /// Sends an answer.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the memory is not there.
    pub fn answer<T: IntoBytes + Immutable>(&mut self, id: u16, answer: &T) -> Result {
        let bytes = answer.as_bytes();
        // SAFETY: By the type invariant; the function reads the bytes only.
        to_result(unsafe {
            bindings::uverbs_copy_to(self.0, id.into(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Bytes that user space has room for.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such an attribute.
    pub fn room(&self, id: u16) -> Result<usize> {
        // SAFETY: By the type invariant.
        let length = unsafe { bindings::uverbs_attr_get_len(self.0, id) };
        to_result(length.min(0))?;
        Ok(usize::try_from(length)?)
    }

    /// Sends as much of an answer as there is room for, and zeros beyond it.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the memory is not there.
    pub fn answer_in_part(&mut self, id: u16, answer: &[u8]) -> Result {
        // SAFETY: By the type invariant; the function reads the bytes only.
        to_result(unsafe {
            bindings::uverbs_copy_to_struct_or_zero(
                self.0,
                id.into(),
                answer.as_ptr().cast(),
                answer.len(),
            )
        })
    }
}
