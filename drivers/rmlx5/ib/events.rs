// SPDX-License-Identifier: GPL-2.0
//! Asynchronous events of users' objects: who is told of which number.

use kernel::{
    new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use kernel_ext::rdma::{
    CqNotifier,
    QpEvent as Told,
    QpNotifier,
    SrqEvent as SrqTold,
    SrqNotifier, //
};

use crate::event::{
    Event,
    Listener,
    QpEvent,
    SrqEvent, //
};

type Table<T> = SpinLockIrq<RBTree<u32, Arc<T>>>;

/// The objects of users, by their numbers on the device.
#[pin_data]
pub(crate) struct Events {
    #[pin]
    cqs: Table<CqNotifier>,
    #[pin]
    qps: Table<QpNotifier>,
    #[pin]
    srqs: Table<SrqNotifier>,
}

fn remember<T>(table: &Table<T>, number: u32, notifier: Arc<T>) -> Result {
    let node = RBTreeNode::new(number, notifier, GFP_KERNEL)?;
    let before = table.lock().insert(node);
    // Whoever had the number before is gone with its generation.
    drop(before);
    Ok(())
}

fn forget<T>(table: &Table<T>, number: u32) {
    let node = table.lock().remove_node(&number);
    drop(node);
}

fn tell<T>(table: &Table<T>, number: u32, how: impl FnOnce(&T)) {
    if let Some(notifier) = table.lock().get(&number) {
        how(notifier);
    }
}

fn clear<T>(table: &Table<T>) {
    let empty = RBTree::new();
    let old = core::mem::replace(&mut *table.lock(), empty);
    drop(old);
}

impl Events {
    /// Nobody yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            cqs <- new_spinlock_irq!(RBTree::new()),
            qps <- new_spinlock_irq!(RBTree::new()),
            srqs <- new_spinlock_irq!(RBTree::new()),
        })
    }

    /// Tells `notifier` of events of a CQ.
    pub(super) fn remember_cq(&self, number: u32, notifier: Arc<CqNotifier>) -> Result {
        remember(&self.cqs, number, notifier)
    }

    /// Does not any more.
    pub(super) fn forget_cq(&self, number: u32) {
        forget(&self.cqs, number);
    }

    /// Tells `notifier` of events of a QP.
    pub(super) fn remember_qp(&self, number: u32, notifier: Arc<QpNotifier>) -> Result {
        remember(&self.qps, number, notifier)
    }

    /// Does not any more.
    pub(super) fn forget_qp(&self, number: u32) {
        forget(&self.qps, number);
    }

    /// Tells `notifier` of events of an SRQ.
    pub(super) fn remember_srq(&self, number: u32, notifier: Arc<SrqNotifier>) -> Result {
        remember(&self.srqs, number, notifier)
    }

    /// Does not any more.
    pub(super) fn forget_srq(&self, number: u32) {
        forget(&self.srqs, number);
    }

    /// Forgets everybody: the numbers belong to a generation that is over.
    pub(super) fn forget_all(&self) {
        clear(&self.cqs);
        clear(&self.qps);
        clear(&self.srqs);
    }
}

impl Listener for Events {
    fn event(&self, event: Event) {
        match event {
            Event::CqError { cqn, .. } => tell(&self.cqs, cqn, CqNotifier::error),
            // Queues of other kinds are not QPs.
            Event::Qp {
                kind,
                number,
                queue: 0,
            } => {
                let what = match kind {
                    QpEvent::PathMigrated => Told::PathMigrated,
                    QpEvent::Established => Told::Established,
                    QpEvent::SqDrained => Told::SqDrained,
                    QpEvent::Catastrophic => Told::Fatal,
                    QpEvent::PathMigrationFailed => Told::PathMigrationFailed,
                    QpEvent::InvalidRequest => Told::RequestError,
                    QpEvent::AccessError => Told::AccessError,
                    QpEvent::LastWqe => Told::LastWqe,
                };
                tell(&self.qps, number, |qp| qp.event(what));
            }
            Event::Srq { kind, number } => {
                let what = match kind {
                    SrqEvent::Catastrophic => SrqTold::Error,
                    SrqEvent::Limit => SrqTold::LimitReached,
                };
                tell(&self.srqs, number, |srq| srq.event(what));
            }
            _ => (),
        }
    }
}
