// SPDX-License-Identifier: GPL-2.0
//! Carries letters of the handshake to the peer's control QP and brings those that come.
//!
//! A letter may get lost, on the wire or because a queue is full; whoever wrote it writes again.
//! The QP comes back from ERROR by itself, with the same number unless its CQ is of no use any
//! more; then peers learn of the new number by the next request.

mod trouble;

use core::fmt::{
    self,
    Write, //
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        barrier::{
            self,
            dma_mb, //
        },
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::random::random_u32;

use self::trouble::Trouble;
use super::{
    backoff::Backoff,
    control::Hardware,
    endpoint::Endpoint,
    hardware::Rings,
    layout::control::{
        AREA_BYTES,
        RECEIVE_BYTES,
        SEND,
        SEND_BYTES, //
    },
    letter::{
        BadLetter,
        Letter,
        Mail,
        MAIL_BYTES, //
    },
    roster::Roster,
    Alarm, //
};
use crate::{
    buf::Buf,
    cq::cqe::Cqe,
    device::Device,
    qp::{
        datagram::Datagram,
        state::QpState, //
    },
    record::Records,
    wq::Sge, //
};

/// Completions in one go of the task; then others get the CPU.
const BATCH: u32 = 256;
/// Lines about datagrams that are ignored, in the life of a device.
const BAD_LINES: u64 = 8;

/// What happened so far.
#[derive(Clone, Copy, Default)]
struct Counts {
    sent: u64,
    /// Not sent: the queue was full, or there was no QP.
    unsent: u64,
    received: u64,
    /// Datagrams that are no letters.
    bad: u64,
    /// Letters to channels that do not exist or have not read the last ones.
    undelivered: u64,
    broken: u64,
    recovered: u64,
}

/// What the mutex of the control QP protects.
pub(super) struct Inner {
    pub(super) buf: Buf,
    pub(super) records: Records,
    /// Memory of the queues while no hardware uses it.
    pub(super) rings: Option<Rings>,
    pub(super) hw: Option<Hardware>,
    /// Generations so far; makes keys of earlier ones invalid.
    pub(super) generations: u8,
    trouble: Option<Trouble>,
    /// The next attempt to recover has been planned.
    planned: bool,
    /// Nothing helped; a reset of the card does.
    given_up: bool,
    backoff: Backoff,
    counts: Counts,
}

/// The working part of the control QP.
#[pin_data]
pub(super) struct Post {
    pub(super) device: Arc<Device>,
    roster: Arc<Roster>,
    /// Lets datagrams in, 31 bits; the same in each generation.
    pub(super) qkey: u32,
    /// Events of the CQ so far.
    pub(super) events: Atomic<u32>,
    /// Numbers of the objects of the current generation, 0 without.
    qpn: Atomic<u32>,
    cqn: Atomic<u32>,
    /// Whether events said that QP or CQ are in error.
    qp_alarm: Atomic<u32>,
    cq_alarm: Atomic<u32>,
    #[pin]
    pub(super) inner: Mutex<Inner>,
}

impl Post {
    /// Without hardware. Sleeps.
    pub(super) fn new(device: &Arc<Device>, roster: &Arc<Roster>) -> Result<Arc<Self>> {
        let dev = device.pdev.device();
        let buf = Buf::new(dev, device.node, AREA_BYTES as usize)?;
        let records = Records::new(dev)?;
        Arc::pin_init(
            pin_init!(Self {
                device: device.clone(),
                roster: roster.clone(),
                qkey: random_u32() >> 1,
                events: Atomic::new(0),
                qpn: Atomic::new(0),
                cqn: Atomic::new(0),
                qp_alarm: Atomic::new(0),
                cq_alarm: Atomic::new(0),
                inner <- new_mutex!(Inner {
                    buf,
                    records,
                    rings: None,
                    hw: None,
                    generations: 0,
                    trouble: None,
                    planned: false,
                    given_up: false,
                    backoff: Backoff::new(),
                    counts: Counts::default(),
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Number of the QP, 0 without.
    pub(super) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// Begins to work with new objects. Sleeps.
    pub(super) fn begin(&self, inner: &mut Inner, hw: Hardware) -> Result {
        self.publish(inner, hw);
        inner.trouble = None;
        inner.planned = false;
        inner.given_up = false;
        inner.backoff.succeeded();
        self.start(inner)
    }

    fn publish(&self, inner: &mut Inner, hw: Hardware) {
        self.qpn.store(hw.qp.number(), Relaxed);
        self.cqn.store(hw.cq.number(), Relaxed);
        inner.hw = Some(hw);
    }

    /// Gives the objects back; events do not find them any more.
    pub(super) fn retire(&self, inner: &mut Inner) -> Option<Hardware> {
        self.qpn.store(0, Relaxed);
        self.cqn.store(0, Relaxed);
        inner.hw.take()
    }

    /// What an asynchronous event says; whether it is about this. Hard interrupt context.
    pub(super) fn raise(&self, alarm: Alarm, number: u32) -> bool {
        let (mine, raised) = match alarm.is_cq() {
            true => (&self.cqn, &self.cq_alarm),
            false => (&self.qpn, &self.qp_alarm),
        };
        let hit = number != 0 && mine.load(Relaxed) == number;
        if hit {
            raised.store(1, Relaxed);
        }
        hit
    }

    /// Sends a letter to the control QP of `to`, or counts it as not sent. Sleeps for locks only.
    pub(super) fn send(&self, letter: &Letter, to: &Endpoint) {
        let mut guard = self.inner.lock();
        let count = match self.try_send(&mut guard, letter, to) {
            Ok(()) => &mut guard.counts.sent,
            Err(_) => &mut guard.counts.unsent,
        };
        *count = count.wrapping_add(1);
    }

    fn try_send(&self, inner: &mut Inner, letter: &Letter, to: &Endpoint) -> Result {
        let hw = inner.hw.as_mut().ok_or(ENODEV)?;
        if hw.qp.state() != QpState::Rts || inner.trouble.is_some() {
            return Err(EAGAIN);
        }
        let caps = self.device.caps()?;
        let slot = hw.qp.next_datagram().ok_or(ENOSPC)?;
        // CAST: a slot of at most 2^7.
        let at = SEND + slot as u32 * SEND_BYTES;
        inner.buf.write(at as usize, &letter.encode())?;
        hw.qp.post_datagram(&Datagram {
            qpn: to.control_qpn,
            qkey: to.control_qkey,
            gid: to.gid,
            mac: to.mac,
            source_index: caps.own_address(),
            source_port: caps.roce_source_port_min,
            local: Sge {
                addr: hw.mr.start().wrapping_add(at.into()),
                lkey: hw.mr.key(),
                len: SEND_BYTES,
            },
        })?;
        hw.qp.ring(&inner.records)
    }

    /// Does what there is to do. Process context; the only entry of the task.
    pub(super) fn work(&self) -> Option<Delta> {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        inner.hw.as_ref()?;
        self.hear_alarms(inner);
        for _ in 0..BATCH {
            if inner.trouble.is_some() {
                return self.recover(inner);
            }
            if self.poll(inner) {
                continue;
            }
            // Arm, then look once more: what came in between raises no event of its own.
            match self.arm(inner) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => self.fail(inner, Trouble::Driver(error)),
            }
        }
        Some(Delta::ZERO)
    }

    fn arm(&self, inner: &mut Inner) -> Result<bool> {
        let Some(hw) = &inner.hw else {
            return Ok(false);
        };
        hw.cq.publish(&inner.records)?;
        hw.cq.arm(&inner.records, self.events.load(Relaxed))?;
        Ok(hw.cq.is_ready())
    }

    /// Handles one completion, if there is one.
    fn poll(&self, inner: &mut Inner) -> bool {
        let Some(cqe) = inner.hw.as_mut().and_then(|hw| hw.cq.poll()) else {
            return false;
        };
        self.complete(inner, cqe);
        true
    }

    fn complete(&self, inner: &mut Inner, cqe: Cqe) {
        let Some(hw) = inner.hw.as_mut() else { return };
        let number = hw.qp.number();
        match cqe {
            Cqe::Requester {
                qpn, wqe_counter, ..
            } if qpn == number => match hw.qp.sq().locate(wqe_counter) {
                Some(upto) => {
                    hw.qp.sent(upto);
                    inner.backoff.succeeded();
                }
                None => self.fail(inner, Trouble::Malformed),
            },
            Cqe::Responder {
                qpn,
                wqe_counter,
                byte_cnt,
                source_qpn,
                ..
            } if qpn == number => {
                let at = hw.qp.rq().tail();
                if hw.qp.rq().locate(wqe_counter) != Some(at) {
                    return self.fail(inner, Trouble::Malformed);
                }
                // CAST: a slot of at most 2^7.
                let slot = hw.qp.rq().slot(at) as u32;
                hw.qp.received(at);
                inner.backoff.succeeded();
                self.receive(inner, slot, byte_cnt, source_qpn);
                if let Err(error) = refill(inner) {
                    self.fail(inner, Trouble::Driver(error));
                }
            }
            Cqe::RequesterError { qpn, syndrome, .. }
            | Cqe::ResponderError { qpn, syndrome, .. }
                if qpn == number =>
            {
                hw.qp.found_in_error();
                self.fail(inner, Trouble::Completion(syndrome));
            }
            _ => self.fail(inner, Trouble::Malformed),
        }
    }

    /// A datagram of `len` bytes, GRH included, lies in receive `slot`.
    fn receive(&self, inner: &mut Inner, slot: u32, len: u32, source_qpn: u32) {
        // The completion was read before; now the data.
        dma_mb(barrier::Read);
        let counts = &mut inner.counts;
        let mut bytes = [0u8; MAIL_BYTES];
        let mail = match inner.buf.read((slot * RECEIVE_BYTES) as usize, &mut bytes) {
            Ok(()) if len as usize == MAIL_BYTES => Mail::parse(&bytes, source_qpn),
            _ => Err(BadLetter::Length(len as usize)),
        };
        match mail {
            Ok(mail) => {
                counts.received = counts.received.wrapping_add(1);
                if !self.roster.deliver(mail) {
                    counts.undelivered = counts.undelivered.wrapping_add(1);
                }
            }
            Err(bad) => {
                counts.bad = counts.bad.wrapping_add(1);
                if counts.bad <= BAD_LINES {
                    dev_warn!(
                        self.device.pdev,
                        "control QP: datagram from QP {:#x} ignored: {}\n",
                        source_qpn,
                        format_args!("{bad}")
                    );
                }
            }
        }
    }

    /// One line about objects and what happened. Asks the device.
    pub(super) fn describe(&self, f: &mut impl Write) -> fmt::Result {
        let inner = self.inner.lock();
        let Some(hw) = &inner.hw else {
            return Ok(());
        };
        let counts = &inner.counts;
        writeln!(
            f,
            "control qpn={:#x} state={} cqn={:#x} sent={} unsent={} received={} bad={} undelivered={} broken={} recovered={}",
            hw.qp.number(),
            hw.qp
                .query(&self.device.cmd)
                .map_or("unknown", QpState::name),
            hw.cq.number(),
            counts.sent,
            counts.unsent,
            counts.received,
            counts.bad,
            counts.undelivered,
            counts.broken,
            counts.recovered
        )
    }
}

/// Posts receives as far as there is room.
fn refill(inner: &mut Inner) -> Result {
    let hw = inner.hw.as_mut().ok_or(ENODEV)?;
    while let Some(slot) = hw.qp.next_receive() {
        // CAST: a slot of at most 2^7.
        let at = slot as u32 * RECEIVE_BYTES;
        hw.qp.post_receive(&Sge {
            addr: hw.mr.start().wrapping_add(at.into()),
            lkey: hw.mr.key(),
            len: RECEIVE_BYTES,
        })?;
    }
    hw.qp.publish_receives(&inner.records)
}
