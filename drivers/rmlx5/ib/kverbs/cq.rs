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
        completion::Received as Arrived,
        Arm,
        Completion,
        Completions as Room,
        Outcome,
        Status, //
    },
    CqNotifier,
    GidKind, //
};
use mlx5_hw::{
    ring::Counter,
    status::Syndrome, //
};

use super::queues::Queues;
use crate::{
    cq::{
        cqe::{
            Cqe,
            CqeSyndrome,
            Envelope,
            Received,
            Wrapping,
            CQE_BYTES, //
        },
        Cq,
        Moderation, //
    },
    eq::sink::CqHandler,
    home::Home,
    ib::events::Events,
    record::Records, //
};

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
    /// `None` at the begin, at the end, and while it is made anew.
    cq: Option<Cq>,
    home: Home,
    members: RBTree<u32, Member>,
    /// The device does not know it.
    over: bool,
    /// A member may have something that the driver flushes.
    flushes: bool,
}

/// The part of a CQ that is polled.
#[pin_data]
pub(in crate::ib) struct Core {
    number: Atomic<u32>,
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
        records: Records,
        home: Home,
        vector: usize,
        notifier: Arc<CqNotifier>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number: Atomic::new(0),
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
        self.number.store(cq.number(), Relaxed);
        let before = self.inner.lock().cq.replace(cq);
        drop(before);
    }

    /// Its number on the device.
    pub(in crate::ib) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Takes the CQ away; nobody polls any more. Sleeps.
    pub(in crate::ib) fn destroy(&self, events: &Events) {
        let (cq, home) = {
            let mut inner = self.inner.lock();
            (inner.cq.take(), inner.home.clone())
        };
        let Some(cq) = cq else {
            return;
        };
        // A CQ of an earlier generation is gone already, and its number may be another's.
        if home.is_current() {
            events.forget_cq(cq.number());
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

    /// Is made anew on the device of a later generation, in the same memory. Its QPs stay void. Sleeps.
    pub(super) fn renew(self: &Arc<Self>, home: &Home, events: &Events) -> Result {
        let device = home.device();
        let eq = device.comp_eq(self.vector).ok_or(ENODEV)?;
        let eqn = eq.eq.number().ok_or(ENODEV)?;
        let uar = device.uar()?;
        let old = self.inner.lock().cq.take().ok_or(EINVAL)?;
        let ring = old.into_ring();
        let moderation = Moderation::default();
        let cq = Cq::create(home.cmd(), &uar, eqn, &self.records, ring, moderation)?;
        let number = cq.number();
        {
            let mut inner = self.inner.lock();
            inner.cq = Some(cq);
            inner.home = home.clone();
            inner.over = false;
        }
        self.number.store(number, Relaxed);
        self.events.store(0, Relaxed);
        events.remember_cq(number, self.notifier.clone())?;
        eq.subscribe(number, self.clone())
    }

    /// Completions of a QP come here. Sleeps.
    pub(super) fn add(&self, queues: &Arc<Queues>, sends: bool, receives: bool) -> Result {
        let mut member = Member {
            queues: Some(queues.clone()),
            sends,
            receives,
            stale: None,
        };
        let spare = RBTreeNodeReservation::<u32, Member>::new(GFP_KERNEL)?;
        let number = queues.number();
        let before = {
            let mut inner = self.inner.lock();
            if inner.over {
                queues.end();
            }
            if let Some(old) = inner.members.get(&number) {
                member.stale = old.stale;
            }
            let node: RBTreeNode<u32, Member> = spare.into_node(number, member);
            inner.members.insert(node)
        };
        drop(before);
        Ok(())
    }

    /// They do not any more. Sleeps.
    pub(in crate::ib) fn remove(&self, number: u32) {
        let gone = {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            let stale = unread(&inner.cq);
            match (inner.members.get_mut(&number), stale) {
                (Some(member), Some(_)) => {
                    member.stale = stale;
                    // The rest of the entry waits for these completions to be read over.
                    (None, member.queues.take())
                }
                _ => (inner.members.remove_node(&number), None),
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
                let number = inner
                    .members
                    .iter()
                    .find(|(_, member)| over(member))
                    .map(|(number, _)| *number);
                match number {
                    Some(number) => inner.members.remove_node(&number),
                    None => return,
                }
            };
            drop(node);
        }
    }

    /// What is in the CQ of a QP so far does not count. Any context.
    pub(super) fn forget_past(&self, number: u32) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let stale = unread(&inner.cq);
        if let Some(member) = inner.members.get_mut(&number) {
            member.stale = stale;
        }
    }

    /// Takes completions. Any context.
    pub(super) fn poll(&self, to: &mut Room<'_>) -> Result {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(cq) = &mut inner.cq else {
            return Ok(());
        };
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
            let Some(member) = number_of(&cqe).and_then(|number| inner.members.get_mut(&number))
            else {
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
            cq.publish(&self.records)?;
        }
        if inner.flushes {
            let mut more = inner.over;
            for (_, member) in inner.members.iter() {
                if let Some(queues) = &member.queues {
                    queues.flush(member.sends, member.receives, to);
                    more |= queues.is_over() || queues.is_busy(member.sends, member.receives);
                }
            }
            inner.flushes = more;
        }
        Ok(())
    }

    /// Asks for an event; whether there is something to poll already. Any context.
    pub(super) fn arm(&self, arm: Arm) -> Result<bool> {
        let guard = self.inner.lock();
        self.armed.store(1, Relaxed);
        let Some(cq) = &guard.cq else {
            return Ok(false);
        };
        let busy = |member: &Member| {
            member
                .queues
                .as_ref()
                .is_some_and(|queues| queues.is_busy(member.sends, member.receives))
        };
        let flushes = guard.flushes && guard.members.iter().any(|(_, member)| busy(member));
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

impl CqHandler for Core {
    fn completion(&self) {
        self.events.fetch_add(1, Relaxed);
        self.armed.store(0, Relaxed);
        self.notifier.completion();
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

fn number_of(cqe: &Cqe) -> Option<u32> {
    match cqe {
        Cqe::Requester { qpn, .. }
        | Cqe::Responder { qpn, .. }
        | Cqe::RequesterError { qpn, .. }
        | Cqe::ResponderError { qpn, .. } => Some(*qpn),
        Cqe::Resize | Cqe::Malformed { .. } => None,
    }
}

/// The completion of what a CQE is about; `None` when nothing such is posted.
fn complete(queues: &Queues, cqe: &Cqe, bytes: &[u8; CQE_BYTES]) -> Option<Completion> {
    match *cqe {
        Cqe::Requester {
            wqe_counter,
            byte_cnt,
            ..
        } => queues.sent(wqe_counter, Status::Success, 0, byte_cnt),
        Cqe::RequesterError {
            wqe_counter,
            syndrome,
            ..
        } => queues.sent(wqe_counter, status(syndrome), syndrome.vendor.into(), 0),
        Cqe::Responder {
            wqe_counter,
            byte_cnt,
            kind,
            source_qpn,
            ..
        } => {
            let arrived = arrived(byte_cnt, kind, source_qpn, &Envelope::parse(bytes));
            queues.received(wqe_counter, Status::Success, 0, Outcome::Receive(arrived))
        }
        Cqe::ResponderError {
            wqe_counter,
            syndrome,
            ..
        } => queues.received(
            wqe_counter,
            status(syndrome),
            syndrome.vendor.into(),
            Outcome::Failed,
        ),
        Cqe::Resize | Cqe::Malformed { .. } => None,
    }
}

fn arrived(length: u32, kind: Received, source_qpn: u32, envelope: &Envelope) -> Arrived {
    let (immediate, invalidated) = match kind {
        Received::Send => (None, None),
        Received::SendImm(value) | Received::WriteImm(value) => (Some(value.to_be_bytes()), None),
        Received::SendInvalidate(key) => (None, Some(key)),
    };
    Arrived {
        length,
        write: matches!(kind, Received::WriteImm(_)),
        immediate,
        invalidated,
        source_qpn,
        grh: envelope.grh,
        vlan: envelope.vlan,
        kind: match envelope.wrapping {
            Wrapping::Grh => (GidKind::RoceV1, false),
            Wrapping::Ipv6 => (GidKind::RoceV2, false),
            Wrapping::Ipv4 => (GidKind::RoceV2, true),
        },
    }
}

fn status(syndrome: CqeSyndrome) -> Status {
    match syndrome.known() {
        Some(Syndrome::LocalLength) => Status::LocalLength,
        Some(Syndrome::LocalQpOp) => Status::LocalQpOperation,
        Some(Syndrome::LocalProtection) => Status::LocalProtection,
        Some(Syndrome::Flushed) => Status::Flushed,
        Some(Syndrome::MwBind) => Status::WindowBind,
        Some(Syndrome::BadResponse) => Status::BadResponse,
        Some(Syndrome::LocalAccess) => Status::LocalAccess,
        Some(Syndrome::RemoteInvalidRequest) => Status::RemoteInvalidRequest,
        Some(Syndrome::RemoteAccess) => Status::RemoteAccess,
        Some(Syndrome::RemoteOperation) => Status::RemoteOperation,
        Some(Syndrome::RetryExceeded) => Status::RetryExceeded,
        Some(Syndrome::RnrRetryExceeded) => Status::RnrRetryExceeded,
        Some(Syndrome::RemoteAborted) => Status::RemoteAborted,
        None => Status::General,
    }
}
