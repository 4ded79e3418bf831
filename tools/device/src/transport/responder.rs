// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving side of connected QPs.
//!
//! Answers stand in a queue in the order of their PSNs: an acknowledgement behind a READ response
//! that is still being sent waits for it.

mod answer;
mod execute;

pub(super) use answer::answer;

use super::{
    count, //
    flush,
};
use crate::{
    hca::Hca,
    qp::{Attributes, Kind, Owner, Qp, Received, Source, State},
    sched::Work,
    violation::Failure,
};
use execute::{check_read, execute, End};
use mlx5_hw::raw;
use roce::{
    Headers, //
    Nak,
    Operation,
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
        /// Protection domain of the request.
        pd: u32,
        sent: u32,
        packets: u32,
        msn: u32,
    },
    /// The QP fails, now that everything before has been answered.
    Fail,
}

/// Where the requests of an XRC connection go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct XrcTarget {
    srqn: u32,
    /// Protection domain of the SRQ: the one that keys must be in.
    pd: u32,
    cqn: u32,
    user_index: u32,
}

/// `user_index` of a queue whose driver uses CQEs of version 0: they carry the number of the SRQ.
const NO_USER_INDEX: u32 = 0xff_ffff;

/// The SRQ that a request of an XRC connection names, if it may; a message stays with its SRQ.
fn xrc_target(hca: &Hca, qp: &Qp, headers: &Headers) -> Option<XrcTarget> {
    let srqn = headers.ext.xrc?;
    let srq = hca.srqs.get(srqn).filter(|srq| srq.xrcd == qp.xrcd)?;
    let crate::srq::Kind::Xrc { cqn, user_index } = srq.kind else {
        return None;
    };
    let target = XrcTarget {
        srqn,
        pd: srq.pd,
        cqn,
        user_index: match user_index {
            NO_USER_INDEX => srqn,
            index => index,
        },
    };
    let strayed = qp.responder.open.is_some() && qp.responder.xrc != Some(target);
    (!strayed).then_some(target)
}

impl Qp {
    /// Who the responder is to memory keys.
    fn responder_owner(&self) -> Owner {
        let pd = self.responder.xrc.map_or(self.pd, |target| target.pd);
        Owner { pd, ..self.owner() }
    }

    /// CQ and user index of the completion of a receive request.
    pub(super) fn receive_report(&self) -> (u32, u32) {
        match self.responder.xrc {
            Some(target) => (target.cqn, target.user_index),
            None => (self.recv_cqn, self.attr.user_index),
        }
    }

    /// The shared queue that receive requests come from, if it is not the QP's own.
    pub(crate) fn receive_source(&self) -> Source {
        match self.responder.xrc {
            Some(target) => Source::Shared(target.srqn),
            None => self.rq.source,
        }
    }
}

/// State of the receiving side.
#[derive(Debug, Default)]
pub struct Responder {
    /// PSN expected next.
    pub epsn: Psn,
    /// Messages completed, 24 bits.
    pub msn: u32,
    open: Option<Open>,
    /// What the XRC header of the last request named.
    xrc: Option<XrcTarget>,
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
    if qp.kind == Kind::Xrc {
        let Some(target) = xrc_target(hca, qp, headers) else {
            tracing::error!(
                "QP {:#x}: SRQ {:#x} of the request is not in XRCD {:#x}",
                qp.qpn,
                headers.ext.xrc.unwrap_or(0),
                qp.xrcd
            );
            if distance == 0 {
                refuse(hca, qp, psn, Nak::InvalidRequest, None);
            }
            return;
        };
        qp.responder.xrc = Some(target);
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
        Err(End::Nak(nak, failure)) => {
            tracing::error!(
                "QP {:#x}: {:?} of {} bytes, PSN {psn:?}, refused: {nak:?}; open: {:?}",
                qp.qpn,
                headers.bth.opcode.operation,
                payload.len(),
                qp.responder.open
            );
            refuse(hca, qp, psn, nak, failure);
        }
    }
    if answer(hca, qp, super::BURST) {
        hca.sched.push(Work::Qp(qp.qpn));
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
                pd: qp.responder_owner().pd,
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
        hca.sched.push(Work::Qp(qp.qpn));
    }
}

/// Refuses a request; the QP fails when this and all earlier answers are out.
fn refuse(hca: &mut Hca, qp: &mut Qp, psn: Psn, nak: Nak, failure: Option<Failure>) {
    let msn = qp.responder.msn;
    qp.responder.answers.push_back(Answer::Verdict {
        psn,
        verdict: Verdict::Nak(nak),
        msn,
    });
    qp.responder.answers.push_back(Answer::Fail);
    qp.responder.closed = true;
    if let (Some(failure), Some(counter)) = (failure, qp.responder.take_open()) {
        flush::receive_error(hca, qp, counter, failure);
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
    hca.sched.push(Work::Qp(qp.qpn));
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
        Err(End::Nak(_, Some(failure))) => {
            if let Some(counter) = qp.responder.take_open() {
                flush::receive_error(hca, qp, counter, failure);
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
