// SPDX-License-Identifier: GPL-2.0
//! Changing a QP: the step, its optional parameters, its context.
//!
//! Source: `__mlx5_ib_modify_qp`, `opt_mask`, `ib_mask_to_mlx5_opt` and `mlx5_set_path` in ib/qp.c.

use kernel::prelude::*;
use kernel_ext::rdma::{
    source_port,
    AddressVector,
    GidKind,
    Qp,
    QpChange,
    QpKind,
    QpState,
    Udata, //
};
use mlx5_hw::{
    field,
    field::Mut,
    ifc,
    raw,
    span, //
};

use super::{
    abi,
    Hardware,
    Inner,
    Pair, //
};
use crate::{
    caps::Caps,
    ib::Data,
    qp::user::Transition, //
};

/// A packet in 2^8 asks for an acknowledgement. Source: `MLX5_IB_ACK_REQ_FREQ` in ib/qp.c.
pub(in crate::ib) const LOG_ACK_FREQUENCY: u64 = 8;
/// Code of the MTU of datagrams and log2 of the longest one: of users, and for management.
pub(in crate::ib) const fn datagram(kind: QpKind) -> Option<(u64, u64)> {
    match kind {
        QpKind::Ud => Some((5, 12)),
        QpKind::Gsi => Some((1, 8)),
        _ => None,
    }
}

/// `IB_MIG_MIGRATED`: there is no other path to migrate to.
const MIGRATED: u32 = 0;

/// What is changed.
#[derive(Clone, Copy)]
pub(super) enum Move {
    Reset,
    Error,
    Step(Transition),
}

impl Move {
    /// From one state to another, as far as the device can.
    fn between(from: QpState, to: QpState) -> Option<Self> {
        use QpState::{
            Error,
            Init,
            Reset,
            Rtr,
            Rts,
            Sqe, //
        };
        Some(match (from, to) {
            (_, Reset) => Self::Reset,
            (_, Error) => Self::Error,
            (Reset, Init) => Self::Step(Transition::RstToInit),
            (Init, Init) => Self::Step(Transition::InitToInit),
            (Init, Rtr) => Self::Step(Transition::InitToRtr),
            (Rtr, Rts) => Self::Step(Transition::RtrToRts),
            (Rts, Rts) => Self::Step(Transition::RtsToRts),
            (Sqe, Rts) => Self::Step(Transition::SqErrToRts),
            _ => return None,
        })
    }
}

/// Optional parameters that a step takes from a context; what is not named here is required or not
/// looked at.
fn optional_of_step(transition: Transition, kind: QpKind) -> u32 {
    use raw::{
        MLX5_QP_OPTPAR_PKEY_INDEX as PKEY,
        MLX5_QP_OPTPAR_PRI_PORT as PORT,
        MLX5_QP_OPTPAR_Q_KEY as QKEY,
        MLX5_QP_OPTPAR_RAE as RAE,
        MLX5_QP_OPTPAR_RNR_TIMEOUT as RNR,
        MLX5_QP_OPTPAR_RRE as RRE,
        MLX5_QP_OPTPAR_RWE as RWE, //
    };
    let (access, rnr) = match kind {
        QpKind::Rc | QpKind::XrcInitiator | QpKind::XrcTarget => (RRE | RAE | RWE, RNR),
        QpKind::Uc => (RWE, 0),
        QpKind::Ud | QpKind::Gsi | QpKind::RawPacket | QpKind::Other(_) => (QKEY, 0),
    };
    match transition {
        Transition::RstToInit => 0,
        Transition::InitToInit => access | PKEY | PORT,
        Transition::InitToRtr => access | PKEY,
        Transition::RtrToRts | Transition::RtsToRts | Transition::SqErrToRts => access | rnr,
    }
}

/// Optional parameters that the user gave.
fn optional_of_change(change: &QpChange<'_>) -> u32 {
    let mut mask = 0;
    let mut add = |given: bool, bits: u32| {
        if given {
            mask |= bits;
        }
    };
    let access = raw::MLX5_QP_OPTPAR_RWE | raw::MLX5_QP_OPTPAR_RRE | raw::MLX5_QP_OPTPAR_RAE;
    add(change.access().is_some(), access);
    add(change.max_dest_rd_atomic().is_some(), access);
    add(
        change.pkey_index().is_some(),
        raw::MLX5_QP_OPTPAR_PKEY_INDEX,
    );
    add(change.port().is_some(), raw::MLX5_QP_OPTPAR_PRI_PORT);
    add(change.qkey().is_some(), raw::MLX5_QP_OPTPAR_Q_KEY);
    add(
        change.min_rnr_timer().is_some(),
        raw::MLX5_QP_OPTPAR_RNR_TIMEOUT,
    );
    mask
}

/// log2 of a number of reads and atomics, rounded up. 0 counts as 1.
fn log_depth(depth: u8) -> u64 {
    u64::from(u32::from(depth).max(1).next_power_of_two().trailing_zeros())
}

