// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving side of connected QPs.
//!
//! Answers stand in a queue in the order of their PSNs: an acknowledgement behind a READ response
//! that is still being sent waits for it.

use super::{
    count, //
    flush,
    local,
    memory,
    packet::{self, Load},
};
use crate::{
    cq::{Completion, Cqe},
    hca::Hca,
    mkey::Need,
    qp::{Attributes, Kind, Qp, ReceiveError, Received, State},
};
use mlx5_hw::{raw, status::Syndrome};
use roce::{
    Aeth, //
    Ext,
    Headers,
    Nak,
    Opcode,
    Operation,
    Position,
    Psn,
    Reth,
    Syndrome as Verdict,
};
use std::collections::VecDeque;

/// Answers that may wait; more are not remembered (the requester asks again).
const MAX_ANSWERS: usize = 128;

/// A message that is being received.
#[derive(Debug)]
enum Open {
    Send {
        receive: Received,
        offset: u64,
    },
    Write {
        rkey: u32,
        va: u64,
        left: u32,
        total: u32,
    },
}

/// What a READ or an atomic left behind for duplicates.
#[derive(Clone, Copy, Debug)]
struct Resource {
    psn: Psn,
    packets: u32,
    /// Old value of an atomic; `None` for a READ.
    atomic: Option<u64>,
    msn: u32,
}

/// Something to send back.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Verdict {
        psn: Psn,
        verdict: Verdict,
        msn: u32,
    },
    Atomic {
        psn: Psn,
        old: u64,
        msn: u32,
    },
    Read {
        psn: Psn,
        reth: Reth,
        sent: u32,
        packets: u32,
        msn: u32,
    },
    /// The QP fails, now that everything before has been answered.
    Fail,
}

/// State of the receiving side.
#[derive(Debug, Default)]
pub struct Responder {
    /// PSN expected next.
    pub epsn: Psn,
    /// Messages completed, 24 bits.
    pub msn: u32,
    open: Option<Open>,
    /// A NAK for a gap or an RNR NAK is out: what follows is dropped until the gap closes.
    waiting: bool,
    /// A request was refused: the QP fails as soon as the answers are out.
    closed: bool,
    /// A packet has come since the QP became ready.
    established: bool,
    resources: VecDeque<Resource>,
    answers: VecDeque<Answer>,
}

impl Responder {
    /// The QP becomes ready to receive.
    pub fn start(&mut self, attr: &Attributes) {
        self.epsn = attr.next_recv_psn;
    }

    /// The QP failed: nothing is answered any more.
    pub(super) fn stop(&mut self) {
        self.answers.clear();
        self.resources.clear();
    }

    /// Counter of a receive request that is half filled; it is used up.
    pub(super) fn take_open(&mut self) -> Option<u16> {
        match self.open.take()? {
            Open::Send { receive, .. } => Some(receive.counter),
            Open::Write { .. } => None,
        }
    }

    fn advance(&mut self, packets: u32) {
        self.epsn = self.epsn.plus(packets);
    }

    fn message_done(&mut self) {
        self.msn = (self.msn + 1) & 0xff_ffff;
    }

    fn remember(&mut self, resource: Resource, most: u32) {
        self.resources.push_back(resource);
        while self.resources.len() > most as usize {
            self.resources.pop_front();
        }
    }

    fn push(&mut self, answer: Answer) {
        if let (
            Some(Answer::Verdict {
                verdict: Verdict::Ack(_),
                ..
            }),
            Answer::Verdict {
                verdict: Verdict::Ack(_),
                ..
            },
        ) = (self.answers.back(), &answer)
        {
            // One acknowledgement covers all before it.
            self.answers.pop_back();
        }
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back(answer);
        }
    }

    fn open_reads(&self) -> u32 {
        let reads = self
            .answers
            .iter()
            .filter(|answer| matches!(answer, Answer::Read { .. }));
        // CAST: at most MAX_ANSWERS.
        reads.count() as u32
    }
}

/// How a request ends that does not just succeed.
enum End {
    /// Negative acknowledgement; the QP fails. A receive request in use gets the syndrome.
    Nak(Nak, Option<Syndrome>),
    /// No receive request.
    NotReady,
}

