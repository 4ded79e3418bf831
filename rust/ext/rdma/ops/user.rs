// SPDX-License-Identifier: GPL-2.0
//! The table of functions for users' objects.

use core::marker::PhantomData;

use kernel::{error::from_result, prelude::*};
use rmlx5_bindings as bindings;

use super::{
    super::{
        access::Access,
        ah::AddressVector,
        cq::NewCq,
        device::Shell,
        flow::{FlowObject, NewFlow},
        ioctl::Call,
        kverbs::KernelVerbs,
        mr::{Allocated, NewMr, Reregister},
        mw::NewWindow,
        notify::{Notifier, Watched},
        object::{Context, Object, Ref},
        qp::{NewQp, NewXrcTarget, QpChange},
        srq::{NewSrq, SrqChange},
        udata::Udata,
        verbs::UserVerbs,
        wq::{NewWq, NewWqTable, WqChange},
    },
    kverbs::{AhObject, KernelOps},
};

/// Functions for driver `D`.
pub(super) struct UserOps<D>(PhantomData<D>);

pub(super) type CqObject<D> =
    Object<bindings::ib_cq, Watched<bindings::ib_cq, <D as UserVerbs>::Cq>>;
pub(super) type QpObject<D> =
    Object<bindings::ib_qp, Watched<bindings::ib_qp, <D as UserVerbs>::Qp>>;
type SrqObject<D> = Object<bindings::ib_srq, Watched<bindings::ib_srq, <D as UserVerbs>::Srq>>;
type WindowObject<D> = Object<bindings::ib_mw, <D as UserVerbs>::Window>;
type WqObject<D> = Object<bindings::ib_wq, Watched<bindings::ib_wq, <D as UserVerbs>::Wq>>;
type WqTableObject<D> = Object<bindings::ib_rwq_ind_table, <D as UserVerbs>::WqTable>;
type XrcdObject<D> = Object<bindings::ib_xrcd, <D as UserVerbs>::Xrcd>;

/// The context and the private part of a call by a user. `EOPNOTSUPP` for the kernel, which has
/// neither.
///
/// # Safety
///
/// `raw` must be null or that of a call of a user of driver `D` that lasts for `'a`.
unsafe fn user<'a, D: UserVerbs>(
    raw: *mut bindings::ib_udata,
) -> Result<(Context<'a, D::Context>, Udata<'a>)> {
    // SAFETY: By the safety requirements.
    unsafe {
        let udata = Udata::from_raw(raw).ok_or(EOPNOTSUPP)?;
        let context = bindings::udata_context(raw);
        if context.is_null() {
            return Err(EIO);
        }
        Ok((Context::from_raw(context), udata))
    }
}

impl<D: KernelVerbs> UserOps<D> {
    pub(super) fn fill(ops: &mut bindings::ib_device_ops) {
        ops.query_ucontext = Some(Self::query_ucontext);
        ops.create_user_cq = Some(Self::create_user_cq);
        ops.resize_user_cq = Some(Self::resize_user_cq);
        ops.modify_cq = Some(Self::modify_cq);
        ops.destroy_cq = Some(Self::destroy_cq);
        ops.create_qp = Some(Self::create_qp);
        ops.modify_qp = Some(Self::modify_qp);
        ops.query_qp = Some(Self::query_qp);
        ops.destroy_qp = Some(Self::destroy_qp);
        ops.create_srq = Some(Self::create_srq);
        ops.modify_srq = Some(Self::modify_srq);
        ops.query_srq = Some(Self::query_srq);
        ops.destroy_srq = Some(Self::destroy_srq);
        ops.reg_user_mr = Some(Self::reg_user_mr);
        ops.reg_user_mr_dmabuf = Some(Self::reg_user_mr_dmabuf);
        ops.rereg_user_mr = Some(Self::rereg_user_mr);
        ops.dereg_mr = Some(Self::dereg_mr);
        ops.alloc_mw = Some(Self::alloc_mw);
        ops.dealloc_mw = Some(Self::dealloc_mw);
        ops.alloc_xrcd = Some(Self::alloc_xrcd);
        ops.dealloc_xrcd = Some(Self::dealloc_xrcd);
        ops.create_flow = Some(Self::create_flow);
        ops.destroy_flow = Some(Self::destroy_flow);
        ops.create_wq = Some(Self::create_wq);
        ops.modify_wq = Some(Self::modify_wq);
        ops.destroy_wq = Some(Self::destroy_wq);
        ops.create_rwq_ind_table = Some(Self::create_wq_table);
        ops.destroy_rwq_ind_table = Some(Self::destroy_wq_table);
        ops.create_user_ah = Some(Self::create_user_ah);
        ops.destroy_ah = Some(Self::destroy_ah);
        ops.attach_mcast = Some(Self::attach_mcast);
        ops.detach_mcast = Some(Self::detach_mcast);
        ops.size_ib_cq = const { CqObject::<D>::SIZE };
        ops.size_ib_qp = const { QpObject::<D>::SIZE };
        ops.size_ib_srq = const { SrqObject::<D>::SIZE };
        ops.size_ib_mw = const { WindowObject::<D>::SIZE };
        ops.size_ib_xrcd = const { XrcdObject::<D>::SIZE };
        ops.size_ib_rwq_ind_table = const { WqTableObject::<D>::SIZE };
        ops.size_ib_ah = const { AhObject::<D>::SIZE };
    }

