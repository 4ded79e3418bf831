// SPDX-License-Identifier: GPL-2.0
//! Verbs of users, each by the file of its object.

use kernel::prelude::*;
use kernel_ext::rdma::{
    Access,
    AddressVector,
    Call,
    Context,
    Cq,
    Definition,
    Details,
    Mr,
    NewCq,
    NewFlow,
    NewMr,
    NewQp,
    NewSrq,
    NewWindow,
    NewWq,
    NewWqTable,
    NewXrcTarget,
    Qp,
    QpChange,
    QpReport,
    Reregister,
    Srq,
    SrqAttributes,
    SrqChange,
    Udata,
    UserVerbs,
    Wq,
    WqChange, //
};

use super::{
    ah,
    context::UserContext,
    cq::{
        self,
        Completions, //
    },
    flow,
    ioctl,
    mr::{
        self,
        Region, //
    },
    qp::{
        self,
        Pair, //
    },
    resource,
    rule::UserRule,
    srq::{
        self,
        Shared, //
    },
    window::{
        self,
        Window, //
    },
    wq::{
        self,
        Receiver, //
    },
    xrcd::{
        self,
        ExtendedDomain, //
    },
    Data,
    Verbs, //
};

impl UserVerbs for Verbs {
    type Cq = Completions;
    type Qp = Pair;
    type Mr = Region;
    type Srq = Shared;
    type Window = Window;
    type Xrcd = ExtendedDomain;
    type Wq = Receiver;
    type WqTable = wq::Table;
    type Flow = UserRule;

    const DEFINITIONS: &'static [Definition<Self>] = ioctl::DEFINITIONS;

    fn query_context(
        data: &Data,
        context: Context<'_, UserContext>,
        call: &mut Call<'_>,
    ) -> Result {
        ioctl::query_context(data, context, call)
    }

    fn create_cq(
        data: &Data,
        new: &mut NewCq<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Completions> {
        cq::create(data, new, udata)
    }

    fn resize_cq(
        data: &Data,
        context: Context<'_, UserContext>,
        cq: Cq<'_, Completions>,
        entries: u32,
        udata: &mut Udata<'_>,
    ) -> Result {
        cq::resize(data, context, cq, entries, udata)
    }

    fn moderate_cq(data: &Data, cq: Cq<'_, Completions>, count: u16, period: u16) -> Result {
        cq::moderate(data, cq, count, period)
    }

    fn create_qp(data: &Data, new: &mut NewQp<'_, Self>, udata: &mut Udata<'_>) -> Result<Pair> {
        qp::create(data, new, udata)
    }

    fn create_xrc_target(data: &Data, new: &mut NewXrcTarget<'_, Self>) -> Result<Pair> {
        qp::target::create(data, new)
    }

    fn modify_qp(
        data: &Data,
        qp: Qp<'_, Pair>,
        change: &QpChange<'_>,
        udata: &mut Udata<'_>,
    ) -> Result {
        qp::modify::modify_user(data, qp, change, udata)
    }

    fn query_qp(_data: &Data, qp: Qp<'_, Pair>) -> Result<QpReport> {
        qp::query::query(qp)
    }

    fn create_srq(
        data: &Data,
        new: &mut NewSrq<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Shared> {
        srq::create(data, new, udata)
    }

    fn modify_srq(data: &Data, srq: Srq<'_, Shared>, change: SrqChange) -> Result {
        srq::modify(data, srq, change)
    }

    fn query_srq(_: &Data, srq: Srq<'_, Shared>) -> Result<SrqAttributes> {
        srq::query(srq)
    }

    fn register_mr(
        data: &Data,
        new: &mut NewMr<'_, Self>,
        _udata: &mut Udata<'_>,
    ) -> Result<Region> {
        mr::register(data, new)
    }

    fn refuse_dmabuf(data: &Data) -> Error {
        data.complain(fmt!(
            "MR: memory of another device (a dmabuf) is not supported"
        ));
        EOPNOTSUPP
    }

    fn access_of(mr: Mr<'_, Region>) -> Access {
        mr.payload().access()
    }

    fn reregister_mr(
        data: &Data,
        old: Mr<'_, Region>,
        new: &mut NewMr<'_, Self>,
        what: Reregister,
        _udata: &mut Udata<'_>,
    ) -> Result<Option<Region>> {
        mr::reregister(data, old, new, what)
    }

    fn create_window(
        data: &Data,
        new: &mut NewWindow<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Window> {
        window::create(data, new, udata)
    }

    fn create_xrcd(data: &Data, context: Context<'_, UserContext>) -> Result<ExtendedDomain> {
        xrcd::create(data, context)
    }

    fn create_wq(
        data: &Data,
        new: &mut NewWq<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<Receiver> {
        wq::create(data, new, udata)
    }

    fn modify_wq(
        data: &Data,
        wq: Wq<'_, Receiver>,
        change: WqChange,
        udata: &mut Udata<'_>,
    ) -> Result {
        wq::modify(data, wq, change, udata)
    }

    fn create_wq_table(
        data: &Data,
        new: &mut NewWqTable<'_, Self>,
        udata: &mut Udata<'_>,
    ) -> Result<wq::Table> {
        wq::create_table(data, new, udata)
    }

    fn create_flow(
        data: &Data,
        qp: Qp<'_, Pair>,
        new: &NewFlow<'_>,
        udata: &mut Udata<'_>,
    ) -> Result<UserRule> {
        flow::create(data, qp, new, udata)
    }

    fn create_ah(data: &Data, path: &AddressVector<'_>, udata: &mut Udata<'_>) -> Result {
        ah::create(data, path, udata)
    }

    fn attach_multicast(_data: &Data, qp: Qp<'_, Pair>, gid: [u8; 16]) -> Result {
        qp::attach(qp, &gid)
    }

    fn detach_multicast(_data: &Data, qp: Qp<'_, Pair>, gid: [u8; 16]) -> Result {
        qp::detach(qp, &gid)
    }

    fn describe_cq(_data: &Data, cq: Cq<'_, Completions>, to: &mut Details<'_>) -> Result {
        resource::cq(cq, to)
    }

    fn describe_qp(_data: &Data, qp: Qp<'_, Pair>, to: &mut Details<'_>) -> Result {
        resource::qp(qp, to)
    }

    fn describe_mr(_data: &Data, mr: Mr<'_, Region>, to: &mut Details<'_>) -> Result {
        resource::mr(mr, to)
    }
}
