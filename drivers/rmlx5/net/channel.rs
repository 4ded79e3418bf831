// SPDX-License-Identifier: GPL-2.0
//! A channel: the rings of one completion vector, polled together.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};
use kernel_ext::net::{
    lock::BhDisabled,
    napi::{
        Napi,
        Outcome,
        Poll,
        Poller, //
    },
    DeviceRef,
    NetDevice, //
};

use super::{
    base::Base,
    cq::{
        Owner,
        Subscription, //
    },
    rx::RxRing,
    sent::TxDone,
    slot::Slot,
    tx::TxRing, //
};
use crate::{
    cq::Moderation,
    home::Home,
    limit::Limit, //
};

/// Somebody who makes everything anew when a ring does not work any more.
pub(super) trait Nurse: Send + Sync {
    /// A ring is broken. Any context.
    fn broken(&self);

    /// Somebody looks at what the card counts. Any context.
    fn recount(&self);
}

/// How rings are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// log2 of the blocks of a transmit ring.
    pub(super) log_tx: u8,
    /// log2 of the WQEs of a receive ring.
    pub(super) log_rx: u8,
    /// Bytes of the longest frame.
    pub(super) frame: u32,
    /// Tags stay in the frame.
    pub(super) keep_vlan: bool,
    /// Send queues state their inline mode.
    pub(super) inline_mode: bool,
    /// WQEs hold the network header too, in which the card looks for the DSCP.
    pub(super) inline_network: bool,
    /// Events of transmit rings.
    pub(super) tx_moderation: Moderation,
    /// Events of receive rings.
    pub(super) rx_moderation: Moderation,
    /// The numbers follow the traffic.
    pub(super) tx_adaptive: bool,
    pub(super) rx_adaptive: bool,
}

/// The ends of the rings that polling has, and nobody else while the channel polls.
struct Ends {
    tx: TxDone,
    rx: RxRing,
}

/// What a channel polls.
#[pin_data]
struct Work {
    place: Arc<Slot>,
    /// Empty until the rings are made. The lock is never waited for: polls of an instance do not overlap.
    #[pin]
    ends: SpinLock<Option<Ends>>,
    nurse: Arc<dyn Nurse>,
    home: Home,
    limit: Limit,
}

impl Work {
    fn new(place: Arc<Slot>, nurse: Arc<dyn Nurse>, home: Home) -> impl PinInit<Self> {
        pin_init!(Self {
            place,
            ends <- new_spinlock!(None),
            nurse,
            home,
            limit: Limit::default(),
        })
    }

    /// A ring is broken: one line, and somebody who sees to it.
    fn broken(&self, what: &str, fault: &dyn core::fmt::Debug) {
        if self.limit.allows() {
            dev_err!(
                self.home.device().pdev,
                "queue {}: {} ring: {:?}; the interface is made anew\n",
                self.place.index,
                what,
                fault
            );
        }
        self.nurse.broken();
    }
}

/// [`Work`], which has a lock and so must not be moved.
struct Polled(Pin<KBox<Work>>);

impl Poller for Polled {
    fn poll(&self, poll: &Poll<'_>) -> Outcome {
        let work = &self.0;
        let mut guard = work.ends.lock();
        let (Some(ends), Some(queue)) = (&mut *guard, poll.device().queue(work.place.index)) else {
            return Outcome::Idle(0);
        };
        let sent = ends.tx.complete(poll, queue, &work.place.tx);
        if let Some(fault) = sent.fault {
            work.broken("transmit", &fault);
        }
        if poll.budget() == 0 {
            return Outcome::More;
        }
        let received = ends.rx.receive(poll, poll.budget(), &work.place.rx);
        if let Some(fault) = received.fault {
            work.broken("receive", &fault);
        }
        if sent.more || received.more {
            Outcome::More
        } else {
            Outcome::Idle(received.packets)
        }
    }

    fn arm(&self) {
        let mut guard = self.0.ends.lock();
        if let Some(ends) = &mut *guard {
            let (tx, rx) = (&self.0.place.tx, &self.0.place.rx);
            let cq = ends.tx.cq_mut();
            cq.measure(tx.packets.get(), tx.bytes.get());
            cq.arm();
            let cq = ends.rx.cq_mut();
            cq.measure(rx.packets.get(), rx.bytes.get());
            cq.arm();
        }
    }
}

/// What ended a ring of completions.
#[derive(Debug)]
struct GivenUpByDevice;

impl Owner for Polled {
    fn lost(&self) {
        self.0.broken("completion", &GivenUpByDevice);
    }
}

/// The sending end in its slot, until drop.
struct Seat {
    slot: Arc<Slot>,
    device: DeviceRef,
}

impl Seat {
    fn new(slot: &Arc<Slot>, device: &NetDevice, ring: TxRing) -> Result<Self> {
        let queue = device.queue(slot.index).ok_or(EINVAL)?;
        queue.reset();
        slot.put(queue, ring)?;
        Ok(Self {
            slot: slot.clone(),
            device: device.hold(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(queue) = self.device.queue(self.slot.index) {
            drop(self.slot.take(queue));
            // What was in the ring is not on its way any more. Another ring may not come for long, and the core's watchdog
            // looks at queues that are not in use too.
            queue.reset();
        }
    }
}

/// A channel of an open interface.
///
/// Events go first: nothing is scheduled any more. Then the send queue, then what is polled, the completion queue of the
/// send queue included.
pub(super) struct Channel {
    _events: [Subscription; 2],
    _seat: Seat,
    napi: Napi<Polled>,
    receive_queue: u32,
    /// Number of its queues, and of the interrupt that lets it poll.
    queue: u16,
    irq: u32,
}

impl Channel {
    /// Makes the rings of `slot`. It does not poll yet. Sleeps, under the RTNL.
    pub(super) fn new(
        home: &Home,
        base: &Base,
        netdev: &NetDevice,
        slot: &Arc<Slot>,
        shape: &Shape,
        nurse: &Arc<dyn Nurse>,
    ) -> Result<Self> {
        let vector = slot.index;
        let work = KBox::pin_init(
            Work::new(slot.clone(), nurse.clone(), home.clone()),
            GFP_KERNEL,
        )?;
        let napi = Napi::new(netdev, Polled(work))?;
        let rx = RxRing::new(home, base, netdev, vector, shape)?;
        let (tx, ring) = TxRing::new(home, base, vector, shape)?;
        let receive_queue = rx.number();
        let (sent, received) = (tx.cq().handle(), rx.cq().handle());
        {
            let _softirqs = BhDisabled::new();
            *napi.poller().0.ends.lock() = Some(Ends { tx, rx });
        }
        let seat = Seat::new(slot, netdev, ring)?;
        let events = [
            received.subscribe(vector, napi.waker())?,
            sent.subscribe(vector, napi.waker())?,
        ];
        Ok(Self {
            _events: events,
            _seat: seat,
            napi,
            receive_queue,
            queue: vector,
            irq: home.device().comp_irq(vector.into()).ok_or(EINVAL)?,
        })
    }

    /// Number of its RQ.
    pub(super) fn receive_queue(&self) -> u32 {
        self.receive_queue
    }

    /// Begins to poll. Sleeps, under the RTNL.
    pub(super) fn start(&mut self) {
        self.napi.serves(self.queue, self.irq);
        self.napi.enable();
        // The first poll finds nothing and arms the queues.
        let _softirqs = BhDisabled::new();
        self.napi.waker().schedule();
    }

    /// No poll runs any more when this returns. Sleeps.
    pub(super) fn stop(&mut self) {
        self.napi.disable();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.stop();
    }
}
