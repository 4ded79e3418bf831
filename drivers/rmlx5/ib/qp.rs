// SPDX-License-Identifier: GPL-2.0
//! QPs of users: making them. Changing them is in [`modify`], asking for them in [`query`].

mod ends;
pub(super) mod modify;
pub(super) mod query;
mod raw;
mod rss;
pub(super) mod target;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use kernel_ext::rdma::{
    Access,
    NewQp,
    Qp,
    QpCaps,
    QpKind,
    QpState,
    Udata, //
};

use self::{
    ends::Ends,
    modify::Move,
    raw::RawQp,
    rss::RssQp, //
};
use super::{
    abi,
    context,
    context::UserContext,
    doorbell::Doorbell,
    events::{
        Events,
        QueueKind, //
    },
    kverbs::{
        Lives,
        Queues, //
    },
    Data,
    Verbs, //
};
use crate::{
    cmd::Cmd,
    home::Home,
    qp::{
        query::Snapshot,
        user::{
            Config,
            QueueMemory,
            Transport,
            UserQp, //
        }, //
    },
    xrc::Anchor, //
};

/// log2 of the bytes of a send WQEBB.
const LOG_BLOCK: u32 = 6;
/// log2 of the bytes of a scatter entry, the smallest receive WQE.
const LOG_ENTRY: u32 = 4;
/// The user index that means none. Source: `MLX5_IB_DEFAULT_UIDX` in ib/mlx5_ib.h.
pub(super) const NO_USER_INDEX: u32 = 0xff_ffff;

/// `IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK` of include/rdma/ib_verbs.h.
const NO_MULTICAST_LOOPBACK: u32 = 1 << 1;

/// The driver's part of a user's QP.
pub(crate) struct Pair {
    home: Home,
    events: Arc<Events>,
    kind: QpKind,
    /// What is reported of its queues.
    caps: QpCaps,
    send_blocks: u32,
    signals_all: bool,
    inner: Pin<KBox<Mutex<Inner>>>,
    /// What a user's is rung by: given back after it.
    doorbell: Option<Doorbell>,
    /// What an XRC QP names in its context.
    _anchor: Option<Arc<Anchor>>,
    /// What the kernel posts to.
    queues: Option<Arc<Queues>>,
    lives: Arc<Lives>,
}

/// What changes. The lock is held while a command for the QP is under way.
struct Inner {
    /// `None` at the end only.
    qp: Option<Hardware>,
    /// As the driver knows it; the device may have gone to ERROR by itself.
    state: QpState,
    /// What the other end may do, and how many reads at a time it may have under way.
    access: Access,
    responder_depth: u8,
}

impl Inner {
    /// In RESET, with nothing on the device yet.
    fn new() -> Result<Pin<KBox<Mutex<Self>>>> {
        KBox::pin_init(
            new_mutex!(Self {
                qp: None,
                state: QpState::Reset,
                access: Access::NONE,
                responder_depth: 0,
            }),
            GFP_KERNEL,
        )
    }
}

/// What is on the device.
enum Hardware {
    Qp(UserQp),
    /// Queues for Ethernet frames.
    Raw(RawQp),
    /// A hash over queues.
    Rss(RssQp),
}

impl Hardware {
    /// The QP of the device. `EINVAL` for queues without one.
    fn qp(&self) -> Result<&UserQp> {
        match self {
            Self::Qp(qp) => Ok(qp),
            Self::Raw(_) | Self::Rss(_) => Err(EINVAL),
        }
    }
}

impl Pair {
    /// Of the kernel, without a QP on the device yet.
    pub(super) fn of_kernel(
        data: &Data,
        home: Home,
        kind: QpKind,
        caps: QpCaps,
        send_blocks: u32,
        signals_all: bool,
    ) -> Result<Self> {
        Ok(Self {
            home,
            events: data.events.clone(),
            kind,
            caps,
            send_blocks,
            signals_all,
            inner: Inner::new()?,
            doorbell: None,
            _anchor: None,
            queues: None,
            lives: data.lives.clone(),
        })
    }

    /// The QP of the kernel is there.
    pub(super) fn install(&mut self, qp: UserQp) {
        self.inner.lock().qp = Some(Hardware::Qp(qp));
    }

    /// What the kernel posts to is there.
    pub(super) fn set_queues(&mut self, queues: Arc<Queues>) {
        self.queues = Some(queues);
    }

    /// What the kernel posts to; `None` for a user's QP.
    pub(super) fn queues(&self) -> Option<&Arc<Queues>> {
        self.queues.as_ref()
    }

