// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unreliable datagrams, and the general service interface (QP 1 on the wire).

use super::{
    count, //
    flush,
    memory,
    notify, //
    packet::{self, Load, DEFAULT_PKEY},
    requester,
};
use crate::{
    cq::{Completion, Cqe},
    hca::Hca,
    mkey::Need,
    qp::{
        wqe::{Av, Op, MAX_WQE},
        Flight, Kind, Path, Qp, ReceiveError, Source, State,
    },
    violation::{Failure, Violation},
};
use mlx5_hw::{raw, status::Syndrome};
use roce::{
    Addresses, //
    Deth,
    Ext,
    Headers,
    Opcode,
    Operation,
    Position,
    Service,
};

/// Bytes before the payload in every receive: a GRH, or an IPv4 header in its last 20.
const GRH: u64 = 40;
/// A Q_Key with this bit in a request means the one of the QP.
const OWN_QKEY: u32 = 1 << 31;

/// Sends up to `burst` datagrams; whether there is more to do now.
pub(super) fn send(hca: &mut Hca, qp: &mut Qp, burst: u32) -> bool {
    for _ in 0..burst {
        if qp.state != State::Rts || notify::must_wait(hca, qp) {
            return false;
        }
        let mut raw = [0; MAX_WQE];
        match qp.fetch(&mut hca.env, &mut raw) {
            Ok((control, Ok(wqe))) => {
                let mut flight = Flight::new(wqe, 1);
                flight.error = transmit(hca, qp, &flight).err();
                flight.done = flight.error.is_none();
                if let Some(failure) = flight.error {
                    let index = control.index;
                    tracing::error!(
                        "QP {:#x} request {index}: {}",
                        qp.qpn,
                        failure.syndrome.text()
                    );
                }
                qp.requester.flight.push_back(flight);
            }
            Ok((control, Err(bad))) => {
                tracing::error!("QP {:#x}: request {}: {bad}", qp.qpn, control.index);
                let mut flight = Flight::new(crate::qp::wqe::Wqe::empty(control), 0);
                flight.error = Some(bad.violation().into());
                qp.requester.flight.push_back(flight);
            }
            Err(crate::qp::FetchError::Empty) => return false,
            Err(error) => {
                tracing::error!("QP {:#x}: {error}", qp.qpn);
                flush::catastrophe(hca, qp);
                return false;
            }
        }
        requester::settle(hca, qp);
    }
    qp.state == State::Rts
}

fn transmit(hca: &mut Hca, qp: &mut Qp, flight: &Flight) -> Result<(), Failure> {
    let wqe = &flight.wqe;
    let Some(av) = wqe.av else {
        return Ok(());
    };
    let mtu = qp.attr.mtu.ok_or(Syndrome::LocalQpOp)?;
    // The GSI is programmed with a small MTU that bounds nothing (`__mlx5_ib_modify_qp`).
    let limit = if qp.kind == Kind::Gsi {
        4096
    } else {
        mtu.bytes()
    };
    if wqe.data.len() > limit as u64 {
        return Err(Violation::MessageLength.into());
    }
    let mut frame = hca.transport.frame();
    // CAST: at most 4096.
    let buf = frame.payload_mut(wqe.data.len() as usize);
    let fetched = wqe.data.gather(&mut memory(hca), qp.owner(), 0, buf);
    if let Err(fault) = fetched {
        let index = wqe.control.index;
        tracing::error!(
            "Local Protection Error: QP {:#x} request {index}: {fault}",
            qp.qpn
        );
        hca.transport.recycle(frame);
        return Err(fault.violation().into());
    }
    let psn = qp.requester.next_psn;
    qp.requester.next_psn = psn.plus(1);
    qp.requester.una = qp.requester.next_psn;
    let at = Position::Only;
    let operation = match wqe.op {
        Op::SendImm => Operation::SendImm(at),
        _ => Operation::Send(at),
    };
    let src_qp = match (qp.kind, qp.attr.deth_sqpn) {
        (Kind::Gsi, _) => 1,
        (_, 0) => qp.qpn,
        (_, number) => number,
    };
    let qkey = if av.qkey & OWN_QKEY != 0 {
        qp.attr.qkey
    } else {
        av.qkey
    };
    let ext = Ext {
        deth: Some(Deth { qkey, src_qp }),
        imm: (wqe.op == Op::SendImm).then_some(wqe.control.imm),
        ..Ext::default()
    };
    let load = Load {
        opcode: Opcode {
            service: Service::Ud,
            operation,
        },
        psn,
        dest_qp: av.qpn,
        solicited: wqe.control.solicited,
        ack_req: false,
        ext,
    };
    let block = qp.attr.block_loopback.then_some(qp.qpn);
    match packet::headers(hca, &path(&av), load) {
        Some(headers) => packet::depart(hca, qp, headers, frame, block),
        None => {
            packet::no_source(hca, qp);
            hca.transport.recycle(frame);
        }
    }
    Ok(())
}

