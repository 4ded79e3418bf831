// SPDX-License-Identifier: GPL-2.0
//! What `rdma resource show` tells of an object with `-dd`, beyond what the core knows.
//!
//! What the card says is asked for at once. An object of an earlier generation has nothing to say.

use kernel::prelude::*;
use kernel_ext::rdma::{
    Cq,
    Details,
    Mr,
    Qp, //
};

use super::{
    cq::Completions,
    mr::Region,
    qp::Pair, //
};

/// A CQ: how far both sides are in it, and whether it has overrun.
pub(super) fn cq(cq: Cq<'_, Completions>, to: &mut Details<'_>) -> Result {
    let this = cq.payload();
    to.number(c"vector", this.vector())?;
    let Some(seen) = this.look() else {
        return Ok(());
    };
    to.number(c"produced", seen.producer)?;
    to.number(c"consumed", seen.consumer)?;
    to.number(c"unread", seen.unread())?;
    let status = match seen.status {
        0 => c"ok",
        // Source: `MLX5_CQ_STATUS...`, cqc.status of mlx5_ifc.h.
        0x9 => c"overrun",
        0xa => c"write failure",
        _ => c"unknown",
    };
    to.text(c"status", status)
}

/// A QP: the size of its queues, and how much of each is outstanding.
pub(super) fn qp(qp: Qp<'_, Pair>, to: &mut Details<'_>) -> Result {
    let this = qp.payload();
    let (send, receive) = this.sizes();
    to.number(c"send_blocks", send)?;
    to.number(c"receives", receive)?;
    let Some(seen) = this.look() else {
        return Ok(());
    };
    // More than there is room for: the card has not looked lately how far we are, so there is nothing to tell.
    for (name, count, room) in [
        (c"send_blocks_outstanding", seen.sends_outstanding(), send),
        (
            c"receives_outstanding",
            seen.receives_outstanding(),
            receive,
        ),
    ] {
        if count <= room {
            to.number(name, count)?;
        }
    }
    Ok(())
}

/// A memory region: its pages.
pub(super) fn mr(mr: Mr<'_, Region>, to: &mut Details<'_>) -> Result {
    let Some((count, size)) = mr.payload().pages() else {
        return Ok(());
    };
    // CAST: both are bounded by the longest command and the largest page.
    to.number(c"pages", count as u32)?;
    to.number(c"page_size", size as u32)
}
