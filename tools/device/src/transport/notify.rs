// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion on the way: the notification point answers marked packets with CNPs, the reaction
//! point slows down the QP that a CNP names.
//!
//! Source: InfiniBand Architecture Specification, annex A17.9; the CNP of a ConnectX-4 Lx in
//! tools/roce/tests/vectors.rs (source port 0, TTL 64, capable of ECN, BECN set, MigReq clear).

use super::{
    packet::{self, DEFAULT_PKEY},
    Timer,
};
use crate::{
    cong::{CE, ECN, ECT},
    hca::Hca,
    qp::{Kind, Qp},
};
use roce::{
    Addresses, //
    Bth,
    Ethernet,
    Ext,
    Headers,
    Ip,
    Opcode,
    Operation,
    Psn,
    Service,
    Vlan,
};

const CNP_TTL: u8 = 64;
/// Bytes on the wire around a payload, as far as the rate is concerned: Ethernet with FCS, IPv4,
/// UDP, BTH and ICRC.
const AROUND: usize = 18 + 20 + 8 + 12 + 4;

/// A packet of a QP leaves: the last look at its headers.
pub(super) fn leaves(hca: &mut Hca, qp: &mut Qp, headers: &mut Headers, payload: usize) {
    let priority = hca.priorities.of_packet(headers.eth.vlan, headers.ip.tos);
    qp.reaction.priority = priority;
    // Of datagrams the address vector says it (`MLX5_ECN_ENABLED` in ib/ah.c); contexts of connected QPs do not.
    if qp.kind.is_connected() && hca.congestion.reacts(priority) {
        headers.ip.tos = headers.ip.tos & !ECN | ECT;
    }
    if qp.reaction.is_limited() {
        let now = hca.env.now();
        qp.reaction.sent(&hca.congestion.rp, now, payload + AROUND);
    }
}

/// Whether the QP has to wait for its rate. If so, it gets its turn when it has waited.
pub(super) fn must_wait(hca: &mut Hca, qp: &mut Qp) -> bool {
    if !qp.reaction.is_limited() {
        return false;
    }
    if !hca.congestion.reacts(qp.reaction.priority) {
        qp.reaction.release();
        return false;
    }
    let now = hca.env.now();
    match qp.reaction.held(&hca.congestion.rp, now) {
        Some(until) => {
            hca.transport.at(until, Timer::Qp(qp.qpn));
            true
        }
        None => false,
    }
}

/// A CNP for this QP.
pub(super) fn slow_down(hca: &mut Hca, qp: &mut Qp) -> Result<(), &'static str> {
    if !hca.congestion.reacts(qp.reaction.priority) {
        return Err("cnp_ignored");
    }
    let now = hca.env.now();
    let news = qp.reaction.slow_down(&hca.congestion.rp, now);
    let statistics = &mut hca.congestion.statistics;
    statistics.rp_cnp_handled += 1;
    statistics.sum_flows = statistics.sum_flows.wrapping_add(news.into());
    Ok(())
}

/// A packet has come for this QP: if it was marked on its way, its sender is told.
pub(super) fn look(hca: &mut Hca, qp: &Qp, headers: &Headers) {
    if headers.ip.tos & ECN != CE {
        return;
    }
    let priority = hca.priorities.of_packet(headers.eth.vlan, headers.ip.tos);
    if !hca.congestion.notifies(priority) {
        return;
    }
    hca.congestion.statistics.np_ecn_marked_roce_packets += 1;
    let sender = match (qp.kind, headers.ext.deth) {
        (Kind::Ud | Kind::Gsi, Some(deth)) => deth.src_qp,
        (Kind::Ud | Kind::Gsi | Kind::Umr, _) => return,
        _ => qp.attr.remote_qpn,
    };
    let now = hca.env.now();
    if hca.congestion.tell((headers.ip.src_gid(), sender), now) {
        hca.congestion.statistics.np_cnp_sent += 1;
        let answer = notification(hca, headers, sender);
        let mut frame = hca.transport.frame();
        frame.payload_mut(0);
        packet::emit(hca, answer, frame, None);
    }
}

/// The CNP for the sender of a packet.
fn notification(hca: &Hca, marked: &Headers, sender: u32) -> Headers {
    let np = &hca.congestion.np;
    // CAST: three and six bits.
    let (priority, code_point) = (np.cnp_802p_prio as u8, np.cnp_dscp as u8);
    let vlan = marked.eth.vlan.map(|vlan| Vlan {
        pcp: if np.cnp_prio_mode == 0 {
            priority
        } else {
            vlan.pcp
        },
        dei: false,
        id: vlan.id,
    });
    Headers {
        eth: Ethernet {
            dst: marked.eth.src,
            src: marked.eth.dst,
            vlan,
        },
        ip: Ip {
            addresses: back(marked.ip.addresses),
            tos: code_point << 2 | ECT,
            ttl: CNP_TTL,
            flow_label: 0,
            ident: 0,
        },
        sport: 0,
        bth: Bth {
            opcode: Opcode {
                service: Service::Cnp,
                operation: Operation::Congestion,
            },
            solicited: false,
            migrated: false,
            pkey: DEFAULT_PKEY,
            fecn: false,
            becn: true,
            dest_qp: sender,
            ack_req: false,
            psn: Psn::default(),
        },
        ext: Ext::default(),
    }
}

fn back(addresses: Addresses) -> Addresses {
    match addresses {
        Addresses::V4 { src, dst } => Addresses::V4 { src: dst, dst: src },
        Addresses::V6 { src, dst } => Addresses::V6 { src: dst, dst: src },
    }
}
