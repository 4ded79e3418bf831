// SPDX-License-Identifier: GPL-2.0
//! Making CQs and QPs of the kernel. Source: `create_kernel_cq` in ib/cq.c, `create_kernel_qp`,
//! `calc_sq_size` and `set_rq_size` in ib/qp.c.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::rdma::{
    NewCq,
    NewQp,
    QpCaps,
    QpKind, //
};

use super::{
    cq::Core,
    gsi::Gsi,
    queues::{
        Config,
        Queues,
        Shape, //
    },
    send::Fence,
    wqe, //
};
use crate::{
    buf::Buf,
    cq::{
        Cq,
        CqRing,
        Moderation, //
    },
    doorbell::Doorbell,
    home::Home,
    ib::{
        cq::{
            log_entries,
            Completions, //
        },
        events::QueueKind,
        qp::{
            check_caps,
            Pair,
            NO_USER_INDEX, //
        },
        Data,
        Verbs, //
    },
    qp::user::{
        self,
        OwnMemory,
        QueueMemory,
        Transport,
        UserQp, //
    },
    record::Records,
    wq::{
        DS,
        SEND_WQE_BYTES, //
    }, //
};

/// Register of the device's own page; a plain doorbell is one access, so everybody may share it.
pub(super) const REGISTER: usize = 0;
/// Bytes of an inline header.
const INLINE_HEAD: usize = 4;

/// Makes a CQ.
pub(super) fn cq(data: &Data, new: &mut NewCq<'_, Verbs>) -> Result<Completions> {
    let device = &data.device;
    let home = Home::now(device);
    let log = log_entries(data, new.entries())?;
    let vector = new.vector() as usize;
    let eq = device.comp_eq(vector).ok_or(EINVAL)?;
    let eqn = eq.eq.number().ok_or(EIO)?;
    let dev = device.pdev.device();
    let ring = CqRing::new(dev, eq.node, log)?;
    let records = Records::new(dev)?;
    let core = Core::new(log, records, home.clone(), vector, new.notifier())?;
    let completions = Completions::of_kernel(data, home.clone(), vector, core.clone())?;
    let uar = device.uar()?;
    let moderation = Moderation::default();
    let cq = Cq::create(home.cmd(), &uar, eqn, core.records(), ring, moderation)?;
    let number = cq.number();
    // From here on an error destroys it.
    completions.install(cq);
    eq.subscribe(number, core.clone())?;
    data.lives.add(&home, core)?;
    new.set_entries((1u32 << log).saturating_sub(1));
    Ok(completions)
}

/// Bytes of the longest send WQE, in whole blocks. `None` beyond `most` bytes.
fn send_bytes(kind: QpKind, caps: &QpCaps, most: usize) -> Option<usize> {
    let fixed = match kind {
        // Control and remote address. The operands of an atomic are there with a single piece only.
        QpKind::Rc | QpKind::Uc => 2 * DS,
        _ => DS + wqe::VECTOR,
    };
    // CAST: checked against the limits before.
    let pieces = (caps.send_sge as usize).checked_mul(DS)?;
    let inline = match caps.inline_data as usize {
        0 => 0,
        bytes => (INLINE_HEAD.checked_add(bytes)?).checked_next_multiple_of(DS)?,
    };
    let mut bytes = fixed.checked_add(pieces.max(inline))?;
    if kind == QpKind::Rc {
        bytes = bytes.max(wqe::REGISTER);
    }
    let bytes = bytes.checked_next_multiple_of(SEND_WQE_BYTES)?;
    (bytes <= most).then_some(bytes)
}

/// log2 of the blocks of a send queue, and how many requests it holds at least.
fn send_shape(data: &Data, kind: QpKind, caps: &QpCaps) -> Result<Option<(u8, u32)>> {
    if caps.send_wr == 0 {
        return Ok(None);
    }
    let limits = data.device.caps()?;
    let most = limits.log_max_qp_size;
    let longest = wqe::MOST.min(limits.max_send_wqe.into());
    let bytes = send_bytes(kind, caps, longest).ok_or_else(|| {
        data.complain(fmt!(
            "QP: sends of {} pieces and {} bytes inline are longer than {} bytes",
            caps.send_sge,
            caps.inline_data,
            longest
        ));
        EINVAL
    })?;
    // CAST: at most 9.
    let each = (bytes / SEND_WQE_BYTES) as u32;
    let blocks = caps.send_wr.saturating_mul(each);
    let log = blocks
        .checked_next_power_of_two()
        .map_or(32, u32::trailing_zeros);
    if log > most.into() {
        data.complain(fmt!(
            "QP: {} sends take {blocks} blocks, the limit is {}",
            caps.send_wr,
            1u32 << most
        ));
        return Err(ENOMEM);
    }
    // CAST: at most 15.
    Ok(Some((log as u8, (1u32 << log) / each)))
}

