// SPDX-License-Identifier: GPL-2.0
//! The description of methods for the core: constants that point to each other, as the macros of the C header make them.

use core::{marker::PhantomData, ptr, slice};

use kernel::{
    error::{from_err_ptr, from_result},
    prelude::*,
};
use rmlx5_bindings as bindings;

use super::{
    super::{device::Shell, object::Ref, page::Entry, verbs::UserVerbs},
    Attribute, Call, ContextAnswer, DeviceMethod, ObjectNumbers, PageMethods, PdMethod,
};

/// Most attributes of a method.
const MOST: usize = 8;

/// Attributes as the core wants them: it skips what is null.
pub(super) type Pointers = [*const bindings::uverbs_attr_def; MOST];

pub(super) const fn pointers(
    objects: &'static [Attribute],
    rest: &'static [Attribute],
) -> Pointers {
    assert!(objects.len() + rest.len() <= MOST);
    let mut all: Pointers = [ptr::null(); MOST];
    // PANIC: evaluated when the driver is built, and checked above.
    let mut at = 0;
    while at < objects.len() {
        all[at] = &raw const objects[at].0;
        at += 1;
    }
    while at < objects.len() + rest.len() {
        all[at] = &raw const rest[at - objects.len()].0;
        at += 1;
    }
    all
}

pub(super) type Handler = unsafe extern "C" fn(*mut bindings::uverbs_attr_bundle) -> c_int;

pub(super) const fn method(
    id: u16,
    attributes: &'static Pointers,
    handler: Option<Handler>,
) -> bindings::uverbs_method_def {
    bindings::uverbs_method_def {
        id,
        flags: 0,
        num_attrs: MOST,
        attrs: (&raw const *attributes).cast(),
        handler,
    }
}

/// The object of the core for methods of the device.
// CAST: a small number.
const DEVICE: u16 = bindings::uverbs_default_objects_UVERBS_OBJECT_DEVICE as u16;

/// The method that destroys an object, for which the core has a handler.
pub(super) const fn destroying(
    id: u16,
    attributes: &'static Pointers,
) -> bindings::uverbs_method_def {
    method(id, attributes, Some(bindings::uverbs_destroy_def_handler))
}

pub(super) type Methods<const N: usize> = [*const bindings::uverbs_method_def; N];

/// Methods more for an object that the core has.
pub(super) const fn extension<const N: usize>(
    object: u16,
    methods: &'static Methods<N>,
) -> bindings::uverbs_object_def {
    bindings::uverbs_object_def {
        id: object,
        type_attrs: ptr::null(),
        num_methods: N,
        methods: (&raw const *methods).cast(),
    }
}

/// The description of [`ContextAnswer`] for the core.
pub(super) struct Asked<A>(PhantomData<A>);

impl<A: ContextAnswer> Asked<A> {
    const ATTRIBUTE: &'static Attribute = &A::ATTRIBUTE;
    const ATTRIBUTES: &'static Pointers = &pointers(slice::from_ref(Self::ATTRIBUTE), &[]);
    // The core has the method already.
    // CAST, below: small numbers.
    const METHOD: &'static bindings::uverbs_method_def = &method(
        bindings::uverbs_methods_device_UVERBS_METHOD_QUERY_CONTEXT as u16,
        Self::ATTRIBUTES,
        None,
    );
    const METHODS: &'static Methods<1> = &[Self::METHOD];
    pub(super) const TREE: &'static bindings::uverbs_object_def = &extension(DEVICE, Self::METHODS);
}

/// The description of [`DeviceMethod`] for the core.
pub(super) struct OnDevice<D, M>(PhantomData<(D, M)>);

impl<D: UserVerbs, M: DeviceMethod<D>> OnDevice<D, M> {
    const FIRST: &'static Attribute = &M::FIRST;
    const ATTRIBUTES: &'static Pointers = &pointers(slice::from_ref(Self::FIRST), M::REST);
    const METHOD: &'static bindings::uverbs_method_def =
        &method(driver_number(M::METHOD), Self::ATTRIBUTES, Some(Self::call));
    const METHODS: &'static Methods<1> = &[Self::METHOD];
    pub(super) const TREE: &'static bindings::uverbs_object_def = &extension(DEVICE, Self::METHODS);

    extern "C" fn call(attrs: *mut bindings::uverbs_attr_bundle) -> c_int {
        // SAFETY: The core calls for a file of this driver's device. A context that the file has stays for this call.
        from_result(|| unsafe {
            let context = from_err_ptr(bindings::uverbs_context(attrs))?;
            let data = Shell::<D>::data((*context).device);
            M::call(data, Ref::from_raw(context), &mut Call::from_raw(attrs))?;
            Ok(0)
        })
    }
}

/// The description of [`PdMethod`] for the core.
pub(super) struct OnPd<D, M>(PhantomData<(D, M)>);

