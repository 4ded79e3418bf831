// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets on their way out and in.

use super::{count, datagram, notify, requester, responder, with_qp};
use crate::{
    hca::Hca,
    qp::{Kind, Path, Qp},
    roce_address::{RoceAddress, L3},
    sched::Work,
};
use roce::{
    target,
    Addresses, //
    Bth,
    Ethernet,
    Ext,
    Frame,
    Headers,
    Ip,
    Mac,
    Opcode,
    Packet,
    Psn,
    Service,
    Vlan,
};

/// QP number of the general service interface on the wire.
const GSI_QPN: u32 = 1;
/// The only entry of the P_Key table: the default partition, full member.
pub(super) const DEFAULT_PKEY: u16 = 0xffff;
/// RoCE version 2 in the address table.
const V2: u8 = 2;

/// A packet to this card itself.
#[derive(Debug)]
pub(super) struct Looped {
    pub(super) headers: Headers,
    pub(super) frame: Frame,
    /// The QP that sent it to a group and does not want it back.
    pub(super) from: Option<u32>,
}

/// What a packet is about.
pub(super) struct Load {
    pub(super) opcode: Opcode,
    pub(super) psn: Psn,
    pub(super) dest_qp: u32,
    pub(super) solicited: bool,
    pub(super) ack_req: bool,
    pub(super) ext: Ext,
}

impl Hca {
    /// The entry of the RoCE address table that a path names, if packets can be sent from it.
    pub fn roce_source(&self, index: u8) -> Option<&RoceAddress> {
        self.roce
            .get(index.into())
            .filter(|entry| entry.version == V2)
    }

    /// Whether packets to this GID are for the card.
    fn owns_gid(&self, gid: [u8; 16], vlan: Option<Vlan>) -> bool {
        let id = vlan.map(|vlan| vlan.id).filter(|id| *id != 0);
        let mut all = self.roce.iter();
        all.any(|(_, entry)| entry.version == V2 && gid_of(entry) == gid && entry.vlan == id)
    }
}

/// The GID of an entry: IPv4 addresses mapped into IPv6.
pub(super) fn gid_of(entry: &RoceAddress) -> [u8; 16] {
    let mut gid = entry.address;
    if entry.l3 == L3::Ipv4 {
        gid[..10].fill(0);
        gid[10..12].fill(0xff);
    }
    gid
}

/// Headers of a packet along `path`; `None` when its source is not in the address table any more.
pub(super) fn headers(hca: &Hca, path: &Path, load: Load) -> Option<Headers> {
    let source = hca.roce_source(path.sgid_index)?;
    let last4 = |gid: &[u8; 16]| [gid[12], gid[13], gid[14], gid[15]];
    let addresses = match source.l3 {
        L3::Ipv4 => Addresses::V4 {
            src: last4(&source.address),
            dst: last4(&path.rgid),
        },
        L3::Ipv6 => Addresses::V6 {
            src: source.address,
            dst: path.rgid,
        },
    };
    let v6 = source.l3 == L3::Ipv6;
    Some(Headers {
        eth: Ethernet {
            dst: path.mac,
            src: Mac(source.mac),
            vlan: source.vlan.map(|id| Vlan {
                pcp: path.prio,
                dei: false,
                id,
            }),
        },
        ip: Ip {
            addresses,
            tos: path.tos,
            ttl: path.hop_limit.max(1),
            flow_label: if v6 { path.flow_label } else { 0 },
            ident: 0,
        },
        sport: path.sport,
        bth: Bth {
            opcode: load.opcode,
            solicited: load.solicited,
            migrated: true,
            pkey: DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qp: load.dest_qp,
            ack_req: load.ack_req,
            psn: load.psn,
        },
        ext: load.ext,
    })
}

/// Sends a packet of a QP.
pub(super) fn depart(
    hca: &mut Hca,
    qp: &mut Qp,
    mut headers: Headers,
    frame: Frame,
    from: Option<u32>,
) {
    notify::leaves(hca, qp, &mut headers, frame.payload().len());
    emit(hca, headers, frame, from);
}

/// Sends a packet: to this card itself, to the cable, or (a group) to both. `from` is the QP that
/// must not get its own multicast back.
pub(super) fn emit(hca: &mut Hca, headers: Headers, mut frame: Frame, from: Option<u32>) {
    let mac = headers.eth.dst;
    let own = hca.owns_mac(&mac.0);
    if !own && hca.vport.link_up() {
        if let Some(bytes) = frame.seal(&headers) {
            crate::eth::port::leave(hca, bytes, true, usize::MAX);
        }
    }
    if own || mac.is_multicast() {
        hca.env.counters.frames_looped += 1;
        hca.transport.loopback.push_back(Looped {
            headers,
            frame,
            from,
        });
        hca.sched.push(Work::Loopback);
    } else {
        hca.transport.recycle(frame);
    }
}

/// Sends a packet without payload along the path of a connected QP.
pub(super) fn emit_bare(hca: &mut Hca, qp: &mut Qp, load: Load) {
    let mut frame = hca.transport.frame();
    frame.payload_mut(0);
    match headers(hca, &qp.attr.path, load) {
        Some(headers) => depart(hca, qp, headers, frame, None),
        None => no_source(hca, qp),
    }
}

