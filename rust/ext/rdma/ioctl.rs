// SPDX-License-Identifier: GPL-2.0
//! What a driver adds to the ioctl interface of verbs: methods for the core's objects, objects of its own.
//!
//! A driver lists it in [`UserVerbs::DEFINITIONS`]. The core reads that when the device is registered; it looks objects
//! up, holds them for the call, and checks lengths before a method is called, and calls none when the device is gone.
//! Methods get at objects by their arguments only, never by the number of an attribute: so they are of the right kind.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

mod call;
mod own;
mod rules;
mod tree;

use core::{marker::PhantomData, ptr};

use kernel::prelude::*;
use rmlx5_bindings as bindings;

pub use self::{
    call::Call,
    own::{Held, ObjectMethods},
    rules::RuleMethods,
};
use self::{
    own::Owned,
    rules::Ruled,
    tree::{Asked, Described, OnDevice, OnPd, Paged},
};
use super::{
    object::{Context, Pd},
    page::Place,
    verbs::UserVerbs,
};

/// Flags of an attribute, in the order of the C header: `zero_trailing`, `alloc_and_copy`, `mandatory`.
const ZERO_TRAILING: u8 = 1 << 0;
const COPIED: u8 = 1 << 1;
const MANDATORY: u8 = 1 << 2;
const IN: u32 = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_IN;

/// One of the forms that a [`Attribute::choice`] can have, by what comes with it.
#[repr(transparent)]
pub struct Choice(bindings::uverbs_attr_spec);

impl Choice {
    /// Nothing.
    pub const NOTHING: Self = Self(spec(IN, lengths(0, 0), 0));

    /// A `T`, [`Call::read`].
    pub const fn value<T>() -> Self {
        Self(spec(IN, lengths(length_of::<T>(), length_of::<T>()), 0))
    }
}

const fn length_of<T>() -> u16 {
    assert!(size_of::<T>() <= u16::MAX as usize);
    // CAST: checked above.
    size_of::<T>() as u16
}

const fn lengths(minimum: u16, length: u16) -> bindings::uverbs_attr_spec__bindgen_ty_1 {
    bindings::uverbs_attr_spec__bindgen_ty_1 {
        ptr: bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_1 {
            len: length,
            min_len: minimum,
        },
    }
}

const fn spec(
    kind: u32,
    u: bindings::uverbs_attr_spec__bindgen_ty_1,
    flags: u8,
) -> bindings::uverbs_attr_spec {
    bindings::uverbs_attr_spec {
        // CAST: a few values.
        type_: kind as u8,
        _bitfield_align_1: [],
        _bitfield_1: bindings::__BindgenBitfieldUnit::new([flags]),
        u,
        u2: bindings::uverbs_attr_spec__bindgen_ty_2 {
            enum_def: bindings::uverbs_attr_spec__bindgen_ty_2__bindgen_ty_1 { ids: ptr::null() },
        },
    }
}

/// An attribute of a method. User space has to give it unless it says otherwise here.
#[repr(transparent)]
pub struct Attribute(bindings::uverbs_attr_def);

impl Attribute {
    /// A number, [`Call::number`].
    pub const fn number(id: u16) -> Self {
        let length = length_of::<u64>();
        Self::data(id, IN, length, length, MANDATORY)
    }

    /// A number that may be left out.
    pub const fn optional_number(id: u16) -> Self {
        let length = length_of::<u64>();
        Self::data(id, IN, length, length, 0)
    }

    /// A `T`, no more and no less: [`Call::read`].
    pub const fn value<T>(id: u16) -> Self {
        Self::data(id, IN, length_of::<T>(), length_of::<T>(), MANDATORY)
    }

    /// A `T` that may be left out.
    pub const fn optional_value<T>(id: u16) -> Self {
        Self::data(id, IN, length_of::<T>(), length_of::<T>(), 0)
    }