/// A request packet for a connected QP.
pub(super) fn request(hca: &mut Hca, qp: &mut Qp, headers: &Headers, payload: &[u8]) {
    if qp.responder.closed {
        return;
    }
    if !qp.responder.established {
        qp.responder.established = true;
        if qp.state == State::Rtr {
            flush::event(hca, qp, raw::MLX5_EVENT_TYPE_COMM_EST);
        }
    }
    if qp.kind == Kind::Uc {
        return unreliable(hca, qp, headers, payload);
    }
    let psn = headers.bth.psn;
    let distance = psn.since(qp.responder.epsn);
    if distance > 0 {
        return gap(hca, qp);
    }
    if distance < 0 {
        return duplicate(hca, qp, headers);
    }
    let waited = std::mem::take(&mut qp.responder.waiting);
    match execute(hca, qp, headers, payload) {
        Ok(()) => {}
        Err(End::NotReady) => {
            qp.responder.waiting = true;
            if !waited {
                tracing::debug!("QP {:#x}: no receive request", qp.qpn);
            }
            hca.count_q(qp.attr.counter_set.into(), |counters| {
                counters.out_of_buffer = counters.out_of_buffer.wrapping_add(1);
            });
            count(hca, "rnr_nak_sent");
            let timer = Verdict::Rnr(qp.attr.min_rnr_nak);
            verdict(qp, psn, timer);
        }
        Err(End::Nak(nak, syndrome)) => refuse(hca, qp, psn, nak, syndrome),
    }
    if answer(hca, qp, super::BURST) {
        hca.sched.push(crate::sched::Work::Qp(qp.qpn));
    }
}

fn verdict(qp: &mut Qp, psn: Psn, verdict: Verdict) {
    let msn = qp.responder.msn;
    qp.responder.push(Answer::Verdict { psn, verdict, msn });
}

fn gap(hca: &mut Hca, qp: &mut Qp) {
    if std::mem::replace(&mut qp.responder.waiting, true) {
        return;
    }
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.out_of_sequence = counters.out_of_sequence.wrapping_add(1);
    });
    count(hca, "out_of_sequence");
    verdict(qp, qp.responder.epsn, Verdict::Nak(Nak::Sequence));
    answer(hca, qp, super::BURST);
}

/// A packet that was executed before: answered again, not executed again (a READ is).
fn duplicate(hca: &mut Hca, qp: &mut Qp, headers: &Headers) {
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.duplicate_request = counters.duplicate_request.wrapping_add(1);
    });
    count(hca, "duplicate_request");
    let psn = headers.bth.psn;
    let known = qp.responder.resources.iter().rev().find(|resource| {
        let at = psn.since(resource.psn);
        // CAST: not negative, and packets are below 2^23.
        at >= 0 && (at as u32) < resource.packets
    });
    match (headers.bth.opcode.operation, known.copied()) {
        (Operation::ReadRequest, Some(resource)) if resource.atomic.is_none() => {
            let Some(reth) = headers.ext.reth else {
                return;
            };
            let packets = qp.attr.mtu.map_or(1, |mtu| mtu.packets(reth.len));
            // CAST: not negative, see above.
            let at = psn.since(resource.psn) as u32;
            let fits = at + packets <= resource.packets;
            if !fits || check_read(hca, qp, &reth).is_err() {
                return;
            }
            qp.responder.push(Answer::Read {
                psn,
                reth,
                sent: 0,
                packets,
                msn: resource.msn,
            });
        }
        (Operation::CompareSwap | Operation::FetchAdd, Some(resource)) => {
            let Some(old) = resource.atomic else {
                return;
            };
            let msn = resource.msn;
            qp.responder.push(Answer::Atomic { psn, old, msn });
        }
        (Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd, _) => {
            return count(hca, "duplicate_forgotten");
        }
        _ => {
            let last = qp.responder.epsn.plus(0xff_ffff);
            verdict(qp, last, Verdict::ACK);
        }
    }
    if answer(hca, qp, super::BURST) {
        hca.sched.push(crate::sched::Work::Qp(qp.qpn));
    }
}

