// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending side of connected QPs (and the local requests of all).
//!
//! Requests are fetched into a flight list. `cursor` and `sent` say where in it the next packet is
//! made; going back after a loss only moves them. A request keeps its PSNs once it has them.

mod recover;
mod response;
mod transmit;

pub(super) use recover::expire;
pub(super) use response::response;

use super::{
    flush, //
    local,
    notify,
};
use crate::{
    cq::{Completion, Cqe},
    hca::Hca,
    qp::{
        wqe::{Op, Report, MAX_WQE},
        Attributes, Flight, Qp, State,
    },
    violation::{Failure, Violation},
};
use mlx5_hw::raw;
use roce::Psn;
use std::{collections::VecDeque, time::Duration};
use transmit::transmit;

/// Requests fetched at most.
const MAX_FLIGHT: usize = 256;
/// Request packets without acknowledgement at most.
const WINDOW: i32 = 128;
/// The same after a timeout: the other side may be slow rather than deaf, and a full window sent
/// again would keep it so.
const SLOW_WINDOW: i32 = 8;
/// An acknowledgement is asked for after this many packets of a message.
const ACK_EVERY: u32 = 32;
/// PSNs in flight at most: order is defined up to 2^23.
const PSN_SPAN: u32 = (1 << 23) - 1;
/// Retry count that means for ever.
const INFINITE: u8 = 7;

/// State of the sending side.
#[derive(Debug, Default)]
pub struct Requester {
    /// Requests fetched and not reported, oldest first.
    pub flight: VecDeque<Flight>,
    /// Index in `flight` of the request to send from.
    pub cursor: usize,
    /// Packets of it already sent.
    pub sent: u32,
    /// PSN of the next new request.
    pub next_psn: Psn,
    /// First PSN not acknowledged.
    pub una: Psn,
    /// Retries left after timeouts and sequence errors.
    pub retries: u8,
    /// Retries left after receiver-not-ready.
    pub rnr_retries: u8,
    /// Receiver not ready: nothing is sent before.
    wait: Option<Duration>,
    /// When the oldest packet counts as lost.
    deadline: Option<Duration>,
    /// Packets that may be without acknowledgement: few after a timeout, then more and more.
    window: i32,
    /// Going back to this PSN is under way: what else says that it was lost is no news.
    recovering: Option<Psn>,
    /// The earliest timer that is set.
    timer: Option<Duration>,
    /// READs and atomics in `flight` that are not answered.
    reads: u32,
}

impl Requester {
    /// The QP becomes ready to send.
    pub fn start(&mut self, attr: &Attributes) {
        self.next_psn = attr.next_send_psn;
        self.una = attr.next_send_psn;
        self.window = WINDOW;
        self.retries = attr.retry_count;
        self.rnr_retries = attr.rnr_retry;
    }

    /// The QP failed: timers mean nothing any more.
    pub(super) fn stop(&mut self) {
        self.wait = None;
        self.deadline = None;
        self.cursor = 0;
        self.sent = 0;
    }

    /// READs and atomics that are sent and not answered, and the PSNs their answers take.
    fn open_reads(&self) -> (u32, u32) {
        if self.reads == 0 {
            return (0, 0);
        }
        let sent = self.cursor + usize::from(self.sent > 0);
        self.flight
            .iter()
            .take(sent)
            .filter(|flight| flight.wqe.op.is_read_or_atomic() && !flight.done)
            .fold((0, 0), |(count, span), flight| {
                (count + 1, span + flight.packets - flight.received)
            })
    }

    /// PSN of the packet at the cursor.
    fn position(&self) -> Psn {
        match self.flight.get(self.cursor).and_then(|flight| flight.first) {
            Some(first) => first.plus(self.sent),
            None => self.next_psn,
        }
    }

    /// Goes back to `psn`, which is in flight; false when it is not.
    fn go_back(&mut self, psn: Psn) -> bool {
        for (index, flight) in self.flight.iter().enumerate() {
            let Some(first) = flight.first else {
                if flight.done {
                    continue;
                }
                return false;
            };
            let at = psn.since(first);
            // CAST: not negative, and packets are below 2^23.
            if at >= 0 && (at as u32) < flight.packets {
                self.cursor = index;
                self.sent = at as u32;
                return true;
            }
        }
        false
    }
}

/// Sends up to `burst` packets; whether there is more to do now.
pub(super) fn send(hca: &mut Hca, qp: &mut Qp, burst: u32) -> bool {
    if qp.requester.wait.is_some_and(|until| until > hca.env.now()) {
        return false;
    }
    qp.requester.wait = None;
    for _ in 0..burst {
        if qp.state != State::Rts || notify::must_wait(hca, qp) || !step(hca, qp) {
            return false;
        }
    }
    qp.state == State::Rts
}

/// One packet or one local request; false when nothing can be done now.
fn step(hca: &mut Hca, qp: &mut Qp) -> bool {
    let requester = &mut qp.requester;
    if requester.cursor >= requester.flight.len()
        && (requester.flight.len() >= MAX_FLIGHT || !fetch(hca, qp))
    {
        return false;
    }
    let Some(flight) = qp.requester.flight.get(qp.requester.cursor) else {
        return false;
    };
    if flight.error.is_some() {
        // Behind a failed request nothing is sent.
        return false;
    }
    if flight.done && flight.first.is_none() {
        next(qp);
        return true;
    }
    if !may_start(qp) {
        return false;
    }
    if qp.requester.flight[qp.requester.cursor].wqe.op.is_local() {
        local::run(hca, qp);
        return qp.state == State::Rts;
    }
    transmit(hca, qp)
}

