// SPDX-License-Identifier: GPL-2.0
//! The table of functions for the kernel's objects.

use core::marker::PhantomData;

use kernel::{error::from_result, prelude::*};
use rmlx5_bindings as bindings;

use super::{
    super::{
        access::Access,
        ah::AddressVector,
        cq::NewCq,
        device::Shell,
        kverbs::{Arm, Completions, KernelVerbs, Receives, Sends},
        mr::Allocated,
        notify::{Notifier, Watched},
        object::{Object, Ref},
        qp::{NewQp, QpChange},
    },
    user::{CqObject, QpObject},
};

/// Functions for driver `D`.
pub(super) struct KernelOps<D>(PhantomData<D>);

/// Address handles: those of users have no part of the driver.
pub(super) type AhObject<D> = Object<bindings::ib_ah, Option<<D as KernelVerbs>::Ah>>;

impl<D: KernelVerbs> KernelOps<D> {
    pub(super) fn fill(ops: &mut bindings::ib_device_ops) {
        ops.create_cq = Some(Self::create_cq);
        ops.poll_cq = Some(Self::poll_cq);
        ops.req_notify_cq = Some(Self::req_notify_cq);
        ops.post_send = Some(Self::post_send);
        ops.post_recv = Some(Self::post_recv);
        ops.get_dma_mr = Some(Self::get_dma_mr);
        ops.alloc_mr = Some(Self::alloc_mr);
        ops.map_mr_sg = Some(Self::map_mr_sg);
        ops.create_ah = Some(Self::create_ah);
    }

    /// # Safety
    ///
    /// As for `create_qp` of the table, by the kernel.
    pub(super) unsafe fn create_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
    ) -> Result {
        // SAFETY: By the safety requirements everything lives for this call. The notifier is closed when
        // the QP is destroyed, and not used when it is not created.
        unsafe {
            let notifier = Notifier::new(qp)?;
            let mut new = NewQp::new(qp, attr, None, notifier.clone());
            let data = Shell::<D>::data((*qp).device);
            let payload = D::create_kernel_qp(data, &mut new).inspect_err(|_| notifier.close())?;
            QpObject::<D>::create(qp, Ok::<_, Error>(Watched::new(notifier, payload)))
        }
    }

    /// # Safety
    ///
    /// As for `modify_qp` of the table, by the kernel.
    pub(super) unsafe fn modify_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        mask: c_int,
    ) -> Result {
        // SAFETY: By the safety requirements.
        unsafe {
            let data = Shell::<D>::data((*qp).device);
            D::modify_kernel_qp(data, Ref::from_raw(qp), &QpChange::new(attr, mask))
        }
    }

    extern "C" fn create_cq(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        // SAFETY: The core passes a new CQ of the size it was told, with its device set; everything
        // lives for this call. The notifier is closed when the CQ is destroyed, and not used when it
        // is not created.
        from_result(|| unsafe {
            let notifier = Notifier::new(cq)?;
            let mut new = NewCq::new(cq, attr, None, notifier.clone());
            let data = Shell::<D>::data((*cq).device);
            let payload = D::create_kernel_cq(data, &mut new).inspect_err(|_| notifier.close())?;
            CqObject::<D>::create(cq, Ok::<_, Error>(Watched::new(notifier, payload)))?;
            Ok(0)
        })
    }

    extern "C" fn poll_cq(
        cq: *mut bindings::ib_cq,
        room: c_int,
        first: *mut bindings::ib_wc,
    ) -> c_int {
        let Ok(room) = usize::try_from(room) else {
            return EINVAL.to_errno();
        };
        // SAFETY: The core passes a CQ of this driver and room for so many completions.
        let (polled, count) = unsafe {
            let mut to = Completions::new(first, room);
            (D::poll(Ref::from_raw(cq), &mut to), to.count())
        };
        match polled {
            // CAST: at most what `room` was.
            Ok(()) => count as c_int,
            Err(error) => error.to_errno(),
        }
    }

    extern "C" fn req_notify_cq(
        cq: *mut bindings::ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> c_int {
        let solicited = flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK
            == bindings::ib_cq_notify_flags_IB_CQ_SOLICITED;
        let arm = if solicited { Arm::Solicited } else { Arm::Next };
        let report = flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
        // SAFETY: The core passes a CQ of this driver.
        from_result(|| Ok((unsafe { D::arm(Ref::from_raw(cq), arm) }? && report).into()))
    }

    extern "C" fn post_send(
        qp: *mut bindings::ib_qp,
        first: *const bindings::ib_send_wr,
        bad: *mut *const bindings::ib_send_wr,
    ) -> c_int {
        // SAFETY: The core passes a QP of this driver, requests for it, and a place for the one that
        // could not be posted.
        from_result(|| unsafe {
            let mut list = Sends::new(first, qp);
            D::send(Ref::from_raw(qp), &mut list).inspect_err(|_| *bad = list.last())?;
            Ok(0)
        })
    }

    extern "C" fn post_recv(
        qp: *mut bindings::ib_qp,
        first: *const bindings::ib_recv_wr,
        bad: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        // SAFETY: As in `post_send`.
        from_result(|| unsafe {
            let mut list = Receives::new(first);
            D::receive(Ref::from_raw(qp), &mut list).inspect_err(|_| *bad = list.last())?;
            Ok(0)
        })
    }

    extern "C" fn get_dma_mr(pd: *mut bindings::ib_pd, access: c_int) -> *mut bindings::ib_mr {
        let make = || {
            // SAFETY: The core passes a domain of this driver.
            unsafe {
                let data = Shell::<D>::data((*pd).device);
                let (payload, key) =
                    D::register_all(data, Ref::from_raw(pd), Access::from_raw(access))?;
                Allocated::bare::<D>(pd, key, payload)
            }
        };
        make().unwrap_or_else(|error: Error| error.to_ptr())
    }

    extern "C" fn alloc_mr(
        pd: *mut bindings::ib_pd,
        kind: bindings::ib_mr_type,
        pages: u32,
    ) -> *mut bindings::ib_mr {
        let make = || {
            if kind != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: The core passes a domain of this driver.
            unsafe {
                let data = Shell::<D>::data((*pd).device);
                let (payload, key) = D::allocate_mr(data, Ref::from_raw(pd), pages)?;
                Allocated::bare::<D>(pd, key, payload)
            }
        };
        make().unwrap_or_else(|error: Error| error.to_ptr())
    }

    extern "C" fn map_mr_sg(
        mr: *mut bindings::ib_mr,
        list: *mut bindings::scatterlist,
        count: c_int,
        offset: *mut c_uint,
    ) -> c_int {
        // SAFETY: The core passes a region of this driver and a list that was mapped for the device.
        from_result(|| unsafe {
            D::clear_pages(Ref::from_raw(mr))?;
            let done = bindings::ib_sg_to_pages(mr, list, count, offset, Some(Self::set_page));
            Ok(done)
        })
    }

    extern "C" fn set_page(mr: *mut bindings::ib_mr, address: u64) -> c_int {
        // SAFETY: `ib_sg_to_pages` passes the region of `map_mr_sg`.
        from_result(|| unsafe { D::add_page(Ref::from_raw(mr), address).map(|()| 0) })
    }

    extern "C" fn create_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_init_attr,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a new address handle of the size it was told; everything lives for
        // this call.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*ah).device);
            let path = AddressVector::from_raw((*attr).ah_attr);
            let payload = D::create_kernel_ah(data, &path)?;
            AhObject::<D>::create(ah, Ok::<_, Error>(Some(payload)))?;
            Ok(0)
        })
    }
}