/// The source address of a QP has been taken away: its packets go nowhere.
pub(super) fn no_source(hca: &mut Hca, qp: &Qp) {
    count(hca, "no_source_address");
    tracing::debug!(
        "QP {:#x}: RoCE address {} is not set",
        qp.qpn,
        qp.attr.path.sgid_index
    );
}

/// A frame from the wire or looped back. True if it was for RoCE, handled or not: UDP to port 4791
/// and an address of the RoCE address table, or a group with members. All else is Ethernet, RoCE of
/// a software stack above the netdev included.
pub fn receive(hca: &mut Hca, frame: &[u8]) -> bool {
    let Some(target) = target(frame).filter(|_| hca.vport.roce_en) else {
        return false;
    };
    let ours = if target.eth.dst.is_multicast() {
        hca.transport.has_group(&target.gid)
    } else {
        hca.owns_mac(&target.eth.dst.0) && hca.owns_gid(target.gid, target.eth.vlan)
    };
    if !ours {
        return false;
    }
    let packet = match Packet::parse(frame) {
        Ok(packet) => packet,
        Err(error) => {
            count(hca, "bad_packet");
            tracing::debug!("RoCE packet dropped: {error}");
            return true;
        }
    };
    arrive(hca, &packet.headers, packet.payload, None);
    true
}

/// Hands a good packet to its QP.
pub(super) fn arrive(hca: &mut Hca, headers: &Headers, payload: &[u8], from: Option<u32>) {
    let drop = |hca: &mut Hca, name: &'static str| {
        count(hca, name);
        tracing::debug!("packet to QP {:#x} dropped: {name}", headers.bth.dest_qp);
    };
    if headers.eth.dst.is_multicast() {
        super::multicast::arrive(hca, headers, payload, from);
        return;
    }
    if !hca.owns_mac(&headers.eth.dst.0) || !hca.owns_gid(headers.ip.dst_gid(), headers.eth.vlan) {
        return drop(hca, "wrong_destination");
    }
    // Partitions match in 15 bits, and one of the two must be a full member: ours is.
    if headers.bth.pkey & 0x7fff != DEFAULT_PKEY & 0x7fff {
        return drop(hca, "bad_pkey");
    }
    let qpn = match headers.bth.dest_qp {
        GSI_QPN => match hca.transport.gsi {
            Some(qpn) => qpn,
            None => return drop(hca, "no_qp"),
        },
        qpn => qpn,
    };
    let done = with_qp(hca, qpn, |hca, qp| dispatch(hca, qp, headers, payload));
    if headers.bth.opcode.service == Service::Cnp && done != Some(Ok(())) {
        hca.congestion.statistics.rp_cnp_ignored += 1;
    }
    match done {
        None => drop(hca, "no_qp"),
        Some(Err(why)) => drop(hca, why),
        Some(Ok(())) => {}
    }
}

fn dispatch(
    hca: &mut Hca,
    qp: &mut Qp,
    headers: &Headers,
    payload: &[u8],
) -> Result<(), &'static str> {
    let opcode = headers.bth.opcode;
    let fits = matches!(
        (opcode.service, qp.kind),
        (Service::Rc, Kind::Rc)
            | (Service::Uc, Kind::Uc)
            | (Service::Xrc, Kind::Xrc)
            | (Service::Ud, Kind::Ud | Kind::Gsi)
            | (
                Service::Cnp,
                Kind::Rc | Kind::Uc | Kind::Xrc | Kind::Ud | Kind::Gsi
            )
    );
    if !fits {
        return Err("wrong_service");
    }
    if qp.kind.is_connected() && !is_peer(hca, qp, headers) {
        return Err("wrong_peer");
    }
    if opcode.service == Service::Cnp {
        return notify::slow_down(hca, qp);
    }
    notify::look(hca, qp, headers);
    if opcode.operation.is_response() {
        return requester::response(hca, qp, headers, payload);
    }
    if !qp.can_receive() {
        return Err("qp_not_ready");
    }
    match qp.kind {
        Kind::Ud | Kind::Gsi => datagram::receive(hca, qp, headers, payload),
        _ => {
            responder::request(hca, qp, headers, payload);
            Ok(())
        }
    }
}

/// Whether a packet comes along the path of a connected QP.
fn is_peer(hca: &Hca, qp: &Qp, headers: &Headers) -> bool {
    let path = &qp.attr.path;
    let Some(own) = hca.roce_source(path.sgid_index) else {
        return false;
    };
    let remote = match own.l3 {
        L3::Ipv4 => {
            let [.., a, b, c, d] = path.rgid;
            let mut gid = [0; 16];
            gid[10..].copy_from_slice(&[0xff, 0xff, a, b, c, d]);
            gid
        }
        L3::Ipv6 => path.rgid,
    };
    headers.ip.dst_gid() == gid_of(own) && headers.ip.src_gid() == remote
}
