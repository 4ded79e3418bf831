// SPDX-License-Identifier: GPL-2.0
//! Channels: the driver's own RC QPs. They prove that the card moves data, and they come back from
//! errors by themselves.
//!
//! A channel is a QP with a CQ of its own, memory, and one end of a connection: to the next channel
//! (loopback pairs) or to a channel of another machine. Its [`Core`] does all work under one mutex;
//! a [`Channel`] adds the task that runs it when the CQ has something.
//!
//! Lock order: 0. the turn of whoever changes channels, 1. [`set::Set`]'s mutex, 2. [`Core`]'s mutex of one channel, never of two at a time;
//! 3. the mutex of the control QP, 4. what commands lock, 5. the roster, 6. the mailbox of one
//! channel. Hard interrupts take the roster and touch atomics only.

pub(crate) mod backoff;
mod connect;
mod control;
pub(crate) mod endpoint;
mod exchange;
pub(crate) mod fault;
pub(crate) mod files;
pub(crate) mod flow;
pub(crate) mod handshake;
mod hardware;
pub(crate) mod knobs;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod letter;
mod memory;
pub(crate) mod op;
pub(crate) mod options;
pub(crate) mod patience;
pub(crate) mod pattern;
mod peer;
mod post;
mod recover;
mod report;
mod roster;
mod run;
mod service;
pub(crate) mod set;
pub(crate) mod tally;

use kernel::{
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        Arc,
        Mutex,
        SpinLockIrq, //
    },
    time::Delta, //
};
use kernel_ext::workqueue::{
    task,
    Job,
    Queue,
    Task, //
};

use self::{
    backoff::Backoff,
    connect::Connection,
    flow::Flow,
    handshake::Handshake,
    hardware::{
        Hardware,
        Rings, //
    },
    letter::Mailbox,
    memory::Area,
    op::Ticket,
    peer::Peer,
    recover::{
        Breakage,
        Steps, //
    },
    run::Run, //
};
use crate::{
    census::{
        Counted,
        Kind, //
    },
    cq::Moderation,
    device::Device,
    eq::sink::CqHandler, //
};

/// What an asynchronous event says about a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// "CQ Overrun".
    CqOverrun = 0,
    /// The CQ could not be written.
    CqAccess = 1,
    /// "QP Catastrophic Error".
    QpCatastrophic = 2,
    /// The QP got an invalid request.
    QpRequest = 3,
    /// The QP got a request that its memory keys forbid.
    QpAccess = 4,
}

impl Alarm {
    /// All of them, the worst first.
    const ALL: [Self; 5] = [
        Self::CqOverrun,
        Self::CqAccess,
        Self::QpCatastrophic,
        Self::QpRequest,
        Self::QpAccess,
    ];

    /// Whether it is about a CQ.
    const fn is_cq(self) -> bool {
        matches!(self, Self::CqOverrun | Self::CqAccess)
    }
}

/// Something posted to the send queue.
#[derive(Clone, Copy)]
struct Posted {
    ticket: Ticket,
    /// When, on the monotonic clock.
    ns: u64,
}

/// What the mutex of a channel protects.
struct Inner {
    area: Area,
    /// Memory of the queues while no hardware uses it.
    rings: Option<Rings>,
    hw: Option<Hardware>,
    flow: KBox<Flow>,
    /// What each slot of the send queue holds.
    posted: KVec<Option<Posted>>,
    connection: Option<Connection>,
    /// The other machine, also while there is no hardware.
    peer: Option<Peer>,
    handshake: Handshake,
    /// First PSN of this end of the current connection.
    psn: u32,
    /// First PSN of this end of the next connection to a peer, as `endpoint` shows it.
    next_psn: u32,
    broken: Option<Breakage>,
    backoff: Backoff,
    steps: Steps,
    moderation: Moderation,
    /// log2 of the depth of the CQ.
    log_cqes: u8,
    run: Option<Arc<Run>>,
    /// Takes part in `run` and has not finished.
    entered: bool,
    /// Completions since the run began.
    completions: u64,
    /// Events before the run began.
    events_before: u32,
    /// Keeps from the device how far the CQ has been read, so that it overruns.
    mute: bool,
    /// CQEs that made no sense.
    malformed: u64,
    /// Counts for fresh numbers.
    nonce: u32,
}

/// The working part of a channel.
#[pin_data]
pub(crate) struct Core {
    /// Number of the channel.
    pub(crate) index: u32,
    /// Completion vector of its CQ.
    pub(crate) vector: usize,
    device: Arc<Device>,
    /// Events of the CQ so far.
    events: Atomic<u32>,
    /// Which alarms were raised since the channel looked last.
    alarms: [Atomic<u32>; Alarm::ALL.len()],
    /// Numbers of the objects of the current generation, 0 without; for asynchronous events.
    qpn: Atomic<u32>,
    cqn: Atomic<u32>,
    /// The port came up: whoever waits for the peer asks at once.
    nudged: Atomic<u32>,
    /// What the peer says.
    #[pin]
    mail: SpinLockIrq<Mailbox>,
    #[pin]
    inner: Mutex<Inner>,
    _counted: Counted,
}

