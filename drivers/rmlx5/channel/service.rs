// SPDX-License-Identifier: GPL-2.0
//! The work of a channel: find completions, check what they brought, post what comes next.

use kernel::{
    prelude::*,
    sync::atomic::ordering::{
        Full,
        Relaxed, //
    },
    time::Delta, //
};
use kernel_ext::time::now_ns;

use super::{
    fault::Fault,
    layout,
    options::Mode,
    recover::Cause,
    Alarm,
    Core,
    Inner,
    Posted, //
};
use crate::{
    cq::cqe::{
        Cqe,
        CqeSyndrome,
        Received, //
    },
    qp::state::QpState,
    wq::{
        Sge,
        Signal, //
    }, //
};

/// Completions handled in a row before more is posted.
const BATCH: u32 = 64;
/// Batches in one go of the task; then others get the CPU.
const BATCHES: u32 = 32;

/// What the task does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Wait for an event.
    Sleep,
    /// Look again at once.
    Again,
    /// The connection is broken.
    Recover,
}

impl Core {
    /// Does what there is to do. Process context; the only entry of the task.
    pub(super) fn work(&self) -> Option<Delta> {
        match self.service() {
            Next::Sleep => None,
            Next::Again => Some(Delta::ZERO),
            Next::Recover => self.recover(),
        }
    }

    fn service(&self) -> Next {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        self.hear_alarms(inner);
        if inner.hw.is_none() {
            inner.finish_run();
            return Next::Sleep;
        }
        self.read_mail(inner);
        for _ in 0..BATCHES {
            if inner.broken.is_some() {
                return Next::Recover;
            }
            let found = self.poll(inner);
            if inner.broken.is_some() {
                return Next::Recover;
            }
            self.post(inner);
            inner.finish_run();
            if found != 0 {
                continue;
            }
            if inner.polls() {
                return Next::Again;
            }
            // Arm, then look once more: what came in between raises no event of its own.
            let events = self.events.load(Relaxed);
            match inner.arm(events) {
                Ok(true) => continue,
                Ok(false) => return Next::Sleep,
                Err(error) => {
                    inner.break_up(Cause::Driver(error));
                }
            }
        }
        Next::Again
    }

    /// Looks at what asynchronous events said.
    pub(super) fn hear_alarms(&self, inner: &mut Inner) {
        for (alarm, raised) in Alarm::ALL.into_iter().zip(&self.alarms) {
            if raised.xchg(0, Full) != 0 {
                inner.break_up(match alarm {
                    Alarm::CqOverrun => Cause::CqOverrun,
                    Alarm::CqAccess => Cause::CqAccess,
                    Alarm::QpCatastrophic => Cause::QpCatastrophic,
                    Alarm::QpRequest => Cause::QpRequest,
                    Alarm::QpAccess => Cause::QpAccess,
                });
            }
        }
    }

    /// Handles up to a batch of completions and says how many there were.
    fn poll(&self, inner: &mut Inner) -> u32 {
        let mut found = 0;
        while found < BATCH {
            let Some(cqe) = inner.hw.as_mut().and_then(|hw| hw.cq.poll()) else {
                break;
            };
            found += 1;
            self.complete(inner, cqe);
        }
        if found != 0 {
            inner.completions = inner.completions.wrapping_add(found.into());
            if let Some(hw) = inner.hw.as_ref().filter(|_| !inner.mute) {
                if let Err(error) = hw.cq.publish(&inner.area.records) {
                    inner.break_up(Cause::Driver(error));
                }
            }
        }
        found
    }

    /// Handles everything that is in the CQ, without posting. For a QP that is about to be reset or
    /// was just reset.
    pub(super) fn drain(&self, inner: &mut Inner) {
        // One lap and one batch are more than a QP of this size can leave behind.
        let limit = inner
            .hw
            .as_ref()
            .map_or(0, |hw| hw.cq.entries() / BATCH + 1);
        for _ in 0..limit {
            if self.poll(inner) == 0 {
                return;
            }
        }
    }

