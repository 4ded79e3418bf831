// SPDX-License-Identifier: GPL-2.0
//! Flow rules that are made of objects of the driver's own, beside those of the core's verb.

use core::{marker::PhantomData, ptr, slice};

use kernel::{error::from_result, prelude::*};
use rmlx5_bindings as bindings;

use super::{
    super::{
        device::Shell,
        flow::FlowObject,
        object::{Context, Ref},
        qp::Qp,
        verbs::UserVerbs,
    },
    own::{Held, ObjectMethods, Owned},
    tree::{destroying, extension, method, pointers, Described, Methods, Pointers},
    Attribute, Call,
};

/// Methods that make and destroy flow rules. Who makes one must be allowed to handle raw packets.
pub trait RuleMethods<D: UserVerbs>: 'static {
    /// What a rule is made of.
    type From: ObjectMethods<D>;

    /// The method that makes one.
    const CREATE: u16;
    /// The attribute of that for the new rule.
    const NEW: u16;
    /// The attribute of that for what it is made of.
    const FROM: u16;
    /// The attribute of that for a QP, which may be left out.
    const QP: u16;
    /// What else that has, at most 5.
    const ATTRIBUTES: &'static [Attribute];
    /// The method that destroys one.
    const DESTROY: u16;
    /// The attribute of that for the rule.
    const OLD: u16;

    /// Makes a rule. The QP is one for raw packets, and outlives the rule. Sleeps.
    fn create(
        data: &D::Data,
        context: Context<'_, D::Context>,
        from: Held<Self::From>,
        qp: Option<Qp<'_, D::Qp>>,
        call: &mut Call<'_>,
    ) -> Result<D::Flow>;
}

/// The description of [`RuleMethods`] for the core.
pub(super) struct Ruled<D, M>(PhantomData<(D, M)>);

impl<D: UserVerbs, M: RuleMethods<D>> Ruled<D, M> {
    // CAST, below: small numbers.
    const FLOW: u16 = bindings::uverbs_default_objects_UVERBS_OBJECT_FLOW as u16;
    const OBJECTS: &'static [Attribute; 3] = &[
        Attribute::object(
            M::NEW,
            Self::FLOW,
            bindings::uverbs_obj_access_UVERBS_ACCESS_NEW,
        ),
        Attribute::object(
            M::FROM,
            Described::<Owned<D, M::From>>::OBJECT,
            bindings::uverbs_obj_access_UVERBS_ACCESS_READ,
        ),
        Attribute::object_with(
            M::QP,
            bindings::uverbs_default_objects_UVERBS_OBJECT_QP as u16,
            bindings::uverbs_obj_access_UVERBS_ACCESS_READ,
            0,
        ),
    ];
    const OLD: &'static Attribute = &Attribute::object(
        M::OLD,
        Self::FLOW,
        bindings::uverbs_obj_access_UVERBS_ACCESS_DESTROY,
    );
    const ATTRIBUTES: &'static Pointers = &pointers(Self::OBJECTS, M::ATTRIBUTES);
    const CREATE: &'static bindings::uverbs_method_def =
        &method(M::CREATE, Self::ATTRIBUTES, Some(Self::create));
    // The core destroys the rule as it does those of its verb.
    const DESTROY: &'static bindings::uverbs_method_def =
        &destroying(M::DESTROY, &pointers(slice::from_ref(Self::OLD), &[]));
    const METHODS: &'static Methods<2> = &[Self::CREATE, Self::DESTROY];
    pub(super) const TREE: &'static bindings::uverbs_object_def =
        &extension(Self::FLOW, Self::METHODS);

    extern "C" fn create(attrs: *mut bindings::uverbs_attr_bundle) -> c_int {
        // SAFETY: The core has made the new object and looked the others up, which are of a context of this driver's
        // device, and keeps them for this call. Only QPs for raw packets go on: others may be such that the core has
        // opened a second time, without a driver's part. The rule keeps its QP.
        from_result(|| unsafe {
            if !bindings::rdma_uattrs_has_raw_cap(attrs) {
                return Err(EPERM);
            }
            let object = bindings::uverbs_attr_get_uobject(attrs, M::NEW);
            let context = (*object).context;
            let device = (*context).device;
            let mut qp: *mut bindings::ib_qp = ptr::null_mut();
            if bindings::uverbs_attr_is_valid(attrs, M::QP) {
                let named = bindings::uverbs_attr_get_uobject(attrs, M::QP);
                qp = (*named).object.cast();
                if (*qp).qp_type != bindings::ib_qp_type_IB_QPT_RAW_PACKET {
                    return Err(EINVAL);
                }
            }
            let from = Held::of(bindings::uverbs_attr_get_uobject(attrs, M::FROM));
            let rule = M::create(
                Shell::<D>::data(device),
                Ref::from_raw(context),
                from,
                (!qp.is_null()).then(|| Ref::from_raw(qp)),
                &mut Call::from_raw(attrs),
            )?;
            bindings::ib_set_flow(object, FlowObject::<D>::allocate(rule)?, qp, device);
            Ok(0)
        })
    }
}