    /// One to `most` bytes: [`Call::bytes`].
    pub const fn bytes(id: u16, most: u16) -> Self {
        Self::data(id, IN, 1, most, COPIED | MANDATORY)
    }

    /// A set of bits; left out, it is empty: [`Call::flags`].
    pub const fn flags(id: u16) -> Self {
        Self::data(id, IN, length_of::<u32>(), length_of::<u64>(), 0)
    }

    /// One of several forms, by their place: [`Call::choice`], [`Call::read`].
    pub const fn choice(id: u16, all: &'static [Choice]) -> Self {
        assert!(all.len() <= u8::MAX as usize);
        let u = bindings::uverbs_attr_spec__bindgen_ty_1 {
            enum_def: bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_3 {
                // CAST: checked above.
                num_elems: all.len() as u8,
            },
        };
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_ENUM_IN;
        let mut attr = spec(kind, u, MANDATORY);
        attr.u2 = bindings::uverbs_attr_spec__bindgen_ty_2 {
            enum_def: bindings::uverbs_attr_spec__bindgen_ty_2__bindgen_ty_1 {
                ids: all.as_ptr().cast(),
            },
        };
        Self(bindings::uverbs_attr_def { id, attr })
    }

    /// Room for a `T`, no more and no less: [`Call::answer`].
    pub const fn answer<T>(id: u16) -> Self {
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_OUT;
        Self::data(id, kind, length_of::<T>(), length_of::<T>(), MANDATORY)
    }

    /// Room for at least the first `minimum` bytes of a `T`, which newer versions make longer:
    /// [`Call::answer_in_part`].
    pub const fn answer_in_part<T>(id: u16, minimum: usize) -> Self {
        assert!(minimum <= size_of::<T>());
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_OUT;
        // CAST: checked above, and `T` is short enough.
        let minimum = minimum as u16;
        Self::data(
            id,
            kind,
            minimum,
            length_of::<T>(),
            ZERO_TRAILING | MANDATORY,
        )
    }

    const fn data(id: u16, kind: u32, minimum: u16, length: u16, flags: u8) -> Self {
        let attr = spec(kind, lengths(minimum, length), flags);
        Self(bindings::uverbs_attr_def { id, attr })
    }

    const fn object(id: u16, object: u16, access: bindings::uverbs_obj_access) -> Self {
        Self::object_with(id, object, access, MANDATORY)
    }

    const fn object_with(
        id: u16,
        object: u16,
        access: bindings::uverbs_obj_access,
        flags: u8,
    ) -> Self {
        let u = bindings::uverbs_attr_spec__bindgen_ty_1 {
            obj: bindings::uverbs_attr_spec__bindgen_ty_1__bindgen_ty_2 {
                obj_type: object,
                // CAST: a few values.
                access: access as u8,
            },
        };
        let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_IDR;
        let attr = spec(kind, u, flags);
        Self(bindings::uverbs_attr_def { id, attr })
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
        Self::tree(Described::<Paged<D, M>>::TREE)
    }

    /// An object of the driver's own.
    pub const fn object<O: ObjectMethods<D>>() -> Self {
        Self::tree(Described::<Owned<D, O>>::TREE)
    }

    /// Methods by which processes make flow rules of such objects.
    pub const fn rules<M: RuleMethods<D>>() -> Self {
        Self::tree(Ruled::<D, M>::TREE)
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

/// Numbers of an object of the driver's own: there are a method that makes it and one that destroys it.
pub trait ObjectNumbers: 'static {
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
}

/// An object that is a page of the device.
pub trait PageMethods<D: UserVerbs>: ObjectNumbers {
    /// Gets a page from the device. Sleeps.
    fn create(
        data: &D::Data,
        context: Context<'_, D::Context>,
        call: &mut Call<'_>,
    ) -> Result<D::Page>;

    /// Tells the process what it got. An error destroys the object.
    fn answer(page: &D::Page, place: Place, call: &mut Call<'_>) -> Result;
}