fn next(qp: &mut Qp) {
    qp.requester.cursor += 1;
    qp.requester.sent = 0;
}

/// Fetches the next posted request; false when there is none.
fn fetch(hca: &mut Hca, qp: &mut Qp) -> bool {
    let mut raw = [0; MAX_WQE];
    let (control, parsed) = match qp.fetch(&mut hca.env, &mut raw) {
        Ok(fetched) => fetched,
        Err(crate::qp::FetchError::Empty) => return false,
        Err(error) => {
            tracing::error!("QP {:#x}: {error}", qp.qpn);
            flush::catastrophe(hca, qp);
            return false;
        }
    };
    let mut error: Option<Failure> = None;
    let wqe = match parsed {
        Ok(wqe) => wqe,
        Err(bad) => {
            tracing::error!("QP {:#x}: request {}: {bad}", qp.qpn, control.index);
            error = Some(bad.violation().into());
            crate::qp::wqe::Wqe::empty(control)
        }
    };
    let limit = 1u64 << qp.attr.log_msg_max.min(31);
    if error.is_none() && !wqe.op.is_local() && wqe.data.len() > limit {
        let len = wqe.data.len();
        tracing::error!("QP {:#x}: message of {len} bytes, at most {limit}", qp.qpn);
        error = Some(Violation::MessageLength.into());
    }
    if wqe.op == Op::Umr && error.is_none() {
        qp.requester.flight.push_back(Flight {
            // PANIC: `fetch` has parsed that many bytes.
            umr: raw[..usize::from(control.ds) * 16].to_vec(),
            ..Flight::new(wqe, 0)
        });
        return true;
    }
    let packets = match (qp.attr.mtu, &wqe.op) {
        (_, Op::CompareSwap { .. } | Op::FetchAdd { .. }) => 1,
        // CAST: bounded by the longest message, 2^31.
        (Some(mtu), _) => mtu.packets(wqe.data.len().min(limit) as u32),
        (None, _) => 1,
    };
    if wqe.op.is_read_or_atomic() {
        qp.requester.reads += 1;
    }
    let mut flight = Flight::new(wqe, packets);
    flight.error = error;
    qp.requester.flight.push_back(flight);
    if error.is_some() {
        settle(hca, qp);
    }
    true
}

/// Whether the request at the cursor may send its next packet now.
fn may_start(qp: &Qp) -> bool {
    let requester = &qp.requester;
    let (reads, span) = requester.open_reads();
    let Some(flight) = requester.flight.get(requester.cursor) else {
        return false;
    };
    let wqe = &flight.wqe;
    if requester.sent == 0 {
        // Fences 2 and up wait for READs and atomics; the small one is kept by working in order.
        if wqe.control.fence >= 2 && reads > 0 {
            return false;
        }
        if wqe.op.is_read_or_atomic() && reads >= qp.attr.max_initiated {
            return false;
        }
        // A key must not change under requests that may have to be sent again.
        if wqe.op == Op::Umr && requester.cursor > 0 {
            return false;
        }
    }
    if !qp.kind.is_reliable() || wqe.op.is_local() {
        return true;
    }
    let position = requester.position();
    let ahead = position.since(requester.una);
    // CAST: below 2^23.
    let ahead = ahead.saturating_sub(span as i32);
    let fits = position.plus(flight.packets).since(requester.una) > 0
        && u32::try_from(position.since(requester.una)).is_ok_and(|ahead| {
            ahead
                .checked_add(flight.packets)
                .is_some_and(|end| end < PSN_SPAN)
        });
    ahead < qp.requester.window && (fits || requester.una == position)
}

/// Reports what is done, oldest first; a failed request that has become the oldest fails the QP.
pub(super) fn settle(hca: &mut Hca, qp: &mut Qp) {
    while let Some(flight) = qp.requester.flight.front() {
        if let Some(failure) = flight.error {
            let control = flight.wqe.control;
            qp.requester.flight.pop_front();
            flush::send_error(hca, qp, &control, failure);
            flush::fail_send(hca, qp);
            return;
        }
        if !flight.done {
            return;
        }
        let control = flight.wqe.control;
        let byte_count = if flight.wqe.op.is_read_or_atomic() {
            // CAST: bounded by the longest message.
            flight.wqe.data.len() as u32
        } else {
            0
        };
        qp.requester.flight.pop_front();
        if qp.requester.cursor == 0 {
            qp.requester.sent = 0;
        }
        qp.requester.cursor = qp.requester.cursor.saturating_sub(1);
        if control.report == Report::Always {
            let cqe = Cqe::good(Completion {
                // CAST: four bits.
                opcode: raw::MLX5_CQE_REQ as u8,
                qpn: qp.qpn,
                user_index: qp.attr.user_index,
                wqe_opcode: control.opcode,
                wqe_counter: control.index,
                byte_count,
                imm: [0; 4],
                flags_rqpn: 0,
                solicited: false,
                vlan: None,
            });
            hca.complete(qp.send_cqn, cqe);
        }
    }
}