/// Checks single attributes against the device.
fn check(data: &Data, caps: &Caps, number: u32, change: &QpChange<'_>) -> Result {
    if change.has_unknown() {
        data.complain(fmt!(
            "QP {number:#x}: attributes {:#x} are not supported",
            change.mask()
        ));
        return Err(EOPNOTSUPP);
    }
    let other_path =
        change.has_alternate_path() || change.migration().is_some_and(|state| state != MIGRATED);
    if other_path {
        data.complain(fmt!("QP {number:#x}: path migration is not supported"));
        return Err(EOPNOTSUPP);
    }
    let most = [
        ("port", change.port(), 1),
        ("P_Key index", change.pkey_index().map(u32::from), 0),
        (
            "reads as initiator",
            change.max_rd_atomic().map(u32::from),
            1 << caps.log_max_initiator_depth,
        ),
        (
            "reads as responder",
            change.max_dest_rd_atomic().map(u32::from),
            1 << caps.log_max_responder_depth,
        ),
        ("timeout", change.timeout().map(u32::from), 31),
        ("retry count", change.retry_count().map(u32::from), 7),
        ("RNR retry count", change.rnr_retry().map(u32::from), 7),
        ("RNR timer", change.min_rnr_timer().map(u32::from), 31),
    ];
    for (what, value, most) in most {
        if let Some(value) = value.filter(|value| *value > most) {
            data.complain(fmt!("QP {number:#x}: {what} {value}, the limit is {most}"));
            return Err(EINVAL);
        }
    }
    if change.port() == Some(0) {
        data.complain(fmt!("QP {number:#x}: ports count from 1"));
        return Err(EINVAL);
    }
    if let Some(path) = change.path() {
        let index = path.source_index();
        if !path.is_global() || u16::from(index) >= caps.roce_addresses {
            data.complain(fmt!(
                "QP {number:#x}: GID index {index}, the table has {} entries",
                caps.roce_addresses
            ));
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// The way to the other end.
fn fill_path(
    ads: &mut Mut<'_, ifc::ads>,
    path: &AddressVector<'_>,
    kind: QpKind,
    numbers: (u32, Option<u32>),
) {
    let (local, remote) = numbers;
    let [m0, m1, m2, m3, m4, m5] = path.mac();
    let v2 = path.kind() == GidKind::RoceV2;
    ads.set(field!(ads, rmac_47_32), u16::from_be_bytes([m0, m1]).into())
        .set(
            field!(ads, rmac_31_0),
            u32::from_be_bytes([m2, m3, m4, m5]).into(),
        )
        .set(field!(ads, eth_prio), (path.service_level() & 7).into())
        .set(field!(ads, src_addr_index), path.source_index().into())
        .set(field!(ads, hop_limit), path.hop_limit().into())
        .set(field!(ads, tclass), path.traffic_class().into())
        .set(
            field!(ads, flow_label),
            (path.flow_label() & 0xf_ffff).into(),
        );
    ads.raw(span!(ads, rgid_rip))
        .copy_from_slice(&path.destination());
    if v2 {
        ads.set(field!(ads, dscp), (path.traffic_class() >> 2).into());
        if let (true, Some(remote)) = (kind != QpKind::Ud, remote) {
            ads.set(
                field!(ads, udp_sport),
                source_port(path.flow_label(), local, remote).into(),
            );
        }
    }
}

/// What the other end may do: reads and atomics only when it may have some under way.
fn fill_access(qpc: &mut Mut<'_, ifc::qpc>, inner: &Inner) {
    let reads = inner.responder_depth != 0;
    let atomics = reads && inner.access.remote_atomic();
    qpc.set_flag(field!(qpc, rwe), inner.access.remote_write())
        .set_flag(field!(qpc, rre), reads && inner.access.remote_read())
        .set_flag(field!(qpc, rae), atomics);
    if atomics {
        qpc.set(
            field!(qpc, atomic_mode),
            raw::MLX5_QPC_ATOMIC_MODE_IB_SPEC.into(),
        );
    }
}

/// Everything that the user gave.
fn fill(
    qpc: &mut Mut<'_, ifc::qpc>,
    pair: &Pair,
    caps: &Caps,
    number: u32,
    change: &QpChange<'_>,
    inner: &Inner,
    counter_set: Option<u8>,
) -> Result {
    qpc.set(field!(qpc, log_ack_req_freq), LOG_ACK_FREQUENCY);
    if let Some((mtu, log)) = datagram(pair.kind) {
        qpc.set(field!(qpc, mtu), mtu)
            .set(field!(qpc, log_msg_max), log);
    } else if let Some(mtu) = change.path_mtu()? {
        qpc.set(field!(qpc, mtu), (mtu as u32).into())
            .set(field!(qpc, log_msg_max), caps.log_max_message.into());
    }
    if let Some(remote) = change.destination_qpn() {
        qpc.set(field!(qpc, remote_qpn), (remote & 0xff_ffff).into());
    }
    if let Some(path) = change.path() {
        qpc.with(span!(qpc, primary_address_path), |ads| {
            fill_path(ads, &path, pair.kind, (number, change.destination_qpn()));
        });
    }
    if let Some(set) = counter_set {
        qpc.set(field!(qpc, counter_set_id), set.into());
    }
    // A RoCE device has one port and one partition.
    qpc.set(field!(qpc, primary_address_path.vhca_port_num), 1);
    if let Some(timeout) = change.timeout() {
        qpc.set(
            field!(qpc, primary_address_path.ack_timeout),
            timeout.into(),
        );
    }
    if let Some(retries) = change.retry_count() {
        qpc.set(field!(qpc, retry_count), retries.into());
    }
    if let Some(retries) = change.rnr_retry() {
        qpc.set(field!(qpc, rnr_retry), retries.into());
    }
    if let Some(timer) = change.min_rnr_timer() {
        qpc.set(field!(qpc, min_rnr_nak), timer.into());
    }
    if let Some(psn) = change.sq_psn() {
        qpc.set(field!(qpc, next_send_psn), (psn & 0xff_ffff).into());
    }
    if let Some(psn) = change.rq_psn() {
        qpc.set(field!(qpc, next_rcv_psn), (psn & 0xff_ffff).into());
    }
    if let Some(depth) = change.max_rd_atomic() {
        qpc.set(field!(qpc, log_sra_max), log_depth(depth));
    }
    if let Some(depth) = change.max_dest_rd_atomic() {
        qpc.set(field!(qpc, log_rra_max), log_depth(depth));
    }
    if change.access().is_some() || change.max_dest_rd_atomic().is_some() {
        fill_access(qpc, inner);
    }
    if let Some(qkey) = change.qkey() {
        qpc.set(field!(qpc, q_key), qkey.into());
    }
    Ok(())
}

/// Changes a QP of a user.
pub(in crate::ib) fn modify_user(
    data: &Data,
    qp: Qp<'_, Pair>,
    change: &QpChange<'_>,
    udata: &mut Udata<'_>,
) -> Result {
    qp.payload().home.alive()?;
    abi::parse_modify_qp(udata)?;
    modify(data, qp, change)
}

/// Changes a QP. When it fails the QP is as it was, as far as the device says.
pub(in crate::ib) fn modify(data: &Data, qp: Qp<'_, Pair>, change: &QpChange<'_>) -> Result {
    let pair = qp.payload();
    if let Some(queues) = pair.queues.as_ref().filter(|queues| queues.is_over()) {
        // The device has forgotten it: it is in ERROR, and what is posted is flushed.
        return match change.state()? {
            Some(QpState::Error) => Ok(()),
            Some(QpState::Reset) => queues.reset(),
            _ => Err(EIO),
        };
    }
    pair.home.alive()?;
    if matches!(pair.inner.lock().qp, Some(Hardware::Rss(_))) {
        return Err(ENOSYS);
    }
    let caps = data.device.caps()?;
    let number = qp.number();
    check(data, &caps, number, change)?;
    let mut inner = pair.inner.lock();
    let from = change.current_state()?.unwrap_or(inner.state);
    let to = change.state()?.unwrap_or(from);
    if !change.is_allowed(pair.kind, from, to) {
        data.complain(fmt!(
            "QP {number:#x}: no step from {from:?} to {to:?} with attributes {:#x}",
            change.mask()
        ));
        return Err(EINVAL);
    }
    if (from, to) == (QpState::Reset, QpState::Reset) {
        return Ok(());
    }
    let next = Inner {
        qp: None,
        state: to,
        access: change.access().unwrap_or(inner.access),
        responder_depth: change.max_dest_rd_atomic().unwrap_or(inner.responder_depth),
    };
    if next.access.remote_atomic() && !caps.atomic {
        data.complain(fmt!("QP {number:#x}: the device has no atomics"));
        return Err(EOPNOTSUPP);
    }
    let Some(step) = Move::between(from, to) else {
        data.complain(fmt!("QP {number:#x}: {from:?} to {to:?} is not supported"));
        return Err(EINVAL);
    };
    let hardware = match inner.qp.as_ref().ok_or(EIO)? {
        Hardware::Qp(qp) => qp,
        Hardware::Rss(_) => return Err(ENOSYS),
        Hardware::Raw(raw) => {
            raw.step(step)?;
            inner.state = to;
            return Ok(());
        }
    };
    match step {
        Move::Reset => {
            hardware.reset(pair.home.cmd())?;
            if let Some(queues) = &pair.queues {
                queues.reset()?;
            }
        }
        Move::Error => hardware.fail(pair.home.cmd())?,
        Move::Step(transition) => {
            let optional = optional_of_change(change) & optional_of_step(transition, pair.kind);
            // Source: `__mlx5_ib_modify_qp` in ib/qp.c.
            let set = (transition == Transition::RstToInit).then(|| data.device.counter_set());
            let mut filled = Ok(());
            hardware.transit(pair.home.cmd(), transition, optional, |qpc| {
                filled = fill(qpc, &pair, &caps, number, change, &next, set);
            })?;
            filled?;
        }
    }
    inner.state = next.state;
    inner.access = next.access;
    inner.responder_depth = next.responder_depth;
    Ok(())
}
