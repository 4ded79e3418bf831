// SPDX-License-Identifier: GPL-2.0
//! Verbs of users: what a driver does for processes that talk to the device themselves.

use kernel::prelude::*;

use super::{
    access::Access,
    ah::AddressVector,
    cq::{Cq, NewCq},
    details::Details,
    device::Driver,
    flow::NewFlow,
    ioctl::{Call, Definition},
    mr::{Mr, NewMr, Reregister},
    mw::NewWindow,
    object::Context,
    qp::{NewQp, NewXrcTarget, Qp, QpChange, QpReport},
    srq::{NewSrq, Srq, SrqAttributes, SrqChange},
    udata::Udata,
    wq::{NewWq, NewWqTable, Wq, WqChange},
};

/// A driver whose queues are in the hands of user space: posting, polling and arming never come here.
///
/// The driver's part of each object is made by a create function and dropped when the object is
/// destroyed, which cannot fail. A create function that fails leaves nothing behind. The core does
/// not destroy an object while others refer to it: a QP goes before its CQs, SRQ and domain.
///
/// Calls are in process context and sleep. Calls for one object may come at the same time; create
/// and destroy are alone.
pub trait UserVerbs: Driver {
    /// The driver's part of a completion queue.
    type Cq: Send + Sync + 'static;
    /// The driver's part of a queue pair.
    type Qp: Send + Sync + 'static;
    /// The driver's part of a memory region.
    type Mr: Send + Sync + 'static;
    /// The driver's part of a shared receive queue.
    type Srq: Send + Sync + 'static;
    /// The driver's part of a memory window.
    type Window: Send + Sync + 'static;
    /// The driver's part of an XRC domain.
    type Xrcd: Send + Sync + 'static;
    /// The driver's part of a work queue.
    type Wq: Send + Sync + 'static;
    /// The driver's part of a table of work queues.
    type WqTable: Send + Sync + 'static;
    /// The driver's part of a flow rule.
    type Flow: Send + Sync + 'static;

    /// What the driver adds to the ioctl interface, ended by [`Definition::END`].
    const DEFINITIONS: &'static [Definition<Self>] = &[Definition::END];

    /// Tells a process about its context once more. What the driver says goes to the attribute that its
    /// [`Definition::query_context`] names.
    fn query_context(
        data: &Self::Data,
        context: Context<'_, Self::Context>,
        call: &mut Call<'_>,
    ) -> Result {
        let _ = (data, context, call);
        Err(EOPNOTSUPP)
    }

    /// Makes a CQ.
    fn create_cq(
        data: &Self::Data,
        new: &mut NewCq<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::Cq>;

    /// Gives a CQ room for at least `entries`; [`Cq::set_entries`] says how many it has then.
    fn resize_cq(
        data: &Self::Data,
        context: Context<'_, Self::Context>,
        cq: Cq<'_, Self::Cq>,
        entries: u32,
        udata: &mut Udata<'_>,
    ) -> Result;

    /// Raises the event of a CQ after `count` completions or `period` microseconds.
    fn moderate_cq(data: &Self::Data, cq: Cq<'_, Self::Cq>, count: u16, period: u16) -> Result;

    /// Makes a QP in RESET.
    fn create_qp(
        data: &Self::Data,
        new: &mut NewQp<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::Qp>;

    /// Makes the receiving end of an extended reliable connection in RESET.
    fn create_xrc_target(data: &Self::Data, new: &mut NewXrcTarget<'_, Self>) -> Result<Self::Qp>;

    /// Changes a QP.
    fn modify_qp(
        data: &Self::Data,
        qp: Qp<'_, Self::Qp>,
        change: &QpChange<'_>,
        udata: &mut Udata<'_>,
    ) -> Result;

    /// Asks the device for a QP.
    fn query_qp(data: &Self::Data, qp: Qp<'_, Self::Qp>) -> Result<QpReport>;

    /// Makes an SRQ.
    fn create_srq(
        data: &Self::Data,
        new: &mut NewSrq<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::Srq>;

    /// Changes an SRQ.
    fn modify_srq(data: &Self::Data, srq: Srq<'_, Self::Srq>, change: SrqChange) -> Result;

    /// Asks the device for an SRQ.
    fn query_srq(data: &Self::Data, srq: Srq<'_, Self::Srq>) -> Result<SrqAttributes>;

    /// Registers memory.
    fn register_mr(
        data: &Self::Data,
        new: &mut NewMr<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::Mr>;

    /// Why memory of another device, a dmabuf, is not registered; the driver may say more in the log.
    fn refuse_dmabuf(data: &Self::Data) -> Error {
        let _ = data;
        EOPNOTSUPP
    }

    /// The access that a region was registered with.
    fn access_of(mr: Mr<'_, Self::Mr>) -> Access;

    /// Makes the region that takes the place of `old`, which goes when this has succeeded, or
    /// changes `old` itself, which then keeps its keys: `None`.
    fn reregister_mr(
        data: &Self::Data,
        old: Mr<'_, Self::Mr>,
        new: &mut NewMr<'_, Self>,
        what: Reregister,
        udata: &mut Udata<'_>,
    ) -> Result<Option<Self::Mr>>;

    /// Makes a memory window that nothing is bound to. Binding is between the process and the device.
    fn create_window(
        data: &Self::Data,
        new: &mut NewWindow<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::Window>;

    /// Makes an XRC domain.
    fn create_xrcd(data: &Self::Data, context: Context<'_, Self::Context>) -> Result<Self::Xrcd>;

    /// Makes a work queue in RESET.
    fn create_wq(
        data: &Self::Data,
        new: &mut NewWq<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::Wq>;

    /// Changes a work queue.
    fn modify_wq(
        data: &Self::Data,
        wq: Wq<'_, Self::Wq>,
        change: WqChange,
        udata: &mut Udata<'_>,
    ) -> Result;

    /// Makes a table of work queues, which outlive it.
    fn create_wq_table(
        data: &Self::Data,
        new: &mut NewWqTable<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::WqTable>;

    /// Makes frames that match a rule come to a QP; the QP outlives the rule.
    fn create_flow(
        data: &Self::Data,
        qp: Qp<'_, Self::Qp>,
        new: &NewFlow<'_>,
        udata: &mut Udata<'_>,
    ) -> Result<Self::Flow>;

    /// Checks an address vector and answers the user space library, which keeps it.
    fn create_ah(data: &Self::Data, path: &AddressVector<'_>, udata: &mut Udata<'_>) -> Result;

    /// Datagrams to group `gid` come to this QP too.
    fn attach_multicast(data: &Self::Data, qp: Qp<'_, Self::Qp>, gid: [u8; 16]) -> Result;

    /// They do not any more.
    fn detach_multicast(data: &Self::Data, qp: Qp<'_, Self::Qp>, gid: [u8; 16]) -> Result;

    /// Tells details of a CQ. May ask the device.
    fn describe_cq(data: &Self::Data, cq: Cq<'_, Self::Cq>, to: &mut Details<'_>) -> Result {
        let _ = (data, cq, to);
        Ok(())
    }

    /// Tells details of a QP. May ask the device.
    fn describe_qp(data: &Self::Data, qp: Qp<'_, Self::Qp>, to: &mut Details<'_>) -> Result {
        let _ = (data, qp, to);
        Ok(())
    }

    /// Tells details of a memory region. May ask the device.
    fn describe_mr(data: &Self::Data, mr: Mr<'_, Self::Mr>, to: &mut Details<'_>) -> Result {
        let _ = (data, mr, to);
        Ok(())
    }
}