/// Refuses a request; the QP fails when this and all earlier answers are out.
fn refuse(hca: &mut Hca, qp: &mut Qp, psn: Psn, nak: Nak, syndrome: Option<Syndrome>) {
    tracing::error!("QP {:#x}: request refused: {nak:?}", qp.qpn);
    let msn = qp.responder.msn;
    qp.responder.answers.push_back(Answer::Verdict {
        psn,
        verdict: Verdict::Nak(nak),
        msn,
    });
    qp.responder.answers.push_back(Answer::Fail);
    qp.responder.closed = true;
    if let (Some(syndrome), Some(counter)) = (syndrome, qp.responder.take_open()) {
        flush::receive_error(hca, qp, counter, syndrome);
    } else {
        let kind = match nak {
            Nak::RemoteAccess => raw::MLX5_EVENT_TYPE_WQ_ACCESS_ERROR,
            Nak::RemoteOperation => raw::MLX5_EVENT_TYPE_WQ_CATAS_ERROR,
            Nak::InvalidRequest | Nak::Sequence => raw::MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR,
        };
        flush::event(hca, qp, kind);
        hca.count_q(qp.attr.counter_set.into(), |counters| {
            let counter = match nak {
                Nak::RemoteAccess => &mut counters.resp_remote_access_errors,
                Nak::InvalidRequest => &mut counters.resp_remote_invalid_request,
                _ => &mut counters.resp_local_qp_error,
            };
            *counter = counter.wrapping_add(1);
        });
    }
    hca.sched.push(crate::sched::Work::Qp(qp.qpn));
}

fn unreliable(hca: &mut Hca, qp: &mut Qp, headers: &Headers, payload: &[u8]) {
    let psn = headers.bth.psn;
    let starts = match headers.bth.opcode.operation {
        Operation::Send(at)
        | Operation::SendImm(at)
        | Operation::Write(at)
        | Operation::WriteImm(at) => at.starts(),
        _ => return,
    };
    if psn != qp.responder.epsn {
        hca.count_q(qp.attr.counter_set.into(), |counters| {
            counters.out_of_sequence = counters.out_of_sequence.wrapping_add(1);
        });
        count(hca, "out_of_sequence");
        give_back(qp);
    }
    if starts {
        give_back(qp);
    } else if qp.responder.open.is_none() {
        qp.responder.epsn = psn.plus(1);
        return;
    }
    qp.responder.epsn = psn;
    match execute(hca, qp, headers, payload) {
        Ok(()) => {}
        Err(End::NotReady) => {
            hca.count_q(qp.attr.counter_set.into(), |counters| {
                counters.out_of_buffer = counters.out_of_buffer.wrapping_add(1);
            });
            give_back(qp);
        }
        Err(End::Nak(_, Some(syndrome))) => {
            if let Some(counter) = qp.responder.take_open() {
                flush::receive_error(hca, qp, counter, syndrome);
                flush::fail(hca, qp);
            }
        }
        Err(End::Nak(..)) => give_back(qp),
    }
    qp.responder.epsn = psn.plus(1);
}

/// Drops a half received message of an unreliable connection: its receive request is used for the
/// next one.
fn give_back(qp: &mut Qp) {
    if let Some(Open::Send { receive, .. }) = qp.responder.open.take() {
        if let crate::qp::Source::Own { .. } = qp.rq.source {
            qp.rq.next = receive.counter;
        }
    }
}

/// Does what a packet in sequence says.
fn execute(hca: &mut Hca, qp: &mut Qp, headers: &Headers, payload: &[u8]) -> Result<(), End> {
    let invalid = || End::Nak(Nak::InvalidRequest, None);
    let mtu = qp.attr.mtu.ok_or_else(invalid)?.bytes();
    let operation = headers.bth.opcode.operation;
    match operation {
        Operation::Send(at) | Operation::SendImm(at) | Operation::SendInv(at) => {
            check_length(at, payload.len(), mtu).ok_or_else(invalid)?;
            send(hca, qp, at, headers, payload)
        }
        Operation::Write(at) | Operation::WriteImm(at) => {
            check_length(at, payload.len(), mtu).ok_or_else(invalid)?;
            write(hca, qp, at, headers, payload)
        }
        Operation::ReadRequest if qp.kind == Kind::Rc => read(hca, qp, headers),
        Operation::CompareSwap | Operation::FetchAdd if qp.kind == Kind::Rc => {
            atomic(hca, qp, headers)
        }
        _ => Err(invalid()),
    }
}

/// First and middle packets are full, a last one is not empty.
fn check_length(at: Position, len: usize, mtu: usize) -> Option<()> {
    let good = match at {
        Position::First | Position::Middle => len == mtu,
        Position::Last => (1..=mtu).contains(&len),
        Position::Only => len <= mtu,
    };
    good.then_some(())
}