    /// Handles one completion. A number in it counts only if it names something that is posted.
    fn complete(&self, inner: &mut Inner, cqe: Cqe) {
        let Some(hw) = inner.hw.as_mut() else { return };
        let number = hw.qp.number();
        match cqe {
            Cqe::Requester {
                qpn, wqe_counter, ..
            } if qpn == number => {
                let Some(upto) = hw.qp.sq().locate(wqe_counter) else {
                    return self.malformed(inner, "send completion", wqe_counter.into());
                };
                let mut at = hw.qp.sq().tail();
                let count = hw.qp.sent(upto);
                let now = now_ns();
                for _ in 0..count {
                    let slot = hw_slot(inner, at);
                    at = at.plus(1);
                    let Some(posted) = inner.posted.get_mut(slot).and_then(Option::take) else {
                        continue;
                    };
                    let ns = now.saturating_sub(posted.ns);
                    let result = inner.flow.completed(posted.ticket, ns, &inner.area);
                    inner.backoff.succeeded();
                    self.judge(inner, result);
                }
            }
            Cqe::Responder {
                qpn,
                wqe_counter,
                byte_cnt,
                kind,
                ..
            } if qpn == number => {
                let Some(upto) = hw.qp.rq().locate(wqe_counter) else {
                    return self.malformed(inner, "receive completion", wqe_counter.into());
                };
                // Receives of an RC QP are used in order.
                if hw.qp.rq().tail() != upto {
                    return self.malformed(inner, "receive completion", wqe_counter.into());
                }
                // CAST: a slot of at most 2^15.
                let slot = hw.qp.rq().slot(upto) as u32;
                hw.qp.received(upto);
                let immediate = match kind {
                    Received::Send | Received::SendInvalidate(_) => None,
                    Received::SendImm(value) => Some(value),
                    Received::WriteImm(value) => {
                        return self.malformed(inner, "WRITE with immediate", value);
                    }
                };
                let result = inner.flow.received(slot, byte_cnt, immediate, &inner.area);
                self.judge(inner, result);
            }
            Cqe::RequesterError { qpn, syndrome, .. } if qpn == number => {
                self.failed(inner, syndrome, true);
            }
            Cqe::ResponderError { qpn, syndrome, .. } if qpn == number => {
                self.failed(inner, syndrome, false);
            }
            Cqe::Requester { qpn, .. }
            | Cqe::Responder { qpn, .. }
            | Cqe::RequesterError { qpn, .. }
            | Cqe::ResponderError { qpn, .. } => self.malformed(inner, "QP number", qpn),
            Cqe::Resize => self.malformed(inner, "resize completion", 0),
            Cqe::Malformed { opcode, .. } => self.malformed(inner, "opcode", opcode.into()),
        }
    }

    fn failed(&self, inner: &mut Inner, syndrome: CqeSyndrome, requester: bool) {
        if let Some(hw) = inner.hw.as_mut() {
            hw.qp.found_in_error();
        }
        // What is flushed says nothing new, unless it is the first that is seen.
        inner.break_up(match requester {
            true => Cause::Requester(syndrome),
            false => Cause::Responder(syndrome),
        });
    }

    fn malformed(&self, inner: &mut Inner, what: &'static str, value: u32) {
        inner.malformed = inner.malformed.wrapping_add(1);
        inner.break_up(Cause::Malformed(what, value));
    }

    /// Reports a wrong byte. The run goes on, so that one fault does not hide others.
    fn judge(&self, inner: &mut Inner, result: Result<(), Fault>) {
        let Err(fault) = result else { return };
        // A few lines name the fault; the rest is in the count.
        if inner.flow.tally.faults <= FAULT_LINES {
            dev_err!(
                self.device.pdev,
                "channel {}: data check error: {}\n",
                self.index,
                format_args!("{fault}")
            );
        }
    }

    /// Posts receives and sends as far as there is room.
    pub(super) fn post(&self, inner: &mut Inner) {
        if let Err(error) = self.try_post(inner) {
            inner.break_up(Cause::Driver(error));
        }
    }

    fn try_post(&self, inner: &mut Inner) -> Result {
        let Some(hw) = inner.hw.as_mut() else {
            return Ok(());
        };
        if hw.qp.state().takes_receives() && hw.qp.state() != QpState::Error {
            let mut posted = false;
            while let Some(slot) = hw.qp.next_receive() {
                // CAST: a slot of at most 2^15.
                let at = layout::RECEIVE + slot as u32 * layout::RECV_BYTES;
                hw.qp.post_receive(&Sge {
                    addr: hw.local.start().wrapping_add(at.into()),
                    lkey: hw.local.key(),
                    len: layout::RECV_BYTES,
                })?;
                posted = true;
            }
            if posted {
                hw.qp.publish_receives(&inner.area.records)?;
            }
        }
        if hw.qp.state() != QpState::Rts {
            return Ok(());
        }
        let over = inner.run.as_ref().is_some_and(|run| run.is_over());
        if over {
            inner.flow.stop();
        }
        while hw.qp.sq().free() != 0 {
            let Some((request, ticket)) = inner.flow.next(&inner.area) else {
                break;
            };
            let slot = hw.qp.post_send(&request, Signal::Completion)?;
            if let Some(place) = inner.posted.get_mut(slot) {
                *place = Some(Posted {
                    ticket,
                    ns: now_ns(),
                });
            }
        }
        hw.qp.ring(&inner.area.records)
    }
}

/// Lines about wrong bytes per channel and run.
const FAULT_LINES: u64 = 4;

fn hw_slot(inner: &Inner, at: mlx5_hw::ring::Counter) -> usize {
    inner
        .hw
        .as_ref()
        .map_or(usize::MAX, |hw| hw.qp.sq().slot(at))
}

impl Inner {
    /// Whether this channel looks for completions without waiting for events.
    fn polls(&self) -> bool {
        self.run
            .as_ref()
            .is_some_and(|run| run.options.mode == Mode::Poll && run.is_active())
            && self.connection.is_some()
    }

    /// Asks for an event, and says whether there is something already.
    fn arm(&mut self, events: u32) -> Result<bool> {
        let Some(hw) = &self.hw else {
            return Ok(false);
        };
        hw.cq.arm(&self.area.records, events)?;
        Ok(hw.cq.is_ready())
    }

    /// Leaves the run when there is nothing left to do for it.
    pub(super) fn finish_run(&mut self) {
        if self.entered && self.flow.is_done() {
            self.entered = false;
            if let Some(run) = &self.run {
                run.leave();
            }
        }
    }
}
