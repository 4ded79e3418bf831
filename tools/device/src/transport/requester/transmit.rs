// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of requests.

use super::{next, recover, settle, ACK_EVERY};
use crate::{
    hca::Hca,
    qp::{wqe::Op, Flight, Qp},
    transport::{
        memory,
        packet::{self, Load},
    },
};
use roce::{
    AtomicEth, //
    Ext,
    Mtu,
    Opcode,
    Operation,
    Position,
    Psn,
    Reth,
    Service,
};

/// Makes the packet at the cursor.
pub(super) fn transmit(hca: &mut Hca, qp: &mut Qp) -> bool {
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
            qp.requester.flight[cursor].error = Some(fault.violation().into());
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
    packet::depart(hca, qp, headers, frame, None);
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
    if qp.kind.is_reliable() {
        // The rate may have changed since.
        if qp.requester.deadline.is_none() || qp.reaction.is_limited() {
            recover::arm(hca, qp);
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
    let service = qp.service();
    ext.xrc = (service == Service::Xrc).then_some(wqe.xrc_srqn);
    let is_read = wqe.op.is_read_or_atomic();
    // Nothing more goes out before this packet or an earlier one is acknowledged.
    let closes = psn.since(qp.requester.una) + 1 >= qp.requester.window;
    Load {
        opcode: Opcode { service, operation },
        psn,
        dest_qp: qp.attr.remote_qpn,
        solicited: wqe.control.solicited && last && !is_read,
        ack_req: service != Service::Uc
            && (last || is_read || closes || sent % ACK_EVERY == ACK_EVERY - 1),
        ext,
    }
}