/// Takes a receive request.
fn take(hca: &mut Hca, qp: &mut Qp) -> Result<Received, End> {
    match qp.take(&mut hca.env, &mut hca.srqs) {
        Ok(receive) => {
            if let Some(srqn) = receive.limit {
                hca.srq_event(raw::MLX5_EVENT_TYPE_SRQ_RQ_LIMIT, srqn);
            }
            Ok(receive)
        }
        Err(ReceiveError::Empty) => Err(End::NotReady),
        Err(error) => {
            tracing::error!("QP {:#x}: {error}", qp.qpn);
            if let ReceiveError::Shared { srqn, .. } = error {
                if let Some(srq) = hca.srqs.get_mut(srqn) {
                    if !std::mem::replace(&mut srq.failed, true) {
                        hca.srq_event(raw::MLX5_EVENT_TYPE_SRQ_CATAS_ERROR, srqn);
                    }
                }
            }
            Err(End::Nak(Nak::RemoteOperation, None))
        }
    }
}

fn send(
    hca: &mut Hca,
    qp: &mut Qp,
    at: Position,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), End> {
    let invalid = || End::Nak(Nak::InvalidRequest, None);
    if at.starts() {
        if qp.responder.open.is_some() {
            return Err(invalid());
        }
        let receive = take(hca, qp)?;
        qp.responder.open = Some(Open::Send { receive, offset: 0 });
    }
    let owner = qp.owner();
    let Some(Open::Send { receive, offset }) = &mut qp.responder.open else {
        return Err(invalid());
    };
    let end = *offset + payload.len() as u64;
    if end > receive.data.len() {
        return Err(End::Nak(Nak::InvalidRequest, Some(Syndrome::LocalLength)));
    }
    let stored = receive
        .data
        .scatter(&mut memory(hca), owner, *offset, payload);
    if let Err(fault) = stored {
        tracing::error!(
            "Local Protection Error: QP {:#x} receive request {}: {fault}",
            qp.qpn,
            receive.counter
        );
        let syndrome = Some(Syndrome::LocalProtection);
        return Err(End::Nak(Nak::RemoteOperation, syndrome));
    }
    *offset = end;
    let counter = receive.counter;
    if !at.ends() {
        qp.responder.advance(1);
        acknowledge(qp, headers);
        return Ok(());
    }
    let mut imm = headers.ext.imm.unwrap_or_default();
    if let Some(key) = headers.ext.invalidate {
        if let Err(why) = local::invalidate(hca, owner, key) {
            tracing::error!("QP {:#x}: SEND with invalidate: {why}", qp.qpn);
            let syndrome = Some(Syndrome::LocalQpOp);
            return Err(End::Nak(Nak::RemoteOperation, syndrome));
        }
        imm = key.to_be_bytes();
    }
    let opcode = match headers.bth.opcode.operation {
        Operation::SendImm(_) => raw::MLX5_CQE_RESP_SEND_IMM,
        Operation::SendInv(_) => raw::MLX5_CQE_RESP_SEND_INV,
        _ => raw::MLX5_CQE_RESP_SEND,
    };
    qp.responder.open = None;
    received(hca, qp, headers, opcode as u8, counter, end, imm);
    finish(qp, headers);
    Ok(())
}

/// Writes the completion of a receive request.
fn received(
    hca: &mut Hca,
    qp: &Qp,
    headers: &Headers,
    opcode: u8,
    counter: u16,
    len: u64,
    imm: [u8; 4],
) {
    let cqe = Cqe::good(Completion {
        opcode,
        qpn: qp.qpn,
        user_index: qp.attr.user_index,
        wqe_opcode: 0,
        wqe_counter: counter,
        // CAST: bounded by the longest message.
        byte_count: len as u32,
        imm,
        flags_rqpn: 0,
        solicited: headers.bth.solicited,
        vlan: None,
    });
    hca.complete(qp.recv_cqn, cqe);
}

/// A message is complete: count it, acknowledge if asked.
fn finish(qp: &mut Qp, headers: &Headers) {
    qp.responder.advance(1);
    qp.responder.message_done();
    acknowledge(qp, headers);
}

fn acknowledge(qp: &mut Qp, headers: &Headers) {
    if headers.bth.ack_req && qp.kind == Kind::Rc {
        verdict(qp, headers.bth.psn, Verdict::ACK);
    }
}