    extern "C" fn query_ucontext(
        context: *mut bindings::ib_ucontext,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: The core passes a context of this driver; everything lives for this call.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*context).device);
            D::query_context(data, Ref::from_raw(context), &mut Call::from_raw(attrs))?;
            Ok(0)
        })
    }

    extern "C" fn create_user_cq(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: The core passes a new CQ of the size it was told, with its device set; everything
        // lives for this call. The notifier is closed when the CQ is destroyed, and not used when it
        // is not created.
        from_result(|| unsafe {
            let (context, mut udata) = user::<D>(bindings::bundle_udata(attrs))?;
            let notifier = Notifier::new(cq)?;
            let mut new = NewCq::new(cq, attr, Some(context), notifier.clone());
            let data = Shell::<D>::data((*cq).device);
            let payload =
                D::create_cq(data, &mut new, &mut udata).inspect_err(|_| notifier.close())?;
            CqObject::<D>::create(cq, Ok::<_, Error>(Watched::new(notifier, payload)))?;
            Ok(0)
        })
    }

    extern "C" fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        entries: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a CQ of this driver; everything lives for this call.
        from_result(|| unsafe {
            let (context, mut udata) = user::<D>(udata)?;
            let data = Shell::<D>::data((*cq).device);
            D::resize_cq(data, context, Ref::from_raw(cq), entries, &mut udata)?;
            Ok(0)
        })
    }

    extern "C" fn modify_cq(cq: *mut bindings::ib_cq, count: u16, period: u16) -> c_int {
        // SAFETY: The core passes a CQ of this driver that lives for this call.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*cq).device);
            D::moderate_cq(data, Ref::from_raw(cq), count, period)?;
            Ok(0)
        })
    }

    extern "C" fn destroy_cq(cq: *mut bindings::ib_cq, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: The core destroys what was created, after everything that uses it.
        unsafe {
            CqObject::<D>::payload(cq).close();
            CqObject::<D>::destroy(cq);
        }
        0
    }

    extern "C" fn create_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: As in `create_user_cq`; the objects that the attributes name are of this driver and
        // held by the core.
        from_result(|| unsafe {
            if (*attr).qp_type == bindings::ib_qp_type_IB_QPT_XRC_TGT {
                return Self::create_xrc_target(qp, attr);
            }
            if udata.is_null() {
                return KernelOps::<D>::create_qp(qp, attr).map(|()| 0);
            }
            let (context, mut udata) = user::<D>(udata)?;
            let notifier = Notifier::new(qp)?;
            let mut new = NewQp::new(qp, attr, Some(context), notifier.clone());
            let data = Shell::<D>::data((*qp).device);
            let payload =
                D::create_qp(data, &mut new, &mut udata).inspect_err(|_| notifier.close())?;
            QpObject::<D>::create(qp, Ok::<_, Error>(Watched::new(notifier, payload)))?;
            Ok(0)
        })
    }

    /// The core makes such a QP without the user who asks for it.
    ///
    /// # Safety
    ///
    /// The arguments must be those of [`Self::create_qp`] for such a QP.
    unsafe fn create_xrc_target(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
    ) -> Result<c_int> {
        // SAFETY: As in `create_user_cq`; the core has looked the domain up.
        unsafe {
            if (*attr).xrcd.is_null() {
                return Err(EINVAL);
            }
            let notifier = Notifier::new(qp)?;
            let mut new = NewXrcTarget::new(qp, (*attr).xrcd, notifier.clone());
            let data = Shell::<D>::data((*qp).device);
            let payload = D::create_xrc_target(data, &mut new).inspect_err(|_| notifier.close())?;
            QpObject::<D>::create(qp, Ok::<_, Error>(Watched::new(notifier, payload)))?;
        }
        Ok(0)
    }

    extern "C" fn modify_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        mask: c_int,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a QP of this driver; everything lives for this call.
        from_result(|| unsafe {
            if udata.is_null() {
                return KernelOps::<D>::modify_qp(qp, attr, mask).map(|()| 0);
            }
            let (_, mut udata) = user::<D>(udata)?;
            let data = Shell::<D>::data((*qp).device);
            let change = QpChange::new(attr, mask);
            D::modify_qp(data, Ref::from_raw(qp), &change, &mut udata)?;
            Ok(0)
        })
    }

    extern "C" fn query_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        _mask: c_int,
        init: *mut bindings::ib_qp_init_attr,
    ) -> c_int {
        // SAFETY: The core passes a QP of this driver and structures to fill in.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*qp).device);
            D::query_qp(data, Ref::from_raw(qp))?.store(&*qp, &mut *attr, &mut *init);
            Ok(0)
        })
    }

    extern "C" fn destroy_qp(qp: *mut bindings::ib_qp, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: The core destroys what was created, after everything that uses it.
        unsafe {
            QpObject::<D>::payload(qp).close();
            QpObject::<D>::destroy(qp);
        }
        0
    }

    extern "C" fn create_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: As in `create_user_cq`; the domain is of this driver and held by the core.
        from_result(|| unsafe {
            let (context, mut udata) = user::<D>(udata)?;
            let notifier = Notifier::new(srq)?;
            let pd = Ref::from_raw((*srq).pd);
            let mut new = NewSrq::new(srq, attr, context, pd, notifier.clone());
            let data = Shell::<D>::data((*srq).device);
            let payload =
                D::create_srq(data, &mut new, &mut udata).inspect_err(|_| notifier.close())?;
            SrqObject::<D>::create(srq, Ok::<_, Error>(Watched::new(notifier, payload)))?;
            Ok(0)
        })
    }

    extern "C" fn modify_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
        mask: bindings::ib_srq_attr_mask,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes an SRQ of this driver; everything lives for this call.
        from_result(|| unsafe {
            let has = |bit| mask & bit != 0;
            let change = SrqChange {
                max_wr: has(bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR).then(|| (*attr).max_wr),
                limit: has(bindings::ib_srq_attr_mask_IB_SRQ_LIMIT).then(|| (*attr).srq_limit),
            };
            let data = Shell::<D>::data((*srq).device);
            D::modify_srq(data, Ref::from_raw(srq), change)?;
            Ok(0)
        })
    }

    extern "C" fn query_srq(srq: *mut bindings::ib_srq, attr: *mut bindings::ib_srq_attr) -> c_int {
        // SAFETY: The core passes an SRQ of this driver and a structure to fill in.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*srq).device);
            D::query_srq(data, Ref::from_raw(srq))?.store(&mut *attr);
            Ok(0)
        })
    }

    extern "C" fn destroy_srq(
        srq: *mut bindings::ib_srq,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core destroys what was created, after everything that uses it.
        unsafe {
            SrqObject::<D>::payload(srq).close();
            SrqObject::<D>::destroy(srq);
        }
        0
    }

    extern "C" fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        start: u64,
        length: u64,
        virt: u64,
        access: c_int,
        hint: *mut bindings::ib_dmah,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        let make = || {
            if !hint.is_null() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: The core passes a domain of this driver; everything lives for this call.
            let (context, mut udata, pd, data) = unsafe {
                let (context, udata) = user::<D>(udata)?;
                let data = Shell::<D>::data((*pd).device);
                (context, udata, Ref::from_raw(pd), data)
            };
            let mut new = NewMr {
                context,
                pd,
                start,
                length,
                virt,
                access: Access::from_raw(access),
                lkey: 0,
                rkey: 0,
            };
            let payload = D::register_mr(data, &mut new, &mut udata)?;
            Allocated::make(&new, payload)
        };
        make().unwrap_or_else(|error| error.to_ptr())
    }

    extern "C" fn reg_user_mr_dmabuf(
        pd: *mut bindings::ib_pd,
        _offset: u64,
        _length: u64,
        _virt: u64,
        _fd: c_int,
        _access: c_int,
        _hint: *mut bindings::ib_dmah,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut bindings::ib_mr {
        // SAFETY: The core passes a domain of this driver, which exists for this call.
        let data = unsafe { Shell::<D>::data((*pd).device) };
        D::refuse_dmabuf(data).to_ptr()
    }

    extern "C" fn rereg_user_mr(
        mr: *mut bindings::ib_mr,
        flags: c_int,
        start: u64,
        length: u64,
        virt: u64,
        access: c_int,
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        // CAST: a set of bits.
        let has = |bit| flags as u32 & bit != 0;
        let make = || {
            let other = has(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS);
            // SAFETY: The core passes a region and domains of this driver; everything lives for this
            // call.
            let (context, mut udata, old, data, raw) = unsafe {
                let (context, udata) = user::<D>(udata)?;
                let data = Shell::<D>::data((*mr).device);
                (context, udata, Ref::from_raw(mr), data, &*mr)
            };
            let pd = if has(bindings::ib_mr_rereg_flags_IB_MR_REREG_PD) {
                pd
            } else {
                raw.pd
            };
            let mut new = NewMr {
                context,
                // SAFETY: As above.
                pd: unsafe { Ref::from_raw(pd) },
                start,
                length: if other { length } else { raw.length },
                virt: if other { virt } else { raw.iova },
                access: if has(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS) {
                    Access::from_raw(access)
                } else {
                    D::access_of(old)
                },
                lkey: 0,
                rkey: 0,
            };
            let what = if other {
                Reregister::Other
            } else {
                Reregister::Same
            };
            match D::reregister_mr(data, old, &mut new, what, &mut udata)? {
                Some(payload) => Allocated::make(&new, payload),
                None => Ok(core::ptr::null_mut()),
            }
        };
        make().unwrap_or_else(|error| error.to_ptr())
    }

    extern "C" fn dereg_mr(mr: *mut bindings::ib_mr, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: The core deregisters what was registered, after everything that uses it.
        unsafe { Allocated::free::<D>(mr) };
        0
    }

    extern "C" fn alloc_mw(mw: *mut bindings::ib_mw, udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: The core passes a new window of the size it was told, with its device and its domain
        // set; everything lives for this call.
        from_result(|| unsafe {
            let (context, mut udata) = user::<D>(udata)?;
            let data = Shell::<D>::data((*mw).device);
            let payload = D::create_window(data, &mut NewWindow::new(mw, context), &mut udata)?;
            WindowObject::<D>::create(mw, Ok::<_, Error>(payload))?;
            Ok(0)
        })
    }

    extern "C" fn dealloc_mw(mw: *mut bindings::ib_mw) -> c_int {
        // SAFETY: The core destroys what was created.
        unsafe { WindowObject::<D>::destroy(mw) };
        0
    }

    extern "C" fn alloc_xrcd(
        xrcd: *mut bindings::ib_xrcd,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a new domain of the size it was told, with its device set; everything
        // lives for this call.
        from_result(|| unsafe {
            let (context, _) = user::<D>(udata)?;
            let data = Shell::<D>::data((*xrcd).device);
            let payload = D::create_xrcd(data, context)?;
            XrcdObject::<D>::create(xrcd, Ok::<_, Error>(payload))?;
            Ok(0)
        })
    }

    extern "C" fn dealloc_xrcd(
        xrcd: *mut bindings::ib_xrcd,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core destroys what was created, after everything that uses it.
        unsafe { XrcdObject::<D>::destroy(xrcd) };
        0
    }

    extern "C" fn create_flow(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_flow_attr,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_flow {
        let make = || {
            // SAFETY: The core passes a QP of this driver and a rule as long as it says; everything lives
            // for this call. The core keeps the QP as long as there is the rule, and fills in its own part.
            let (qp, data, new, mut udata) = unsafe {
                let (_, udata) = user::<D>(udata)?;
                let data = Shell::<D>::data((*qp).device);
                (Ref::from_raw(qp), data, NewFlow::new(attr), udata)
            };
            FlowObject::<D>::allocate(D::create_flow(data, qp, &new, &mut udata)?)
        };
        make().unwrap_or_else(|error| error.to_ptr())
    }

    extern "C" fn destroy_flow(flow: *mut bindings::ib_flow) -> c_int {
        // SAFETY: The core destroys what was created.
        unsafe { FlowObject::<D>::free(flow) };
        0
    }

    extern "C" fn create_wq(
        pd: *mut bindings::ib_pd,
        attr: *mut bindings::ib_wq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_wq {
        let make = |wq: *mut bindings::ib_wq| {
            // SAFETY: The core passes a domain of this driver, and attributes with a CQ of it; everything
            // lives for this call. Nobody else has `wq` yet. As for CQs, the notifier is closed before
            // the queue goes; the core fills in its own part when this has returned.
            unsafe {
                let (context, mut udata) = user::<D>(udata)?;
                let notifier = Notifier::new(wq)?;
                let data = Shell::<D>::data((*pd).device);
                (*wq).device = (*pd).device;
                (*wq).event_handler = (*attr).event_handler;
                (*wq).wq_context = (*attr).wq_context;
                let pd = Ref::from_raw(pd);
                let mut new = NewWq::new(wq, attr, context, pd, notifier.clone());
                let payload =
                    D::create_wq(data, &mut new, &mut udata).inspect_err(|_| notifier.close())?;
                WqObject::<D>::create(wq, Ok::<_, Error>(Watched::new(notifier, payload)))
            }
        };
        let made = WqObject::<D>::reserve().and_then(|wq| {
            // SAFETY: Reserved above, without payload, and nobody else's.
            make(wq).inspect_err(|_| unsafe { WqObject::<D>::release(wq) })?;
            Ok(wq)
        });
        made.unwrap_or_else(|error| error.to_ptr())
    }

    extern "C" fn modify_wq(
        wq: *mut bindings::ib_wq,
        attr: *mut bindings::ib_wq_attr,
        mask: u32,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a queue of this driver, alone; everything lives for this call.
        from_result(|| unsafe {
            let (_, mut udata) = user::<D>(udata)?;
            let data = Shell::<D>::data((*wq).device);
            let change = WqChange::from_raw(&*attr, mask)?;
            D::modify_wq(data, Ref::from_raw(wq), change, &mut udata)?;
            (*wq).state = change.to as u32;
            Ok(0)
        })
    }

    extern "C" fn destroy_wq(wq: *mut bindings::ib_wq, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: The core destroys what was created, after everything that uses it.
        unsafe {
            WqObject::<D>::payload(wq).close();
            WqObject::<D>::free(wq);
        }
        0
    }

    extern "C" fn create_wq_table(
        table: *mut bindings::ib_rwq_ind_table,
        attr: *mut bindings::ib_rwq_ind_table_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a new table of the size it was told, with its device set, and as many
        // queues of this driver as the attributes say, which it keeps; everything lives for this call.
        from_result(|| unsafe {
            let (context, mut udata) = user::<D>(udata)?;
            let data = Shell::<D>::data((*table).device);
            let mut new = NewWqTable::new(table, attr, context);
            let payload = D::create_wq_table(data, &mut new, &mut udata)?;
            WqTableObject::<D>::create(table, Ok::<_, Error>(payload))?;
            Ok(0)
        })
    }

    extern "C" fn destroy_wq_table(table: *mut bindings::ib_rwq_ind_table) -> c_int {
        // SAFETY: The core destroys what was created, after everything that uses it.
        unsafe { WqTableObject::<D>::destroy(table) };
        0
    }

    extern "C" fn create_user_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a new address handle of the size it was told; everything lives for
        // this call.
        from_result(|| unsafe {
            let (_, mut udata) = user::<D>(udata)?;
            let data = Shell::<D>::data((*ah).device);
            let path = AddressVector::from_raw((*attr).ah_attr);
            D::create_ah(data, &path, &mut udata)?;
            AhObject::<D>::create(ah, Ok::<_, Error>(None))?;
            Ok(0)
        })
    }

    /// There is nothing on the device.
    extern "C" fn destroy_ah(ah: *mut bindings::ib_ah, _flags: u32) -> c_int {
        // SAFETY: The core destroys what was created, after everything that uses it.
        unsafe { AhObject::<D>::destroy(ah) };
        0
    }

    extern "C" fn attach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        // SAFETY: The core passes a QP of this driver and a GID.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*qp).device);
            D::attach_multicast(data, Ref::from_raw(qp), (*gid).raw)?;
            Ok(0)
        })
    }

    extern "C" fn detach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        // SAFETY: The core passes a QP of this driver and a GID.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*qp).device);
            D::detach_multicast(data, Ref::from_raw(qp), (*gid).raw)?;
            Ok(0)
        })
    }
}