    /// The generation that it belongs to.
    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// Where rules lead frames to. `EINVAL` for a QP that takes none.
    pub(super) fn tir(&self) -> Result<u32> {
        match self.inner.lock().qp.as_ref().ok_or(EIO)? {
            Hardware::Raw(raw) => raw.tir(),
            Hardware::Rss(rss) => Ok(rss.tir()),
            Hardware::Qp(_) => Err(EINVAL),
        }
    }

    /// WQEBBs of the send queue and receives of the receive queue.
    pub(super) fn sizes(&self) -> (u32, u32) {
        (self.send_blocks, self.caps.recv_wr)
    }

    /// The doorbell register that the driver chose for it.
    fn register(&self) -> Option<u32> {
        self.doorbell.as_ref()?.register()
    }

    /// Asks the device; `None` when it does not answer or the QP is of an earlier generation. Sleeps.
    pub(super) fn look(&self) -> Option<Snapshot> {
        let inner = self.inner.lock();
        let qp = inner.qp.as_ref().filter(|_| self.home.is_current())?;
        qp.qp().ok()?.query(self.home.cmd()).ok()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let hardware = self.inner.lock().qp.take();
        // What is of an earlier generation is gone already, and its numbers may be others'.
        let is_current = self.home.is_current();
        match hardware {
            Some(Hardware::Qp(qp)) if is_current => {
                self.events.forget_qp(QueueKind::Qp, qp.number());
                qp.destroy(self.home.cmd());
            }
            Some(Hardware::Raw(raw)) if is_current => {
                for (kind, number) in raw.queues() {
                    self.events.forget_qp(kind, number);
                }
            }
            // Queues give their memory back by themselves.
            _ => (),
        }
        if let Some(queues) = self.queues.take() {
            self.lives.drop_gsi(&queues);
            let (send, receive) = queues.cqs();
            send.remove(queues.key());
            receive.remove(queues.key());
        }
    }
}