impl<D: UserVerbs, M: PdMethod<D>> OnPd<D, M> {
    // CAST, below: small numbers.
    const PD: u16 = bindings::uverbs_default_objects_UVERBS_OBJECT_PD as u16;
    const HANDLE: &'static Attribute = &Attribute::object(
        M::HANDLE,
        Self::PD,
        bindings::uverbs_obj_access_UVERBS_ACCESS_READ,
    );
    const ATTRIBUTES: &'static Pointers = &pointers(slice::from_ref(Self::HANDLE), M::ATTRIBUTES);
    const METHOD: &'static bindings::uverbs_method_def =
        &method(M::METHOD, Self::ATTRIBUTES, Some(Self::call));
    const METHODS: &'static Methods<1> = &[Self::METHOD];
    pub(super) const TREE: &'static bindings::uverbs_object_def =
        &extension(Self::PD, Self::METHODS);

    extern "C" fn call(attrs: *mut bindings::uverbs_attr_bundle) -> c_int {
        // SAFETY: The core has looked up the domain that the attribute names, which is of this driver's device, and
        // holds it for this call.
        from_result(|| unsafe {
            let object = bindings::uverbs_attr_get_uobject(attrs, M::HANDLE);
            let pd: *mut bindings::ib_pd = (*object).object.cast();
            let data = Shell::<D>::data((*pd).device);
            M::call(data, Ref::from_raw(pd), &mut Call::from_raw(attrs))?;
            Ok(0)
        })
    }
}

/// A number in the part that is for drivers. Building fails for one that is not.
pub(super) const fn driver_number(number: u16) -> u16 {
    assert!(number >> bindings::UVERBS_ID_NS_SHIFT != 0);
    number
}

/// How the core makes and destroys an object of the driver's own.
pub(super) trait Handlers {
    type Numbers: ObjectNumbers;

    extern "C" fn create(attrs: *mut bindings::uverbs_attr_bundle) -> c_int;

    extern "C" fn destroy(
        object: *mut bindings::ib_uobject,
        why: bindings::rdma_remove_reason,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int;
}

/// The description of [`ObjectNumbers`] and what belongs to them for the core.
pub(super) struct Described<H>(PhantomData<H>);

impl<H: Handlers> Described<H> {
    /// In the part of the numbers that is for drivers: no object of the core is taken for one of these.
    pub(super) const OBJECT: u16 = driver_number(H::Numbers::OBJECT);
    const NEW: &'static Attribute = &Attribute::object(
        H::Numbers::NEW,
        Self::OBJECT,
        bindings::uverbs_obj_access_UVERBS_ACCESS_NEW,
    );
    const OLD: &'static Attribute = &Attribute::object(
        H::Numbers::OLD,
        Self::OBJECT,
        bindings::uverbs_obj_access_UVERBS_ACCESS_DESTROY,
    );
    const CREATE: &'static bindings::uverbs_method_def = &method(
        H::Numbers::CREATE,
        &pointers(slice::from_ref(Self::NEW), H::Numbers::ATTRIBUTES),
        Some(H::create),
    );
    const DESTROY: &'static bindings::uverbs_method_def = &destroying(
        H::Numbers::DESTROY,
        &pointers(slice::from_ref(Self::OLD), &[]),
    );
    const METHODS: &'static Methods<2> = &[Self::CREATE, Self::DESTROY];
    const KIND: &'static bindings::uverbs_obj_idr_type = &bindings::uverbs_obj_idr_type {
        type_: bindings::uverbs_obj_type {
            type_class: &raw const bindings::uverbs_idr_class,
            obj_size: size_of::<bindings::ib_uobject>(),
        },
        destroy_object: Some(H::destroy),
    };
    pub(super) const TREE: &'static bindings::uverbs_object_def = &bindings::uverbs_object_def {
        type_attrs: &raw const Self::KIND.type_,
        ..extension(Self::OBJECT, Self::METHODS)
    };
}

/// [`PageMethods`] as the core calls them.
pub(super) struct Paged<D, M>(PhantomData<(D, M)>);

impl<D: UserVerbs, M: PageMethods<D>> Handlers for Paged<D, M> {
    type Numbers = M;

    extern "C" fn create(attrs: *mut bindings::uverbs_attr_bundle) -> c_int {
        // SAFETY: The core passes a new object of a context of this driver's device, both for this call. It is the
        // object's from `uverbs_finalize_uobj_create` on: the core then destroys it when this fails. Nobody else
        // destroys it before this has returned.
        from_result(|| unsafe {
            let object = bindings::uverbs_attr_get_uobject(attrs, M::NEW);
            let context = (*object).context;
            let data = Shell::<D>::data((*context).device);
            let mut call = Call::from_raw(attrs);
            let page = M::create(data, Ref::from_raw(context), &mut call)?;
            let entry = Entry::insert(context, page)?;
            (*object).object = entry.as_ptr().cast();
            bindings::uverbs_finalize_uobj_create(attrs, M::NEW);
            let place = Entry::<D::Page>::place(entry);
            M::answer(Entry::page(entry), place, &mut call)?;
            Ok(0)
        })
    }

    extern "C" fn destroy(
        object: *mut bindings::ib_uobject,
        _why: bindings::rdma_remove_reason,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: The core destroys what was created, once.
        unsafe { Entry::<D::Page>::remove((*object).object.cast()) };
        0
    }
}