fn write(
    hca: &mut Hca,
    qp: &mut Qp,
    at: Position,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), End> {
    let invalid = || End::Nak(Nak::InvalidRequest, None);
    let access = || End::Nak(Nak::RemoteAccess, None);
    let owner = qp.owner();
    let is_imm = matches!(headers.bth.opcode.operation, Operation::WriteImm(_));
    let (rkey, va, left, total) = if at.starts() {
        if qp.responder.open.is_some() {
            return Err(invalid());
        }
        let reth = headers.ext.reth.ok_or_else(invalid)?;
        if !qp.attr.remote_write {
            tracing::error!("QP {:#x}: remote write is not allowed", qp.qpn);
            return Err(access());
        }
        let reach = owner.reach(reth.rkey, Need::RemoteWrite);
        if let Err(fault) = memory(hca).check(reach, reth.va, reth.len.into()) {
            tracing::error!("QP {:#x}: remote write: {fault}", qp.qpn);
            return Err(access());
        }
        (reth.rkey, reth.va, reth.len, reth.len)
    } else {
        match qp.responder.open {
            Some(Open::Write {
                rkey,
                va,
                left,
                total,
            }) => (rkey, va, left, total),
            _ => return Err(invalid()),
        }
    };
    // CAST: at most 4096.
    let len = payload.len() as u32;
    if len > left || at.ends() && len != left {
        return Err(invalid());
    }
    // Immediate data needs a receive request, and without one nothing may happen.
    let receive = match is_imm && at.ends() {
        true => Some(take(hca, qp)?),
        false => None,
    };
    let reach = owner.reach(rkey, Need::RemoteWrite);
    if let Err(fault) = memory(hca).write(reach, va, payload) {
        tracing::error!("QP {:#x}: remote write: {fault}", qp.qpn);
        return Err(access());
    }
    if at.starts() {
        hca.count_q(qp.attr.counter_set.into(), |counters| {
            counters.rx_write_requests = counters.rx_write_requests.wrapping_add(1);
        });
    }
    if !at.ends() {
        qp.responder.open = Some(Open::Write {
            rkey,
            va: va.wrapping_add(len.into()),
            left: left - len,
            total,
        });
        qp.responder.advance(1);
        acknowledge(qp, headers);
        return Ok(());
    }
    qp.responder.open = None;
    if let Some(receive) = receive {
        let imm = headers.ext.imm.unwrap_or_default();
        // CAST: four bits.
        let opcode = raw::MLX5_CQE_RESP_WR_IMM as u8;
        received(hca, qp, headers, opcode, receive.counter, total.into(), imm);
    }
    finish(qp, headers);
    Ok(())
}

fn check_read(hca: &mut Hca, qp: &Qp, reth: &Reth) -> Result<(), End> {
    let access = End::Nak(Nak::RemoteAccess, None);
    if !qp.attr.remote_read {
        tracing::error!("QP {:#x}: remote read is not allowed", qp.qpn);
        return Err(access);
    }
    let reach = qp.owner().reach(reth.rkey, Need::RemoteRead);
    if let Err(fault) = memory(hca).check(reach, reth.va, reth.len.into()) {
        tracing::error!("QP {:#x}: remote read: {fault}", qp.qpn);
        return Err(access);
    }
    Ok(())
}

fn read(hca: &mut Hca, qp: &mut Qp, headers: &Headers) -> Result<(), End> {
    let invalid = || End::Nak(Nak::InvalidRequest, None);
    let reth = headers.ext.reth.ok_or_else(invalid)?;
    let mtu = qp.attr.mtu.ok_or_else(invalid)?;
    if qp.responder.open.is_some()
        || reth.len > 1 << 31
        || qp.responder.open_reads() >= qp.attr.max_answered
    {
        return Err(invalid());
    }
    check_read(hca, qp, &reth)?;
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.rx_read_requests = counters.rx_read_requests.wrapping_add(1);
    });
    let psn = headers.bth.psn;
    let packets = mtu.packets(reth.len);
    qp.responder.message_done();
    let msn = qp.responder.msn;
    let resource = Resource {
        psn,
        packets,
        atomic: None,
        msn,
    };
    qp.responder.remember(resource, qp.attr.max_answered);
    qp.responder.advance(packets);
    qp.responder.push(Answer::Read {
        psn,
        reth,
        sent: 0,
        packets,
        msn,
    });
    Ok(())
}

