// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests in sequence: what each does to memory and to the queues.

use super::{
    verdict, //
    Answer,
    Open,
    Resource,
};
use crate::{
    cq::{Completion, Cqe},
    hca::Hca,
    mkey::Need,
    qp::{Qp, ReceiveError, Received},
    transport::{local, memory},
    violation::{Failure, Violation},
};
use mlx5_hw::{raw, status::Syndrome};
use roce::{
    Headers, //
    Nak,
    Operation,
    Position,
    Reth,
    Syndrome as Verdict,
};

/// How a request ends that does not just succeed.
pub(super) enum End {
    /// Negative acknowledgement; the QP fails. A receive request in use gets the syndrome.
    Nak(Nak, Option<Failure>),
    /// No receive request.
    NotReady,
}

/// Does what a packet in sequence says.
pub(super) fn execute(
    hca: &mut Hca,
    qp: &mut Qp,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), End> {
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
        Operation::ReadRequest if qp.kind.is_reliable() => read(hca, qp, headers),
        Operation::CompareSwap | Operation::FetchAdd if qp.kind.is_reliable() => {
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
    let owner = qp.responder_owner();
    let Some(Open::Send { receive, offset }) = &mut qp.responder.open else {
        return Err(invalid());
    };
    let end = *offset + payload.len() as u64;
    if end > receive.data.len() {
        return Err(End::Nak(
            Nak::InvalidRequest,
            Some(Violation::ReceiveLength.into()),
        ));
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
        let syndrome = Some(fault.violation().into());
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
            let syndrome = Some(Syndrome::LocalQpOp.into());
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
    let (cqn, user_index) = qp.receive_report();
    let cqe = Cqe::good(Completion {
        opcode,
        qpn: qp.qpn,
        user_index,
        wqe_opcode: 0,
        wqe_counter: counter,
        // CAST: bounded by the longest message.
        byte_count: len as u32,
        imm,
        flags_rqpn: 0,
        solicited: headers.bth.solicited,
        vlan: None,
    });
    hca.complete(cqn, cqe);
}

/// A message is complete: count it, acknowledge if asked.
fn finish(qp: &mut Qp, headers: &Headers) {
    qp.responder.advance(1);
    qp.responder.message_done();
    acknowledge(qp, headers);
}

fn acknowledge(qp: &mut Qp, headers: &Headers) {
    if headers.bth.ack_req && qp.kind.is_reliable() {
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
    let owner = qp.responder_owner();
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

pub(super) fn check_read(hca: &mut Hca, qp: &Qp, reth: &Reth) -> Result<(), End> {
    let access = End::Nak(Nak::RemoteAccess, None);
    if !qp.attr.remote_read {
        tracing::error!("QP {:#x}: remote read is not allowed", qp.qpn);
        return Err(access);
    }
    let reach = qp.responder_owner().reach(reth.rkey, Need::RemoteRead);
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
        pd: qp.responder_owner().pd,
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
    let owner = qp.responder_owner();
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