/// Checks what the user wants against the limits of the device. More than the attributes say may do, of short
/// requests; whoever lays out the queue knows.
pub(super) fn check_caps(data: &Data, caps: &QpCaps) -> Result {
    let limits = data.limits()?;
    for (what, wanted, most) in [
        ("sends", caps.send_wr, limits.most_wr),
        ("receives", caps.recv_wr, limits.most_wr),
        ("entries of a send", caps.send_sge, limits.most_send_sge),
        ("entries of a receive", caps.recv_sge, limits.max_recv_sge),
    ] {
        if wanted > most {
            data.complain(fmt!("QP: {wanted} {what}, the limit is {most}"));
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// Checks what the user wants that is no size. Keeping own datagrams to groups from coming back means nothing
/// to raw packets, and is allowed there too.
fn check_flags(data: &Data, flags: u32) -> Result {
    if flags & !NO_MULTICAST_LOOPBACK != 0
        || flags != 0 && !data.device.caps()?.block_multicast_loopback
    {
        data.complain(fmt!("QP: create flags {flags:#x} are not supported"));
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

/// log2 of the size of a queue that a library made. `EINVAL` for what is no power of two or beyond
/// the limit.
fn log_size(data: &Data, what: &str, count: u32) -> Result<Option<u8>> {
    if count == 0 {
        return Ok(None);
    }
    let log_most = data.device.caps()?.log_max_qp_size;
    if !count.is_power_of_two() || count > 1 << log_most {
        data.complain(fmt!(
            "QP: {count} {what} are no power of two up to {}",
            1u32 << log_most
        ));
        return Err(EINVAL);
    }
    // CAST: at most 31.
    Ok(Some(count.trailing_zeros() as u8))
}

/// The receive queue that a library made: log2 of its WQEs and of the bytes of each.
fn receive_queue(data: &Data, request: &abi::CreateQp) -> Result<Option<(u8, u8)>> {
    let Some(log) = log_size(data, "receives", request.receives)? else {
        return Ok(None);
    };
    let most = u32::from(data.device.caps()?.max_receive_wqe);
    let shift = request.receive_shift;
    if !(LOG_ENTRY..16).contains(&shift) || 1 << shift > most {
        data.complain(fmt!(
            "QP: receives of 1 << {shift} bytes, the limit is {most}"
        ));
        return Err(EINVAL);
    }
    // CAST: below 16.
    Ok(Some((log, shift as u8)))
}

/// What CQEs name the QP by. Source: `verify_assign_uidx` in ib/mlx5_ib.h.
pub(super) fn user_index(data: &Data, context: &UserContext, wanted: u32) -> Result<Option<u32>> {
    if data.device.caps()?.cqe_version == 0 {
        return Ok(None);
    }
    match (context.cqe_version(), wanted) {
        (0, _) => Ok(Some(NO_USER_INDEX)),
        (_, 0..NO_USER_INDEX) => Ok(Some(wanted)),
        _ => Err(EINVAL),
    }
}

/// Makes a QP.
pub(super) fn create(
    data: &Data,
    new: &mut NewQp<'_, Verbs>,
    udata: &mut Udata<'_>,
) -> Result<Pair> {
    let context = new.context()?;
    let user = context.payload();
    let home = user.home()?.clone();
    if let Some(table) = new.wq_table() {
        return rss::create(data, new, table, udata);
    }
    let transport = match new.kind() {
        QpKind::Rc => Transport::Rc,
        QpKind::Uc => Transport::Uc,
        QpKind::Ud => Transport::Ud,
        QpKind::XrcInitiator => Transport::Xrc,
        // Receiving ends are made without a user.
        QpKind::XrcTarget => return Err(EINVAL),
        QpKind::Gsi => return Err(EPERM),
        QpKind::RawPacket => return raw::create(data, new, udata),
        QpKind::Other(kind) => {
            data.complain(fmt!("QP: type {kind} is not supported"));
            return Err(EOPNOTSUPP);
        }
    };
    check_flags(data, new.create_flags())?;
    let wanted = new.caps();
    check_caps(data, &wanted)?;
    let request = abi::CreateQp::parse(udata)?;
    let ends = Ends::of(data, new)?;
    let own_queue = ends.srqn.is_none() && ends.xrc.is_none() && wanted.recv_wr != 0;
    let receive = receive_queue(data, &request)?;
    if receive.is_some() != own_queue {
        return Err(EINVAL);
    }
    let doorbell = user.doorbell(request.uar)?;
    let config = Config {
        transport,
        uar: doorbell.uar(),
        pd: ends.pd,
        cqns: ends.cqns,
        srqn: ends.srqn,
        xrc: ends.xrc,
        no_multicast_loopback: new.create_flags() & NO_MULTICAST_LOOPBACK != 0,
        receive,
        send: log_size(data, "send blocks", request.send_blocks)?,
        user_index: user_index(data, &user, request.user_index)?,
    };
    // CAST, below: the limits keep both far below 2^32.
    let receive_bytes = receive.map_or(0, |(log, shift)| 1usize << (log + shift));
    let bytes = receive_bytes + ((request.send_blocks as usize) << LOG_BLOCK);
    let buf = match bytes {
        0 => None,
        _ => Some(context::buffer(context, request.buffers.queue, bytes)?),
    };
    let record = context::record(context, request.buffers.record)?;
    let inner = Inner::new()?;
    let qp = UserQp::create(home.cmd(), config, QueueMemory::User(buf, record))?;
    let number = qp.number();
    inner.lock().qp = Some(Hardware::Qp(qp));
    // From here on an error destroys it.
    let pair = Pair {
        home,
        events: data.events.clone(),
        kind: new.kind(),
        caps: reported(&request, receive),
        send_blocks: request.send_blocks,
        signals_all: new.signals_all(),
        inner,
        doorbell: Some(doorbell),
        _anchor: ends.anchor,
        queues: None,
        lives: data.lives.clone(),
    };
    data.events
        .remember_qp(QueueKind::Qp, number, new.notifier())?;
    abi::answer_create_qp(pair.register(), udata)?;
    new.set_number(number);
    Ok(pair)
}

/// What is reported of the queues of a QP. Sends are counted by the library.
fn reported(request: &abi::CreateQp, receive: Option<(u8, u8)>) -> QpCaps {
    QpCaps {
        send_wr: 0,
        send_sge: 0,
        recv_wr: request.receives,
        recv_sge: receive.map_or(0, |(_, shift)| 1 << (u32::from(shift) - LOG_ENTRY)),
        inline_data: 0,
    }
}

fn multicast(
    qp: Qp<'_, Pair>,
    gid: &[u8; 16],
    how: fn(&UserQp, &Cmd, &[u8; 16]) -> Result,
) -> Result {
    let pair = qp.payload();
    pair.home.alive()?;
    let inner = pair.inner.lock();
    how(inner.qp.as_ref().ok_or(EIO)?.qp()?, pair.home.cmd(), gid)
}

/// Datagrams to `gid` come to this QP too.
pub(super) fn attach(qp: Qp<'_, Pair>, gid: &[u8; 16]) -> Result {
    multicast(qp, gid, |qp, cmd, gid| Ok(qp.attach(cmd, gid)?))
}

/// They do not any more.
pub(super) fn detach(qp: Qp<'_, Pair>, gid: &[u8; 16]) -> Result {
    multicast(qp, gid, |qp, cmd, gid| Ok(qp.detach(cmd, gid)?))
}
