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
    NetDevice,
};

use super::{
    base::Base,
    cq::Subscription,
    home::Home,
    rx::RxRing,
    slot::Slot,
    tx::TxRing, //
};
use crate::{
    cq::Moderation,
    limit::Limit, //
};

/// Somebody who makes everything anew when a ring does not work any more.
pub(super) trait Nurse: Send + Sync {
    /// A ring is broken. Any context.
    fn broken(&self);
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
    /// Events of transmit rings.
    pub(super) tx_moderation: Moderation,
    /// Events of receive rings.
    pub(super) rx_moderation: Moderation,
}

/// What a channel polls.
#[pin_data]
struct Work {
    place: Arc<Slot>,
    #[pin]
    rx: SpinLock<RxRing>,
    nurse: Arc<dyn Nurse>,
    home: Home,
    limit: Limit,
}

impl Work {
    fn new(place: Arc<Slot>, rx: RxRing, nurse: Arc<dyn Nurse>, home: Home) -> impl PinInit<Self> {
        pin_init!(Self {
            place,
            rx <- new_spinlock!(rx),
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
        let mut more = false;
        if let Some(queue) = poll.device().queue(work.place.index) {
            let mut ring = work.place.ring.lock();
            let progress = (*ring)
                .as_mut()
                .map(|ring| ring.complete(poll, queue, &work.place.tx));
            drop(ring);
            if let Some(progress) = progress {
                more |= progress.more;
                if let Some(fault) = progress.fault {
                    work.broken("transmit", &fault);
                }
            }
        }
        if poll.budget() == 0 {
            return Outcome::More;
        }
        let progress = work.rx.lock().receive(poll, poll.budget(), &work.place.rx);
        if let Some(fault) = progress.fault {
            work.broken("receive", &fault);
        }
        if more || progress.more {
            Outcome::More
        } else {
            Outcome::Idle(progress.packets)
        }
    }

    fn arm(&self) {
        let work = &self.0;
        if let Some(ring) = work.place.ring.lock().as_ref() {
            ring.cq().arm();
        }
        work.rx.lock().cq().arm();
    }
}

/// The transmit ring in its slot, until drop.
struct Seat(Arc<Slot>);

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// A channel of an open interface.
pub(super) struct Channel {
    /// Events first: nothing is scheduled any more.
    _events: [Subscription; 2],
    napi: Napi<Polled>,
    /// Behind the polling.
    _seat: Seat,
    receive_queue: u32,
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
        let tx = TxRing::new(
            home,
            base,
            vector,
            shape.log_tx,
            shape.inline_mode,
            shape.tx_moderation,
        )?;
        let rx = RxRing::new(home, base, netdev, vector, shape)?;
        let receive_queue = rx.number();
        if let Some(queue) = netdev.queue(slot.index) {
            queue.reset();
        }
        slot.put(tx)?;
        let seat = Seat(slot.clone());
        let work = KBox::pin_init(
            Work::new(slot.clone(), rx, nurse.clone(), home.clone()),
            GFP_KERNEL,
        )?;
        let napi = Napi::new(netdev, Polled(work))?;
        let events = {
            let work = &napi.poller().0;
            let receive = {
                let _softirqs = BhDisabled::new();
                let number = work.rx.lock().cq().handle();
                number
            };
            let send = {
                let _softirqs = BhDisabled::new();
                let number = slot.ring.lock().as_ref().map(|ring| ring.cq().handle());
                number
            };
            [
                receive.subscribe(vector, napi.waker())?,
                send.ok_or(EINVAL)?.subscribe(vector, napi.waker())?,
            ]
        };
        Ok(Self {
            _events: events,
            napi,
            _seat: seat,
            receive_queue,
        })
    }

    /// Number of its RQ.
    pub(super) fn receive_queue(&self) -> u32 {
        self.receive_queue
    }

    /// Begins to poll. Sleeps.
    pub(super) fn start(&mut self) {
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
