// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending side of connected QPs (and the local requests of all).
//!
//! Requests are fetched into a flight list. `cursor` and `sent` say where in it the next packet is
//! made; going back after a loss only moves them. A request keeps its PSNs once it has them.

use super::{
    count, //
    flush,
    local,
    memory,
    packet::{self, Load},
    Timer,
};
use crate::{
    cq::{Completion, Cqe},
    hca::Hca,
    qp::{
        wqe::{Op, Report, MAX_WQE},
        Attributes, Flight, Kind, Qp, State,
    },
};
use mlx5_hw::{raw, status::Syndrome};
use roce::{
    rnr_delay, //
    AtomicEth,
    Ext,
    Headers,
    Mtu,
    Nak,
    Opcode,
    Operation,
    Position,
    Psn,
    Reth,
    Service,
    Syndrome as Verdict,
};
use std::{collections::VecDeque, time::Duration};

/// Requests fetched at most.
const MAX_FLIGHT: usize = 256;
/// Request packets without acknowledgement at most.
const WINDOW: i32 = 128;
/// An acknowledgement is asked for after this many packets of a message.
const ACK_EVERY: u32 = 32;
/// PSNs in flight at most: order is defined up to 2^23.
const PSN_SPAN: u32 = (1 << 23) - 1;
/// Retry count that means for ever.
const INFINITE: u8 = 7;
/// The specification lets the timer run for one to four times the programmed value; two leaves
/// room for a busy host.
const TIMEOUT_FACTOR: u32 = 2;

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
        if qp.state != State::Rts || !step(hca, qp) {
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
    let mut error = None;
    let wqe = match parsed {
        Ok(wqe) => wqe,
        Err(bad) => {
            tracing::error!("QP {:#x}: request {}: {bad}", qp.qpn, control.index);
            error = Some(Syndrome::LocalQpOp);
            crate::qp::wqe::Wqe::empty(control)
        }
    };
    let limit = 1u64 << qp.attr.log_msg_max.min(31);
    if error.is_none() && !wqe.op.is_local() && wqe.data.len() > limit {
        let len = wqe.data.len();
        tracing::error!("QP {:#x}: message of {len} bytes, at most {limit}", qp.qpn);
        error = Some(Syndrome::LocalLength);
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
    if qp.kind != Kind::Rc || wqe.op.is_local() {
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
    ahead < WINDOW && (fits || requester.una == position)
}

/// Makes the packet at the cursor.
fn transmit(hca: &mut Hca, qp: &mut Qp) -> bool {
    let Some(mtu) = qp.attr.mtu else {
        return false;
    };
    let cursor = qp.requester.cursor;
    let sent = qp.requester.sent;
    if qp.requester.flight[cursor].first.is_none() {
        let first = qp.requester.next_psn;
        let flight = &mut qp.requester.flight[cursor];
        flight.first = Some(first);
        qp.requester.next_psn = first.plus(flight.packets);
    }
    let flight = &qp.requester.flight[cursor];
    let psn = flight.first.unwrap_or_default().plus(sent);
    let is_read = flight.wqe.op.is_read_or_atomic();
    let load = load(qp, flight, mtu, sent, psn);
    let mut frame = hca.transport.frame();
    if is_read {
        frame.payload_mut(0);
    } else {
        let offset = u64::from(sent) * mtu.bytes() as u64;
        let left = flight.wqe.data.len() - offset.min(flight.wqe.data.len());
        // CAST: at most 4096.
        let len = left.min(mtu.bytes() as u64) as usize;
        let buf = frame.payload_mut(len);
        let fetched = flight
            .wqe
            .data
            .gather(&mut memory(hca), qp.owner(), offset, buf);
        if let Err(fault) = fetched {
            let index = flight.wqe.control.index;
            tracing::error!(
                "Local Protection Error: QP {:#x} request {index}: {fault}",
                qp.qpn
            );
            hca.transport.recycle(frame);
            qp.requester.flight[cursor].error = Some(Syndrome::LocalProtection);
            settle(hca, qp);
            return false;
        }
    }
    let Some(headers) = packet::headers(hca, &qp.attr.path, load) else {
        // Counts as sent: the timer finds out that nobody answers.
        packet::no_source(hca, qp);
        hca.transport.recycle(frame);
        after_packet(hca, qp, is_read);
        return true;
    };
    packet::emit(hca, headers, frame, None);
    after_packet(hca, qp, is_read);
    true
}

fn after_packet(hca: &mut Hca, qp: &mut Qp, is_read: bool) {
    let cursor = qp.requester.cursor;
    let flight = &qp.requester.flight[cursor];
    let packets = flight.packets;
    let all = is_read || qp.requester.sent + 1 >= packets;
    if all {
        next(qp);
    } else {
        qp.requester.sent += 1;
    }
    if qp.kind == Kind::Rc {
        if qp.requester.deadline.is_none() {
            arm(hca, qp);
        }
    } else if all {
        // Unreliable: sent is done.
        if let Some(flight) = qp.requester.flight.get_mut(cursor) {
            flight.done = true;
        }
        qp.requester.una = qp.requester.next_psn;
        settle(hca, qp);
    }
}

/// The transport part of packet `sent` of a request.
fn load(qp: &Qp, flight: &Flight, mtu: Mtu, sent: u32, psn: Psn) -> Load {
    let wqe = &flight.wqe;
    let first = sent == 0;
    let last = sent + 1 >= flight.packets;
    let at = Position::of(first, last);
    let skip = u64::from(sent) * mtu.bytes() as u64;
    let mut ext = Ext::default();
    let reth = |va: u64, rkey: u32, skip: u64| Reth {
        va: va.wrapping_add(skip),
        rkey,
        // CAST: bounded by the longest message.
        len: wqe.data.len().saturating_sub(skip) as u32,
    };
    let operation = match wqe.op {
        Op::Send => Operation::Send(at),
        Op::SendImm => {
            ext.imm = last.then_some(wqe.control.imm);
            Operation::SendImm(at)
        }
        Op::SendInv => {
            ext.invalidate = last.then(|| u32::from_be_bytes(wqe.control.imm));
            Operation::SendInv(at)
        }
        Op::Write { va, rkey } => {
            ext.reth = first.then(|| reth(va, rkey, 0));
            Operation::Write(at)
        }
        Op::WriteImm { va, rkey } => {
            ext.reth = first.then(|| reth(va, rkey, 0));
            ext.imm = last.then_some(wqe.control.imm);
            Operation::WriteImm(at)
        }
        Op::Read { va, rkey } => {
            ext.reth = Some(reth(va, rkey, skip));
            Operation::ReadRequest
        }
        Op::CompareSwap {
            va,
            rkey,
            swap,
            compare,
        } => {
            ext.atomic = Some(AtomicEth {
                va,
                rkey,
                swap_or_add: swap,
                compare,
            });
            Operation::CompareSwap
        }
        Op::FetchAdd { va, rkey, add } => {
            ext.atomic = Some(AtomicEth {
                va,
                rkey,
                swap_or_add: add,
                compare: 0,
            });
            Operation::FetchAdd
        }
        // Local requests do not come here.
        Op::Nop | Op::Umr => Operation::Send(at),
    };
    let service = if qp.kind == Kind::Uc {
        Service::Uc
    } else {
        Service::Rc
    };
    let is_read = wqe.op.is_read_or_atomic();
    Load {
        opcode: Opcode { service, operation },
        psn,
        dest_qp: qp.attr.remote_qpn,
        solicited: wqe.control.solicited && last && !is_read,
        ack_req: service == Service::Rc && (last || is_read || sent % ACK_EVERY == ACK_EVERY - 1),
        ext,
    }
}

/// Starts the acknowledgement timer, or stops it when nothing is outstanding.
fn arm(hca: &mut Hca, qp: &mut Qp) {
    let outstanding = qp.requester.una != qp.requester.next_psn;
    let due = qp
        .attr
        .ack_timeout
        .filter(|_| outstanding)
        .map(|timeout| hca.env.now() + timeout * TIMEOUT_FACTOR);
    qp.requester.deadline = due;
    if let Some(due) = due {
        set_timer(hca, qp, due);
    }
}

/// Makes sure that the QP is woken at `due` or earlier.
fn set_timer(hca: &mut Hca, qp: &mut Qp, due: Duration) {
    if qp.requester.timer.is_none_or(|timer| timer > due) {
        qp.requester.timer = Some(due);
        hca.transport.at(due, Timer::Qp(qp.qpn));
    }
}

/// A timer of the QP has run out, or an old one has.
pub(super) fn expire(hca: &mut Hca, qp: &mut Qp, now: Duration) {
    if qp.requester.timer.is_some_and(|timer| timer <= now) {
        qp.requester.timer = None;
    }
    match qp.requester.wait {
        Some(until) if until > now => return set_timer(hca, qp, until),
        _ => qp.requester.wait = None,
    }
    match qp.requester.deadline {
        None => return,
        Some(due) if due > now => return set_timer(hca, qp, due),
        Some(_) => {}
    }
    qp.requester.deadline = None;
    if qp.requester.una == qp.requester.next_psn {
        return;
    }
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.local_ack_timeout_err = counters.local_ack_timeout_err.wrapping_add(1);
    });
    count(hca, "ack_timeout");
    retry(hca, qp);
}