/// log2 of the receives, and of the bytes of each.
fn receive_shape(caps: &QpCaps) -> Option<(u8, u8)> {
    if caps.recv_wr == 0 {
        return None;
    }
    // CAST, below: checked against the limits before.
    let stride = (caps.recv_sge.max(1) as usize).next_power_of_two() * DS;
    let count = caps.recv_wr.next_power_of_two();
    Some((count.trailing_zeros() as u8, stride.trailing_zeros() as u8))
}

/// Makes a QP.
pub(super) fn qp(data: &Data, new: &mut NewQp<'_, Verbs>) -> Result<Pair> {
    let device = &data.device;
    let kind = new.kind();
    let transport = match kind {
        QpKind::Rc => Transport::Rc,
        QpKind::Uc => Transport::Uc,
        QpKind::Ud => Transport::Ud,
        QpKind::Gsi => Transport::Gsi,
        QpKind::XrcInitiator | QpKind::XrcTarget | QpKind::RawPacket | QpKind::Other(_) => {
            return Err(EOPNOTSUPP)
        }
    };
    if new.create_flags() != 0 || new.srq().is_some() {
        return Err(EOPNOTSUPP);
    }
    let wanted = new.caps();
    check_caps(data, &wanted)?;
    let pd = new.pd().ok_or(EINVAL)?;
    let place = pd.payload().place()?;
    let home = place.home;
    let (send_cq, recv_cq) = new.send_cq().zip(new.recv_cq()).ok_or(EINVAL)?;
    let (send_cq, recv_cq) = (send_cq.payload(), recv_cq.payload());
    let (send_core, recv_core) = send_cq.core().zip(recv_cq.core()).ok_or(EINVAL)?;
    let send = send_shape(data, kind, &wanted)?;
    let shape = Shape {
        send: send.map(|(log, _)| log),
        receive: receive_shape(&wanted),
    };
    let caps = device.caps()?;
    let dev = device.pdev.device();
    let memory = OwnMemory {
        buf: Buf::new(dev, device.node, shape.bytes().max(SEND_WQE_BYTES))?,
        records: Records::new(dev)?,
    };
    let memory = Arc::new(memory, GFP_KERNEL)?;
    let uar = device.uar()?;
    let doorbell = Doorbell::new(&uar, REGISTER, caps.log_bf_register)?;
    let config = user::Config {
        transport,
        uar: uar.index(),
        pd: place.pd,
        cqns: (send_core.number_on(&home)?, recv_core.number_on(&home)?),
        srqn: None,
        xrc: None,
        no_multicast_loopback: false,
        receive: shape.receive,
        send: shape.send,
        user_index: (caps.cqe_version != 0).then_some(NO_USER_INDEX),
    };
    let granted = QpCaps {
        send_wr: send.map_or(0, |(_, count)| count),
        recv_wr: shape.receive.map_or(0, |(log, _)| 1 << log),
        recv_sge: shape
            .receive
            .map_or(0, |(_, stride)| (1 << stride) / DS as u32),
        ..wanted
    };
    let generation = home.generation();
    let blocks = send.map_or(0, |(log, _)| 1 << log);
    let cmd = home.cmd().clone();
    let mut pair = Pair::of_kernel(data, home, kind, granted, blocks, new.signals_all())?;
    let qp = UserQp::create(&cmd, config, QueueMemory::Own(memory.clone()))?;
    let number = qp.number();
    // From here on an error destroys it.
    pair.install(qp);
    let config = Config {
        handle: new.handle(),
        signals_all: new.signals_all(),
        // CAST: checked against the limits before.
        most_pieces: wanted.send_sge as usize,
        local_key: pd.local_dma_lkey(),
        device_key: place.key.unwrap_or(pd.local_dma_lkey()),
        keeps_receives: kind == QpKind::Gsi,
        shape,
        cqs: (send_core.clone(), recv_core.clone()),
    };
    let fence = Fence::new(caps.umr_fence.into());
    let key = (generation, number);
    let queues = Queues::new(config, key, memory.clone(), doorbell, fence)?;
    pair.set_queues(queues.clone());
    if Arc::ptr_eq(send_core, recv_core) {
        send_core.add(key, &queues, (true, true))?;
    } else {
        send_core.add(key, &queues, (true, false))?;
        recv_core.add(key, &queues, (false, true))?;
    }
    data.events
        .remember_qp(QueueKind::Qp, number, new.notifier())?;
    new.set_caps(&granted);
    if kind == QpKind::Gsi && Arc::ptr_eq(send_core, recv_core) {
        let core = send_core.clone();
        let domain = pd.payload().successor().ok_or(EINVAL)?.clone();
        let gsi = Gsi::new(domain, queues, core, memory, shape, new.notifier());
        data.lives.set_gsi(gsi);
    }
    // Source: the core's name of the QP for management datagrams.
    new.set_number(if kind == QpKind::Gsi { 1 } else { number });
    Ok(pair)
}
