// SPDX-License-Identifier: GPL-2.0
//! Asynchronous events of users' objects: who is told of which number. Those of a CQ go the way of its
//! completions, to its handler.

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
    QpEvent as Told,
    QpNotifier,
    SrqEvent as SrqTold,
    SrqNotifier,
    WqNotifier, //
};

use mlx5_hw::raw;

use crate::event::{
    Event,
    Listener,
    QpEvent,
    SrqEvent, //
};

/// What a number in an event of a queue is the number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum QueueKind {
    Qp = raw::MLX5_EVENT_QUEUE_TYPE_QP as u8,
    Rq = raw::MLX5_EVENT_QUEUE_TYPE_RQ as u8,
    Sq = raw::MLX5_EVENT_QUEUE_TYPE_SQ as u8,
}

/// The key of a queue in the table: kinds count by themselves, numbers have 24 bits.
fn key(kind: u8, number: u32) -> u32 {
    u32::from(kind) << 24 | number & 0xff_ffff
}

type Table<T> = SpinLockIrq<RBTree<u32, Arc<T>>>;

/// The objects of users, by their numbers on the device.
#[pin_data]
pub(crate) struct Events {
    /// By [`key`]: a user's QP may be queues of other kinds.
    #[pin]
    qps: Table<QpNotifier>,
    #[pin]
    srqs: Table<SrqNotifier>,
    #[pin]
    wqs: Table<WqNotifier>,
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
            qps <- new_spinlock_irq!(RBTree::new()),
            srqs <- new_spinlock_irq!(RBTree::new()),
            wqs <- new_spinlock_irq!(RBTree::new()),
        })
    }

    /// Tells `notifier` of events of a QP, or of a queue that is part of one.
    pub(super) fn remember_qp(
        &self,
        kind: QueueKind,
        number: u32,
        notifier: Arc<QpNotifier>,
    ) -> Result {
        remember(&self.qps, key(kind as u8, number), notifier)
    }

    /// Does not any more.
    pub(super) fn forget_qp(&self, kind: QueueKind, number: u32) {
        forget(&self.qps, key(kind as u8, number));
    }

    /// Tells `notifier` of events of an SRQ.
    pub(super) fn remember_srq(&self, number: u32, notifier: Arc<SrqNotifier>) -> Result {
        remember(&self.srqs, number, notifier)
    }

    /// Does not any more.
    pub(super) fn forget_srq(&self, number: u32) {
        forget(&self.srqs, number);
    }

    /// Tells `notifier` of events of a work queue.
    pub(super) fn remember_wq(&self, number: u32, notifier: Arc<WqNotifier>) -> Result {
        remember(&self.wqs, number, notifier)
    }

    /// Does not any more.
    pub(super) fn forget_wq(&self, number: u32) {
        forget(&self.wqs, number);
    }

    /// Forgets everybody: the numbers belong to a generation that is over.
    pub(super) fn forget_all(&self) {
        clear(&self.qps);
        clear(&self.srqs);
        clear(&self.wqs);
    }
}

impl Listener for Events {
    fn event(&self, event: Event) {
        match event {
            Event::Qp {
                kind,
                number,
                queue,
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
                tell(&self.qps, key(queue, number), |qp| qp.event(what));
                // An RQ is part of a QP, or a work queue.
                if queue == QueueKind::Rq as u8 && kind == QpEvent::Catastrophic {
                    tell(&self.wqs, number, WqNotifier::fatal);
                }
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
