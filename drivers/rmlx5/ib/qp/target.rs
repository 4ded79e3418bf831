// SPDX-License-Identifier: GPL-2.0
//! The receiving end of an extended reliable connection: no process's, without memory and without doorbell.
//! Source: `create_xrc_tgt_qp` in ib/qp.c.

use kernel::prelude::*;
use kernel_ext::rdma::{
    NewXrcTarget,
    QpCaps,
    QpKind, //
};

use super::{
    Hardware,
    Inner,
    Pair,
    NO_USER_INDEX, //
};
use crate::{
    home::Home,
    ib::{
        events::QueueKind,
        Data,
        Verbs, //
    },
    qp::user::{
        Config,
        QueueMemory,
        Transport,
        UserQp, //
    },
};

/// Makes it.
pub(in crate::ib) fn create(data: &Data, new: &mut NewXrcTarget<'_, Verbs>) -> Result<Pair> {
    let home = Home::now(&data.device);
    let xrcdn = new.xrcd().payload().number()?;
    let caps = data.device.caps()?;
    let anchor = data.anchors.get(&data.device)?;
    let (cqn, srqn) = (anchor.cqn()?, anchor.srqn()?);
    let config = Config {
        transport: Transport::Xrc,
        uar: 0,
        pd: anchor.pd()?,
        cqns: (cqn, cqn),
        srqn: Some(srqn),
        receive: None,
        send: None,
        xrc: Some((xrcdn, srqn)),
        no_multicast_loopback: false,
        user_index: (caps.cqe_version != 0).then_some(NO_USER_INDEX),
    };
    let inner = Inner::new()?;
    let qp = UserQp::create(home.cmd(), config, QueueMemory::Nothing)?;
    let number = qp.number();
    inner.lock().qp = Some(Hardware::Qp(qp));
    // From here on an error destroys it.
    let pair = Pair {
        home,
        events: data.events.clone(),
        kind: QpKind::XrcTarget,
        caps: QpCaps::default(),
        send_blocks: 0,
        signals_all: false,
        inner,
        doorbell: None,
        _anchor: Some(anchor),
        queues: None,
        lives: data.lives.clone(),
    };
    data.events
        .remember_qp(QueueKind::Qp, number, new.notifier())?;
    new.set_number(number);
    Ok(pair)
}
