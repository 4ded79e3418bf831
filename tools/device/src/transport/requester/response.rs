// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the responder says: acknowledgements, NAKs, data of READs and atomics.

use super::{
    recover::{arm, fail_oldest, lost, set_timer}, //
    settle,
    Requester,
    INFINITE,
    WINDOW,
};
use crate::{
    hca::Hca,
    qp::{wqe::Op, Qp, State},
    sched::Work,
    transport::{count, local, memory},
    violation::Failure,
};
use mlx5_hw::status::Syndrome;
use roce::{
    rnr_delay, //
    Headers,
    Mtu,
    Nak,
    Operation,
    Psn,
    Syndrome as Verdict,
};

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
    requester.window = (requester.window * 2).min(WINDOW);
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
pub(in crate::transport) fn response(
    hca: &mut Hca,
    qp: &mut Qp,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), &'static str> {
    if !qp.kind.is_reliable() || qp.state != State::Rts {
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
    hca.sched.push(Work::Qp(qp.qpn));
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
        return fail_oldest(hca, qp, Syndrome::RnrRetryExceeded);
    }
    // Those that use up the retries are counted as such. Source: the maker's list of counters.
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.rnr_nak_retry_err = counters.rnr_nak_retry_err.wrapping_add(1);
    });
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
        Err(failure) => {
            flight.error = Some(failure);
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
) -> Result<(), Failure> {
    let flight = &qp.requester.flight[index];
    let bad = Err(Syndrome::BadResponse.into());
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
            fault.violation().into()
        })
}
