// SPDX-License-Identifier: GPL-2.0
//! What the context of a QP names: domain, CQs, SRQ. Source: the `switch` over types in `create_user_qp` in
//! ib/qp.c.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::rdma::{
    NewQp,
    QpKind, //
};

use crate::{
    ib::{
        Data,
        Verbs, //
    },
    xrc::Anchor, //
};

/// Numbers of other objects.
pub(super) struct Ends {
    pub(super) pd: u32,
    /// CQs of sends and of receives.
    pub(super) cqns: (u32, u32),
    /// Where receives come from, if it is not the QP's own queue.
    pub(super) srqn: Option<u32>,
    /// XRC domain, and an SRQ that stands for those of the domain.
    pub(super) xrc: Option<(u32, u32)>,
    /// Keeps some of the above.
    pub(super) anchor: Option<Arc<Anchor>>,
}

impl Ends {
    /// `EINVAL` when something is missing, `EIO` when something is of an earlier generation,
    /// `EOPNOTSUPP` without XRC.
    pub(super) fn of(data: &Data, new: &NewQp<'_, Verbs>) -> Result<Self> {
        let pd = new.pd().ok_or(EINVAL)?.payload().number()?;
        let send = new.send_cq().ok_or(EINVAL)?.payload().number();
        if new.kind() != QpKind::XrcInitiator {
            return Ok(Self {
                pd,
                cqns: (send, new.recv_cq().ok_or(EINVAL)?.payload().number()),
                srqn: new.srq().map(|srq| srq.payload().number()),
                xrc: None,
                anchor: None,
            });
        }
        if !data.device.caps()?.xrc {
            return Err(EOPNOTSUPP);
        }
        let anchor = data.anchors.get(&data.device)?;
        Ok(Self {
            pd,
            cqns: (send, anchor.cqn()?),
            srqn: None,
            xrc: Some((anchor.xrcdn()?, anchor.srqn()?)),
            anchor: Some(anchor),
        })
    }
}