fn path(av: &Av) -> Path {
    Path {
        sgid_index: av.sgid_index,
        rgid: av.rgid,
        mac: av.mac,
        hop_limit: av.hop_limit,
        tos: av.tclass,
        flow_label: av.flow_label,
        sport: av.sport,
        prio: av.prio,
    }
}

/// A datagram for this QP.
pub(super) fn receive(
    hca: &mut Hca,
    qp: &mut Qp,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), &'static str> {
    let deth = headers.ext.deth.ok_or("wrong_service")?;
    if deth.qkey != qp.attr.qkey {
        return Err("bad_qkey");
    }
    let before = qp.rq.next;
    let receive = match qp.take(&mut hca.env, &mut hca.srqs) {
        Ok(receive) => receive,
        Err(ReceiveError::Empty) => {
            hca.count_q(qp.attr.counter_set.into(), |counters| {
                counters.out_of_buffer = counters.out_of_buffer.wrapping_add(1);
            });
            return Err("out_of_buffer");
        }
        Err(error) => {
            tracing::error!("QP {:#x}: {error}", qp.qpn);
            flush::catastrophe(hca, qp);
            return Err("queue_broken");
        }
    };
    if let Some(srqn) = receive.limit {
        hca.srq_event(raw::MLX5_EVENT_TYPE_SRQ_RQ_LIMIT, srqn);
    }
    let len = GRH + payload.len() as u64;
    if len > receive.data.len() {
        // A datagram that does not fit is dropped; an own receive request stays posted.
        if let Source::Own { .. } = qp.rq.source {
            qp.rq.next = before;
        } else {
            flush::receive_error(hca, qp, receive.counter, Violation::ReceiveLength);
        }
        return Err("datagram_too_long");
    }
    // CAST: a datagram is at most 4 KiB and its headers.
    let grh = headers.ip.grh_area((payload.len() + 8 + 12 + 8 + 4) as u16);
    let owner = qp.owner();
    let data = &receive.data;
    let stored = data
        .check(&memory(hca), owner, Need::LocalWrite, len)
        .and_then(|()| data.scatter(&mut memory(hca), owner, 0, &grh))
        .and_then(|()| data.scatter(&mut memory(hca), owner, GRH, payload));
    if let Err(fault) = stored {
        let counter = receive.counter;
        tracing::error!(
            "Local Protection Error: QP {:#x} receive request {counter}: {fault}",
            qp.qpn
        );
        flush::receive_error(hca, qp, counter, fault.violation());
        flush::fail(hca, qp);
        return Err("local_protection");
    }
    let is_imm = matches!(headers.bth.opcode.operation, Operation::SendImm(_));
    let opcode = if is_imm {
        raw::MLX5_CQE_RESP_SEND_IMM
    } else {
        raw::MLX5_CQE_RESP_SEND
    };
    let l3 = match headers.ip.addresses {
        Addresses::V4 { .. } => raw::MLX5_CQE_ROCE_L3_HEADER_TYPE_IPV4,
        Addresses::V6 { .. } => raw::MLX5_CQE_ROCE_L3_HEADER_TYPE_IPV6,
    };
    let imm = match (qp.kind, headers.ext.imm) {
        // The GSI finds the P_Key there.
        (Kind::Gsi, None) => u32::from(DEFAULT_PKEY).to_be_bytes(),
        (_, imm) => imm.unwrap_or_default(),
    };
    // CAST: small enumerators.
    let cqe = Cqe::good(Completion {
        opcode: opcode as u8,
        qpn: qp.qpn,
        user_index: qp.attr.user_index,
        wqe_opcode: 0,
        wqe_counter: receive.counter,
        byte_count: len as u32,
        imm,
        flags_rqpn: 1 << 28 | l3 << 24 | deth.src_qp,
        solicited: headers.bth.solicited,
        vlan: headers.eth.vlan.map(|vlan| vlan.tci()),
    });
    hca.complete(qp.recv_cqn, cqe);
    count(hca, "datagrams_received");
    Ok(())
}
