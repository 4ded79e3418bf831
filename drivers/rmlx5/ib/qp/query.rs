// SPDX-License-Identifier: GPL-2.0
//! Asking for a QP.

use kernel::prelude::*;
use kernel_ext::rdma::{
    Access,
    Mtu,
    PathReport,
    Qp,
    QpKind,
    QpReport,
    QpState, //
};
use mlx5_hw::raw;

use super::{
    Hardware,
    Pair, //
};
use crate::qp::query::{
    PathSnapshot,
    Snapshot, //
};

/// The state that the device tells; `EPROTO` for what is none. The flag says that sends are still
/// being drained. Source: `to_ib_qp_state` in ib/qp.c.
fn state(code: u32) -> Result<(QpState, bool)> {
    Ok(match code {
        raw::MLX5_QP_STATE_RST => (QpState::Reset, false),
        raw::MLX5_QP_STATE_INIT => (QpState::Init, false),
        raw::MLX5_QP_STATE_RTR => (QpState::Rtr, false),
        raw::MLX5_QP_STATE_RTS => (QpState::Rts, false),
        raw::MLX5_QP_STATE_SQ_DRAINING => (QpState::Sqd, true),
        raw::MLX5_QP_STATE_SQD => (QpState::Sqd, false),
        raw::MLX5_QP_STATE_SQER => (QpState::Sqe, false),
        raw::MLX5_QP_STATE_ERR => (QpState::Error, false),
        _ => return Err(EPROTO),
    })
}

fn path(path: &PathSnapshot) -> PathReport {
    PathReport {
        destination: path.gid,
        mac: path.mac,
        source_index: path.source_index,
        flow_label: path.flow_label,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        service_level: path.priority,
        static_rate: 0,
        port: path.port.into(),
    }
}

fn access(remote: (bool, bool, bool)) -> Access {
    let (write, read, atomic) = remote;
    [
        (write, Access::REMOTE_WRITE),
        (read, Access::REMOTE_READ),
        (atomic, Access::REMOTE_ATOMIC),
    ]
    .into_iter()
    .filter(|(given, _)| *given)
    .fold(Access::NONE, |all, (_, flag)| all.or(flag))
}

/// Asks the device.
pub(in crate::ib) fn query(qp: Qp<'_, Pair>) -> Result<QpReport> {
    let pair = qp.payload();
    pair.home.alive()?;
    let mut inner = pair.inner.lock();
    let snapshot: Snapshot = match inner.qp.as_ref().ok_or(EIO)? {
        Hardware::Qp(qp) => qp.query(pair.home.cmd())?,
        Hardware::Rss(_) => return Err(ENOSYS),
        Hardware::Raw(raw) => {
            let state = raw.state(inner.state)?;
            inner.state = state;
            return Ok(QpReport {
                state,
                caps: pair.caps,
                port: 1,
                signals_all: pair.signals_all,
                ..QpReport::of_nothing()
            });
        }
    };
    let (state, draining) = state(snapshot.state)?;
    // The device may have gone to ERROR by itself.
    inner.state = state;
    Ok(QpReport {
        state,
        draining,
        // A QP that has no path yet has no MTU.
        path_mtu: Mtu::from_code(snapshot.mtu).unwrap_or(Mtu::Bytes256),
        qkey: snapshot.qkey,
        rq_psn: snapshot.receive_psn,
        sq_psn: snapshot.send_psn,
        destination_qpn: snapshot.remote_qpn,
        access: access(snapshot.remote),
        caps: pair.caps,
        path: (!matches!(pair.kind, QpKind::Ud | QpKind::Gsi)).then(|| path(&snapshot.path)),
        pkey_index: snapshot.path.pkey_index,
        // Fields of three bits.
        max_rd_atomic: 1u8.wrapping_shl(snapshot.log_initiator_depth.into()),
        max_dest_rd_atomic: 1u8.wrapping_shl(snapshot.log_responder_depth.into()),
        min_rnr_timer: snapshot.rnr_timer,
        port: snapshot.path.port.into(),
        timeout: snapshot.path.ack_timeout,
        retry_count: snapshot.retries.0,
        rnr_retry: snapshot.retries.1,
        signals_all: pair.signals_all,
    })
}
