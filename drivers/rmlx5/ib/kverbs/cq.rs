// SPDX-License-Identifier: GPL-2.0
//! CQs of the kernel: polling, arming, and whose completions they hold.
//!
//! A completion names a QP by its number. The numbers of QPs that are gone are given out again, and
//! completions of the old one may still be in the CQ: each member remembers up to where completions
//! are not its own.

use kernel::{
    new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        Arc,
        SpinLockIrq, //
    }, //
};
use kernel_ext::rdma::{
    kverbs::{
        Arm,
        Completions as Room, //
    },
    CqNotifier, //
};
use mlx5_hw::ring::Counter;

use super::{
    completion::{
        complete,
        number_of, //
    },
    queues::Queues, //
};
use crate::{
    cq::{
        cqe::Cqe,
        Cq,
        CqRing,
        Moderation, //
    },
    eq::sink::CqHandler,
    home::Home,
    record::Records, //
};

/// A QP by its generation and its number there: numbers of a generation that is over are given out again.
pub(super) type Key = (u32, u32);

/// A QP that completes here.
struct Member {
    /// `None` when it is gone.
    queues: Option<Arc<Queues>>,
    /// Whether its sends, and its receives, complete here.
    sends: bool,
    receives: bool,
    /// Completions before this are of an earlier QP of the number, or of its life before RESET.
    stale: Option<Counter>,
}

struct Inner {
    /// `None` at the begin, at the end, while it is made anew, and when that failed.
    cq: Option<Cq>,
    /// The generation of `cq`.
    home: Home,
    members: RBTree<Key, Member>,
    /// The device does not know it.
    over: bool,
    /// A member may have something that the driver flushes.
    flushes: bool,
}

/// The part of a CQ that is polled.
#[pin_data]
pub(in crate::ib) struct Core {
    /// log2 of its entries.
    log: u8,
    /// Completion vector that its events go to.
    vector: usize,
    notifier: Arc<CqNotifier>,
    records: Records,
    /// Events so far, for the sequence of arming.
    events: Atomic<u32>,
    /// 1 while somebody waits for an event.
    armed: Atomic<u32>,
    #[pin]
    inner: SpinLockIrq<Inner>,
}