fn atomic(hca: &mut Hca, qp: &mut Qp, headers: &Headers) -> Result<(), End> {
    let invalid = || End::Nak(Nak::InvalidRequest, None);
    let request = headers.ext.atomic.ok_or_else(invalid)?;
    if qp.responder.open.is_some() || request.va % 8 != 0 {
        return Err(invalid());
    }
    if !qp.attr.remote_atomic {
        tracing::error!("QP {:#x}: remote atomics are not allowed", qp.qpn);
        return Err(End::Nak(Nak::RemoteAccess, None));
    }
    let swap = headers.bth.opcode.operation == Operation::CompareSwap;
    let owner = qp.owner();
    let old = match local::atomic(hca, owner, &request, swap) {
        Ok(old) => old,
        Err(fault) => {
            tracing::error!("QP {:#x}: remote atomic: {fault}", qp.qpn);
            return Err(End::Nak(Nak::RemoteAccess, None));
        }
    };
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.rx_atomic_requests = counters.rx_atomic_requests.wrapping_add(1);
    });
    let psn = headers.bth.psn;
    qp.responder.message_done();
    let msn = qp.responder.msn;
    let resource = Resource {
        psn,
        packets: 1,
        atomic: Some(old),
        msn,
    };
    qp.responder.remember(resource, qp.attr.max_answered);
    qp.responder.advance(1);
    qp.responder.push(Answer::Atomic { psn, old, msn });
    Ok(())
}

/// Sends up to `burst` answers; whether there are more.
pub(super) fn answer(hca: &mut Hca, qp: &mut Qp, burst: u32) -> bool {
    for _ in 0..burst {
        let Some(answer) = qp.responder.answers.front().copied() else {
            return false;
        };
        match answer {
            Answer::Verdict { psn, verdict, msn } => {
                let aeth = Aeth {
                    syndrome: verdict,
                    msn,
                };
                let ext = Ext {
                    aeth: Some(aeth),
                    ..Ext::default()
                };
                packet::emit_bare(hca, qp, load(qp, Operation::Ack, psn, ext));
                qp.responder.answers.pop_front();
            }
            Answer::Atomic { psn, old, msn } => {
                let ext = Ext {
                    aeth: Some(Aeth {
                        syndrome: Verdict::ACK,
                        msn,
                    }),
                    atomic_ack: Some(old),
                    ..Ext::default()
                };
                packet::emit_bare(hca, qp, load(qp, Operation::AtomicAck, psn, ext));
                qp.responder.answers.pop_front();
            }
            Answer::Read { .. } => {
                if !read_response(hca, qp, answer) {
                    return true;
                }
            }
            Answer::Fail => {
                flush::fail(hca, qp);
                return false;
            }
        }
    }
    !qp.responder.answers.is_empty()
}

/// One packet of a READ response; false when the QP has failed over it.
fn read_response(hca: &mut Hca, qp: &mut Qp, answer: Answer) -> bool {
    let Answer::Read {
        psn,
        reth,
        sent,
        packets,
        msn,
    } = answer
    else {
        return true;
    };
    let Some(mtu) = qp.attr.mtu else {
        qp.responder.answers.pop_front();
        return true;
    };
    let offset = sent.saturating_mul(mtu.bytes() as u32);
    let len = (reth.len - offset.min(reth.len)).min(mtu.bytes() as u32);
    let at = Position::of(sent == 0, sent + 1 >= packets);
    let psn = psn.plus(sent);
    let mut frame = hca.transport.frame();
    // CAST: at most 4096.
    let buf = frame.payload_mut(len as usize);
    let reach = qp.owner().reach(reth.rkey, Need::RemoteRead);
    let va = reth.va.wrapping_add(offset.into());
    if let Err(fault) = memory(hca).read(reach, va, buf) {
        tracing::error!("QP {:#x}: remote read: {fault}", qp.qpn);
        hca.transport.recycle(frame);
        qp.responder.answers.clear();
        refuse(hca, qp, psn, Nak::RemoteAccess, None);
        return false;
    }
    let aeth = (at != Position::Middle).then_some(Aeth {
        syndrome: Verdict::ACK,
        msn,
    });
    let ext = Ext {
        aeth,
        ..Ext::default()
    };
    let load = load(qp, Operation::ReadResponse(at), psn, ext);
    match packet::headers(hca, &qp.attr.path, load) {
        Some(headers) => packet::emit(hca, headers, frame, None),
        None => {
            packet::no_source(hca, qp);
            hca.transport.recycle(frame);
        }
    }
    if sent + 1 >= packets {
        qp.responder.answers.pop_front();
    } else if let Some(Answer::Read { sent, .. }) = qp.responder.answers.front_mut() {
        *sent += 1;
    }
    true
}

fn load(qp: &Qp, operation: Operation, psn: Psn, ext: Ext) -> Load {
    Load {
        opcode: Opcode::rc(operation),
        psn,
        dest_qp: qp.attr.remote_qpn,
        solicited: false,
        ack_req: false,
        ext,
    }
}