impl Core {
    /// A channel without hardware. Sleeps.
    fn new(device: &Arc<Device>, index: u32, log_cqes: u8) -> Result<Arc<Self>> {
        let eqs = device.eqs().ok_or(ENODEV)?.completions();
        let vector = (index as usize).checked_rem(eqs.len()).ok_or(ENODEV)?;
        let node = eqs.get(vector).map_or(device.node, |eq| eq.node);
        let area = Area::new(&device.pdev, node)?;
        let rings = Rings::of_channel(&device.pdev, node, log_cqes)?;
        let flow = KBox::new(Flow::new(index), GFP_KERNEL)?;
        let mut posted = KVec::with_capacity(layout::WQES as usize, GFP_KERNEL)?;
        for _ in 0..layout::WQES {
            posted.push(None, GFP_KERNEL)?;
        }
        let core = Arc::pin_init(
            pin_init!(Self {
                index,
                vector,
                device: device.clone(),
                events: Atomic::new(0),
                alarms: [const { Atomic::new(0) }; Alarm::ALL.len()],
                qpn: Atomic::new(0),
                cqn: Atomic::new(0),
                nudged: Atomic::new(0),
                mail <- new_spinlock_irq!(Mailbox::default()),
                inner <- new_mutex!(Inner {
                    area,
                    rings: Some(rings),
                    hw: None,
                    flow,
                    posted,
                    connection: None,
                    peer: None,
                    handshake: Handshake::connected(),
                    psn: 0,
                    next_psn: 0,
                    broken: None,
                    backoff: Backoff::new(),
                    steps: Steps::default(),
                    moderation: Moderation::default(),
                    log_cqes,
                    run: None,
                    entered: false,
                    completions: 0,
                    events_before: 0,
                    mute: false,
                    malformed: 0,
                    nonce: 0,
                }),
                _counted: Counted::new(Kind::Channel),
            }),
            GFP_KERNEL,
        )?;
        {
            let mut inner = core.inner.lock();
            inner.next_psn = core.fresh_psn(&mut inner);
        }
        Ok(core)
    }

    /// A PSN that no packet of an earlier connection carries.
    fn fresh_psn(&self, inner: &mut Inner) -> u32 {
        inner.nonce = inner.nonce.wrapping_add(1);
        let time = kernel_ext::time::now_ns();
        // CAST: the cut is meant: PSNs have 24 bits.
        let seed = (time ^ time >> 24) as u32 ^ self.index << 8;
        seed.wrapping_add(inner.nonce.wrapping_mul(0x9e37_79b1)) & 0xff_ffff
    }

    /// What the registry of events says about this channel. Hard interrupt context.
    fn raise(&self, alarm: Alarm) {
        // CAST: the place in the array.
        if let Some(raised) = self.alarms.get(alarm as usize) {
            raised.store(1, Relaxed);
        }
    }

    /// The port carries traffic again. Any context.
    fn nudge(&self) {
        self.nudged.store(1, Relaxed);
    }

    /// Whether that was said since the last call.
    fn was_nudged(&self) -> bool {
        self.nudged.xchg(0, Full) != 0
    }

    /// Whether the QP of the channel has that number. Any context.
    fn is_qp(&self, number: u32) -> bool {
        number != 0 && self.qpn.load(Relaxed) == number
    }

    /// Whether the CQ of the channel has that number. Any context.
    fn is_cq(&self, number: u32) -> bool {
        number != 0 && self.cqn.load(Relaxed) == number
    }
}

/// Runs a channel.
struct Service(Arc<Core>);

impl Job for Service {
    fn run(&self) -> Option<Delta> {
        self.0.work()
    }
}

/// A channel and the task that runs it. Dropping it waits for the task.
pub(crate) struct Channel {
    task: Task<Service>,
    /// The working part.
    pub(crate) core: Arc<Core>,
}

impl Channel {
    /// A channel without hardware. Sleeps.
    fn new(
        device: &Arc<Device>,
        queue: &Arc<Queue>,
        index: u32,
        log_cqes: u8,
    ) -> Result<Arc<Self>> {
        let core = Core::new(device, index, log_cqes)?;
        let task = task!(queue, "rmlx5-channel", Service(core.clone()))?;
        Ok(Arc::new(Self { task, core }, GFP_KERNEL)?)
    }

    /// Cancels the task and waits for it. Sleeps.
    fn quiesce(&self) {
        self.task.cancel();
    }

    /// Lets the channel look what there is to do. Any context.
    pub(crate) fn wake(&self) {
        self.task.schedule();
    }
}

impl CqHandler for Channel {
    fn completion(&self) {
        self.core.events.fetch_add(1, Relaxed);
        self.task.schedule();
    }

    /// The roster hears of it, with the reason.
    fn error(&self) {}
}