impl Core {
    /// Without a CQ yet. Sleeps.
    pub(super) fn new(
        log: u8,
        records: Records,
        home: Home,
        vector: usize,
        notifier: Arc<CqNotifier>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                log,
                vector,
                notifier,
                records,
                events: Atomic::new(0),
                armed: Atomic::new(0),
                inner <- new_spinlock_irq!(Inner {
                    cq: None,
                    home,
                    members: RBTree::new(),
                    over: false,
                    flushes: false,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// The records that the CQ is made with.
    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// The CQ is there.
    pub(in crate::ib) fn install(&self, cq: Cq) {
        let before = self.inner.lock().cq.replace(cq);
        drop(before);
    }

    /// Its number on the device in the generation `home`. `EIO` when it is not there.
    pub(in crate::ib) fn number_on(&self, home: &Home) -> Result<u32> {
        let inner = self.inner.lock();
        match &inner.cq {
            Some(cq) if !inner.over && inner.home.generation() == home.generation() => {
                Ok(cq.number())
            }
            _ => Err(EIO),
        }
    }

    /// Takes the CQ away; nobody polls any more. Sleeps.
    pub(in crate::ib) fn destroy(&self) {
        let (cq, home) = {
            let mut inner = self.inner.lock();
            (inner.cq.take(), inner.home.clone())
        };
        let Some(cq) = cq else {
            return;
        };
        // A CQ of an earlier generation is gone already, and its number may be another's.
        if home.is_current() {
            if let Some(eq) = home.device().comp_eq(self.vector) {
                drop(eq.unsubscribe(cq.number()));
            }
            cq.destroy(home.cmd());
        }
    }

    /// The device does not know it any more, nor its QPs. Any context.
    pub(super) fn end(&self) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        inner.over = true;
        inner.flushes = true;
        for (_, member) in inner.members.iter() {
            if let Some(queues) = &member.queues {
                queues.end();
            }
        }
    }

    /// Is made anew on the device of a later generation, in the same memory. Its QPs stay void: what the old
    /// one held of them is forgotten, and flushed. Sleeps.
    pub(super) fn renew(self: &Arc<Self>, home: &Home) -> Result {
        let device = home.device();
        let eq = device.comp_eq(self.vector).ok_or(ENODEV)?;
        let eqn = eq.eq.number().ok_or(ENODEV)?;
        let uar = device.uar()?;
        let old = {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            for member in inner.members.values_mut() {
                member.stale = None;
            }
            inner.cq.take()
        };
        let ring = match old {
            Some(old) => old.into_ring(),
            // It went with a try that failed.
            None => CqRing::new(device.pdev.device(), eq.node, self.log)?,
        };
        let moderation = Moderation::default();
        let cq = Cq::create(home.cmd(), &uar, eqn, &self.records, ring, moderation)?;
        let number = cq.number();
        // Before anybody can ask for an event.
        if let Err(error) = eq.subscribe(number, self.clone()) {
            cq.destroy(home.cmd());
            return Err(error);
        }
        let mut inner = self.inner.lock();
        // The device counts from 0, and who asks does so under this lock.
        self.events.store(0, Relaxed);
        inner.cq = Some(cq);
        inner.home = home.clone();
        inner.over = false;
        Ok(())
    }

    /// Completions of the QP `key` come here, of its sends and of its receives. Sleeps.
    pub(super) fn add(
        &self,
        key: Key,
        queues: &Arc<Queues>,
        (sends, receives): (bool, bool),
    ) -> Result {
        let mut member = Member {
            queues: Some(queues.clone()),
            sends,
            receives,
            stale: None,
        };
        let spare = RBTreeNodeReservation::<Key, Member>::new(GFP_KERNEL)?;
        let before = {
            let mut inner = self.inner.lock();
            if inner.over || inner.home.generation() != key.0 {
                // Its generation has ended since it was made.
                queues.end();
                inner.flushes = true;
            }
            if let Some(old) = inner.members.get(&key) {
                member.stale = old.stale;
            }
            let node: RBTreeNode<Key, Member> = spare.into_node(key, member);
            inner.members.insert(node)
        };
        drop(before);
        Ok(())
    }

    /// They do not any more. Sleeps.
    pub(in crate::ib) fn remove(&self, key: Key) {
        let gone = {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            // What the CQ of a later generation holds is not about this QP.
            let stale = unread(&inner.cq).filter(|_| inner.home.generation() == key.0);
            match (inner.members.get_mut(&key), stale) {
                (Some(member), Some(_)) => {
                    member.stale = stale;
                    // The rest of the entry waits for these completions to be read over.
                    (None, member.queues.take())
                }
                _ => (inner.members.remove_node(&key), None),
            }
        };
        drop(gone);
        self.prune();
    }

    /// Takes entries of QPs away that nothing in the CQ is about any more.
    fn prune(&self) {
        // Each round takes one.
        for _ in 0..1u32 << 18 {
            let node = {
                let mut guard = self.inner.lock();
                let inner = &mut *guard;
                let consumer = inner.cq.as_ref().map(Cq::consumer);
                let over = |member: &Member| {
                    member.queues.is_none()
                        && match (member.stale, consumer) {
                            (Some(stale), Some(consumer)) => !is_before(consumer, stale),
                            _ => true,
                        }
                };
                let key = inner
                    .members
                    .iter()
                    .find(|(_, member)| over(member))
                    .map(|(key, _)| *key);
                match key {
                    Some(key) => inner.members.remove_node(&key),
                    None => return,
                }
            };
            drop(node);
        }
    }

    /// What is in the CQ of a QP so far does not count. Any context.
    pub(super) fn forget_past(&self, key: Key) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let stale = unread(&inner.cq).filter(|_| inner.home.generation() == key.0);
        if let Some(member) = inner.members.get_mut(&key) {
            member.stale = stale;
        }
    }

    /// Takes completions. Any context.
    pub(super) fn poll(&self, to: &mut Room<'_>) -> Result {
        let mut guard = self.inner.lock();
        let read = guard.read(&self.records, to);
        guard.flush(to);
        read
    }

    /// Asks for an event; whether there is something to poll already. Any context.
    pub(super) fn arm(&self, arm: Arm) -> Result<bool> {
        let guard = self.inner.lock();
        self.armed.store(1, Relaxed);
        let busy = |member: &Member| {
            member
                .queues
                .as_ref()
                .is_some_and(|queues| queues.is_busy(member.sends, member.receives))
        };
        let flushes = guard.flushes && guard.members.iter().any(|(_, member)| busy(member));
        let Some(cq) = &guard.cq else {
            return Ok(flushes);
        };
        if !guard.over {
            cq.arm_for(
                &self.records,
                self.events.load(Relaxed),
                arm == Arm::Solicited,
            )?;
        }
        Ok(flushes || cq.is_ready())
    }

    /// Raises the event if somebody waits for it. Not under the lock of a CQ or a queue. Any context.
    pub(super) fn wake(&self) {
        if self.armed.xchg(0, Full) != 0 {
            self.notifier.completion();
        }
    }
}

impl Inner {
    /// Takes what the device has written.
    fn read(&mut self, records: &Records, to: &mut Room<'_>) -> Result {
        let Some(cq) = &mut self.cq else {
            return Ok(());
        };
        let generation = self.home.generation();
        let before = cq.consumer();
        // A lap at most, whatever the device writes meanwhile.
        for _ in 0..cq.entries() {
            if to.is_full() {
                break;
            }
            let at = cq.consumer();
            let Some(bytes) = cq.next() else {
                break;
            };
            let cqe = Cqe::parse(&bytes);
            let member =
                number_of(&cqe).and_then(|number| self.members.get_mut(&(generation, number)));
            let Some(member) = member else {
                continue;
            };
            if let Some(stale) = member.stale {
                if is_before(at, stale) {
                    continue;
                }
                member.stale = None;
            }
            if let Some(queues) = &member.queues {
                if let Some(done) = complete(queues, &cqe, &bytes) {
                    to.push(&done);
                }
            }
        }
        if cq.consumer() != before {
            cq.publish(records)?;
        }
        Ok(())
    }

    /// Completes what the device will not.
    fn flush(&mut self, to: &mut Room<'_>) {
        if !self.flushes {
            return;
        }
        let mut more = self.over;
        for (_, member) in self.members.iter() {
            if let Some(queues) = &member.queues {
                queues.flush(member.sends, member.receives, to);
                more |= queues.is_over() || queues.is_busy(member.sends, member.receives);
            }
        }
        self.flushes = more;
    }
}

impl CqHandler for Core {
    fn completion(&self) {
        self.events.fetch_add(1, Relaxed);
        self.armed.store(0, Relaxed);
        self.notifier.completion();
    }

    fn error(&self) {
        self.notifier.error();
    }
}

/// Whether `at` is before `other`, in a ring of less than 2^31 entries.
fn is_before(at: Counter, other: Counter) -> bool {
    at != other && other.since(at) < 1 << 31
}

/// How far a CQ is written, if that is further than it was read.
fn unread(cq: &Option<Cq>) -> Option<Counter> {
    let cq = cq.as_ref()?;
    let written = cq.written();
    (written != cq.consumer()).then_some(written)
}