/// The responder, or a gap in its answers, says that `una` was lost. Said once is enough, and
/// nothing is sent while the other side is not ready.
fn lost(hca: &mut Hca, qp: &mut Qp) {
    let una = qp.requester.una;
    if qp.requester.wait.is_none() && qp.requester.recovering != Some(una) {
        qp.requester.recovering = Some(una);
        retry(hca, qp);
    }
}

/// Sends again from the first PSN that is not acknowledged, if retries are left.
fn retry(hca: &mut Hca, qp: &mut Qp) {
    if qp.requester.retries == 0 {
        return fail_oldest(hca, qp, Syndrome::RetryExceeded);
    }
    qp.requester.retries -= 1;
    if qp.requester.go_back(qp.requester.una) {
        qp.requester.deadline = None;
        arm(hca, qp);
        hca.sched.push(crate::sched::Work::Qp(qp.qpn));
    }
}

/// The request that waits for `una` fails.
fn fail_oldest(hca: &mut Hca, qp: &mut Qp, syndrome: Syndrome) {
    let una = qp.requester.una;
    if qp.requester.go_back(una) {
        let cursor = qp.requester.cursor;
        qp.requester.flight[cursor].error = Some(syndrome);
    }
    settle(hca, qp);
}

/// Reports what is done, oldest first; a failed request that has become the oldest fails the QP.
pub(super) fn settle(hca: &mut Hca, qp: &mut Qp) {
    while let Some(flight) = qp.requester.flight.front() {
        if let Some(syndrome) = flight.error {
            let control = flight.wqe.control;
            qp.requester.flight.pop_front();
            flush::send_error(hca, qp, &control, syndrome);
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

/// Everything before `psn` is acknowledged.
fn acknowledge(hca: &mut Hca, qp: &mut Qp, psn: Psn) {
    let requester = &mut qp.requester;
    if psn.since(requester.una) <= 0 {
        return;
    }
    // After going back the cursor may stand before what has just been acknowledged.
    let behind = requester.position().before(psn);
    requester.una = psn;
    requester.recovering = None;
    for flight in &mut requester.flight {
        match flight.end() {
            Some(end) if end.since(psn) <= 0 => {
                if !flight.wqe.op.is_read_or_atomic() {
                    flight.done = true;
                }
            }
            None if flight.done => {}
            _ => break,
        }
    }
    if behind && !requester.go_back(psn) {
        requester.cursor = requester
            .flight
            .iter()
            .take_while(|flight| flight.first.is_some() || flight.done)
            .count();
        requester.sent = 0;
    }
    requester.retries = qp.attr.retry_count;
    requester.rnr_retries = qp.attr.rnr_retry;
    settle(hca, qp);
    if qp.state == State::Rts {
        arm(hca, qp);
    }
}

/// The first READ or atomic before `psn` that is sent and has no full answer: the PSN it waits for.
fn unanswered(requester: &Requester, psn: Psn) -> Option<Psn> {
    requester
        .flight
        .iter()
        .filter(|flight| flight.wqe.op.is_read_or_atomic() && !flight.done)
        .find_map(|flight| {
            let waits = flight.first?.plus(flight.received);
            waits.before(psn).then_some(waits)
        })
}

/// A packet from the responder: acknowledgement, READ response or atomic response.
pub(super) fn response(
    hca: &mut Hca,
    qp: &mut Qp,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), &'static str> {
    if qp.kind != Kind::Rc || qp.state != State::Rts {
        return Err("qp_not_ready");
    }
    let psn = headers.bth.psn;
    if psn.since(qp.requester.next_psn) >= 0 {
        return Err("response_not_asked_for");
    }
    if psn.before(qp.requester.una) {
        return Err("duplicate_response");
    }
    match headers.bth.opcode.operation {
        Operation::Ack => verdict(hca, qp, psn, headers),
        Operation::AtomicAck | Operation::ReadResponse(_) => data(hca, qp, psn, headers, payload),
        _ => return Err("wrong_service"),
    }
    hca.sched.push(crate::sched::Work::Qp(qp.qpn));
    Ok(())
}

fn verdict(hca: &mut Hca, qp: &mut Qp, psn: Psn, headers: &Headers) {
    let Some(aeth) = headers.ext.aeth else {
        return;
    };
    let good = match aeth.syndrome {
        Verdict::Ack(_) => psn.plus(1),
        _ => psn,
    };
    if let Some(waits) = unanswered(&qp.requester, good) {
        // A later packet is acknowledged: the answer to the READ was lost.
        acknowledge(hca, qp, waits);
        hca.count_q(qp.attr.counter_set.into(), |counters| {
            counters.implied_nak_seq_err = counters.implied_nak_seq_err.wrapping_add(1);
        });
        count(hca, "implied_nak");
        return lost(hca, qp);
    }
    acknowledge(hca, qp, good);
    if qp.state != State::Rts {
        return;
    }
    match aeth.syndrome {
        Verdict::Ack(_) => {}
        Verdict::Rnr(timer) => not_ready(hca, qp, timer),
        Verdict::Nak(Nak::Sequence) => {
            hca.count_q(qp.attr.counter_set.into(), |counters| {
                counters.packet_seq_err = counters.packet_seq_err.wrapping_add(1);
            });
            count(hca, "packet_seq_err");
            lost(hca, qp);
        }
        Verdict::Nak(Nak::InvalidRequest) => {
            fail_oldest(hca, qp, Syndrome::RemoteInvalidRequest);
        }
        Verdict::Nak(Nak::RemoteAccess) => fail_oldest(hca, qp, Syndrome::RemoteAccess),
        Verdict::Nak(Nak::RemoteOperation) => fail_oldest(hca, qp, Syndrome::RemoteOperation),
        Verdict::Reserved(_) => fail_oldest(hca, qp, Syndrome::BadResponse),
    }
}

/// The responder has no receive request: wait, then send again.
fn not_ready(hca: &mut Hca, qp: &mut Qp, timer: u8) {
    count(hca, "rnr_nak_received");
    if qp.requester.rnr_retries == 0 {
        hca.count_q(qp.attr.counter_set.into(), |counters| {
            counters.rnr_nak_retry_err = counters.rnr_nak_retry_err.wrapping_add(1);
        });
        return fail_oldest(hca, qp, Syndrome::RnrRetryExceeded);
    }
    if qp.attr.rnr_retry != INFINITE {
        qp.requester.rnr_retries -= 1;
    }
    let una = qp.requester.una;
    if !qp.requester.go_back(una) {
        return;
    }
    let until = hca.env.now() + rnr_delay(timer);
    qp.requester.wait = Some(until);
    qp.requester.deadline = None;
    set_timer(hca, qp, until);
}

/// Data of a READ or an atomic operation.
fn data(hca: &mut Hca, qp: &mut Qp, psn: Psn, headers: &Headers, payload: &[u8]) {
    let found = qp.requester.flight.iter().position(|flight| {
        flight.wqe.op.is_read_or_atomic() && !flight.done && flight.first.is_some()
    });
    let Some(index) = found else {
        return count(hca, "response_not_asked_for");
    };
    let flight = &qp.requester.flight[index];
    let waits = flight.first.unwrap_or_default().plus(flight.received);
    match psn.since(waits) {
        0 => {}
        early if early < 0 => return count(hca, "duplicate_response"),
        _ => {
            // Responses before this one were lost.
            acknowledge(hca, qp, waits);
            hca.count_q(qp.attr.counter_set.into(), |counters| {
                counters.implied_nak_seq_err = counters.implied_nak_seq_err.wrapping_add(1);
            });
            count(hca, "implied_nak");
            return lost(hca, qp);
        }
    }
    let before = qp.requester.flight.len();
    acknowledge(hca, qp, waits);
    if qp.state != State::Rts {
        return;
    }
    // Requests before the READ may just have been reported.
    let index = index - (before - qp.requester.flight.len()).min(index);
    let outcome = store(hca, qp, index, headers, payload);
    let flight = &mut qp.requester.flight[index];
    match outcome {
        Ok(()) => {
            flight.received += 1;
            flight.done = flight.received >= flight.packets;
            if flight.done {
                qp.requester.reads = qp.requester.reads.saturating_sub(1);
            }
            acknowledge(hca, qp, psn.plus(1));
        }
        Err(syndrome) => {
            flight.error = Some(syndrome);
            settle(hca, qp);
        }
    }
}

fn store(
    hca: &mut Hca,
    qp: &Qp,
    index: usize,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), Syndrome> {
    let flight = &qp.requester.flight[index];
    let bad = Err(Syndrome::BadResponse);
    let atomic;
    let (bytes, offset): (&[u8], u64) = match (headers.bth.opcode.operation, &flight.wqe.op) {
        (Operation::AtomicAck, Op::CompareSwap { .. } | Op::FetchAdd { .. }) => {
            let Some(old) = headers.ext.atomic_ack else {
                return bad;
            };
            atomic = local::atomic_result(hca, old);
            (&atomic, 0)
        }
        (Operation::ReadResponse(_), Op::Read { .. }) => {
            let mtu = qp.attr.mtu.map_or(0, Mtu::bytes) as u64;
            let offset = u64::from(flight.received) * mtu;
            let expected = flight.wqe.data.len().saturating_sub(offset).min(mtu);
            if payload.len() as u64 != expected {
                return bad;
            }
            (payload, offset)
        }
        _ => return bad,
    };
    let data = &flight.wqe.data;
    data.scatter(&mut memory(hca), qp.owner(), offset, bytes)
        .map_err(|fault| {
            let index = flight.wqe.control.index;
            tracing::error!(
                "Local Protection Error: QP {:#x} request {index}: {fault}",
                qp.qpn
            );
            Syndrome::LocalProtection
        })
}
