// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UD and the GSI, one address and groups.

use super::{node::*, op, pair::*, pattern, CE, SE};
use device::scaffold::driver::Input;
use mlx5_hw::{field, field::Mut, ifc, raw, span};

pub const QKEY: u32 = 0x1111_1111;

/// An address vector.
pub fn av(qpn: u32, qkey: u32, mac: [u8; 6], gid: [u8; 16]) -> Vec<u8> {
    let mut av = vec![0; 48];
    av[..4].copy_from_slice(&qkey.to_be_bytes());
    av[8..12].copy_from_slice(&(qpn | 1 << 31).to_be_bytes());
    av[14..16].copy_from_slice(&0xc001u16.to_be_bytes());
    av[20..26].copy_from_slice(&mac);
    av[27] = 64;
    av[28..32].copy_from_slice(&(1u32 << 30).to_be_bytes());
    av[32..].copy_from_slice(&gid);
    av
}

pub fn ready(node: &mut Node, st: u64) -> End {
    let cq = node.cq(6);
    let qp = node.qp(st, &cq, &cq);
    node.move_init(&qp, &cq, &cq, QKEY);
    let mac = node.mac;
    let link = Link {
        mtu: 5,
        mask: 0,
        ..Link::default()
    };
    node.move_rtr(&qp, 0, mac, [0; 16], link);
    node.move_rts(&qp, link);
    End { cq, qp }
}

#[test]
fn a_datagram_arrives_behind_its_headers() {
    let mut pair = Pair::new();
    let mut a = ready(&mut pair.a, 2);
    let mut b = ready(&mut pair.b, 2);
    let source = pair.a.mr(4096, ALL);
    let sink = pair.b.mr(4200, ALL);
    let bytes = pattern(4000, 6);
    pair.a.fill(&source, &bytes);
    pair.b.post_recv(
        &mut b.qp,
        &[(sink.key, sink.va, 41), (sink.key, sink.va + 41, 4100)],
    );
    let (mac, gid) = (pair.b.mac, pair.b.gid);
    let segments = [
        av(b.qp.qpn, QKEY, mac, gid),
        data(&[(source.key, source.va, 4000)]),
    ]
    .concat();
    pair.a
        .post(&mut a.qp, op::SEND_IMM, CE | SE, 0x1234, &segments);
    pair.a.doorbell(&a.qp);
    pair.run();
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
    let wc = pair.b.poll(&mut b.cq).unwrap();
    assert_eq!((wc.opcode, wc.bytes, wc.imm), (3, 4040, 0x1234));
    // GRH present, IPv4, source QP.
    assert_eq!(wc.flags_rqpn, 1 << 28 | 2 << 24 | a.qp.qpn);
    let got = pair.b.bytes(&sink, 4040);
    assert_eq!(got[40..], bytes);
    // The IPv4 header is in the last 20 bytes of the area.
    assert_eq!(got[20], 0x45);
    assert_eq!(got[32..36], pair.a.gid[12..]);
    assert_eq!(got[36..40], pair.b.gid[12..]);
}

#[test]
fn wrong_keys_and_missing_receives_drop_datagrams_silently() {
    let mut pair = Pair::new();
    let mut a = ready(&mut pair.a, 2);
    let mut b = ready(&mut pair.b, 2);
    let source = pair.a.mr(4096, ALL);
    let sink = pair.b.mr(4200, ALL);
    let (mac, gid) = (pair.b.mac, pair.b.gid);
    let payload = data(&[(source.key, source.va, 100)]);
    for (qkey, receive) in [(QKEY + 1, Some(200)), (QKEY, Some(139)), (QKEY, None)] {
        if let Some(len) = receive {
            pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, len)]);
        }
        let segments = [av(b.qp.qpn, qkey, mac, gid), payload.clone()].concat();
        pair.a.post(&mut a.qp, op::SEND, CE, 0, &segments);
        pair.a.doorbell(&a.qp);
        pair.run();
        assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
        match receive {
            // The first receive is still there for the second datagram.
            Some(139) | None => assert!(pair.b.poll(&mut b.cq).is_some() == (receive == Some(139))),
            _ => assert!(pair.b.poll(&mut b.cq).is_none()),
        }
    }
    let counters = pair.b.driver.card.counters().transport.clone();
    assert_eq!(counters["bad_qkey"], 1);
    assert_eq!(counters["datagram_too_long"], 1);
}

#[test]
fn a_failed_send_stops_the_send_queue_only() {
    let mut pair = Pair::new();
    let mut a = ready(&mut pair.a, 2);
    let source = pair.a.mr(4096, ALL);
    let (mac, gid) = (pair.b.mac, pair.b.gid);
    let bad = [
        av(5, QKEY, mac, gid),
        data(&[(source.key ^ 1, source.va, 100)]),
    ]
    .concat();
    pair.a.post(&mut a.qp, op::SEND, CE, 0, &bad);
    pair.a.post(&mut a.qp, op::SEND, 0, 0, &bad);
    pair.a.doorbell(&a.qp);
    let seen: Vec<u8> = std::iter::from_fn(|| pair.a.poll(&mut a.cq))
        .map(|wc| wc.syndrome)
        .collect();
    assert_eq!(seen, [0x04, 0x05]);
    assert_eq!(pair.a.state(&a.qp), 4, "SQ error");
    let back = Input::<ifc::sqerr2rts_qp_in>::new(raw::MLX5_CMD_OP_SQERR2RTS_QP)
        .set(field!(sqerr2rts_qp_in, qpn), a.qp.qpn.into());
    pair.a.driver.ok(back, 16);
    let good = [av(5, QKEY, mac, gid), data(&[(source.key, source.va, 100)])].concat();
    pair.a.post(&mut a.qp, op::SEND, CE, 0, &good);
    pair.a.doorbell(&a.qp);
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
}

#[test]
fn the_gsi_answers_to_number_one() {
    let mut pair = Pair::new();
    let mut a = ready(&mut pair.a, 8);
    let mut b = ready(&mut pair.b, 8);
    let source = pair.a.mr(4096, ALL);
    let sink = pair.b.mr(4200, ALL);
    pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 296)]);
    let (mac, gid) = (pair.b.mac, pair.b.gid);
    let segments = [av(1, QKEY, mac, gid), data(&[(source.key, source.va, 256)])].concat();
    pair.a.post(&mut a.qp, op::SEND, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    pair.run();
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
    let wc = pair.b.poll(&mut b.cq).unwrap();
    assert_eq!(wc.qpn, b.qp.qpn);
    assert_eq!(wc.flags_rqpn & 0xff_ffff, 1);
    assert_eq!(wc.imm & 0xffff, 0xffff, "P_Key");
}

#[test]
fn a_group_reaches_its_members_on_both_cards() {
    let mut pair = Pair::new();
    let mut a = ready(&mut pair.a, 2);
    let mut b = ready(&mut pair.b, 2);
    let group = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
    let mut address = [0; 16];
    address[10..12].fill(0xff);
    address[12..].copy_from_slice(&[239, 1, 2, 3]);
    let mut sinks = Vec::new();
    for (node, end) in [(&mut pair.a, &mut a), (&mut pair.b, &mut b)] {
        let mut input = Input::<ifc::attach_to_mcg_in>::new(raw::MLX5_CMD_OP_ATTACH_TO_MCG)
            .set(field!(attach_to_mcg_in, qpn), end.qp.qpn.into());
        Mut::<ifc::attach_to_mcg_in>::new(&mut input.bytes)
            .unwrap()
            .raw(span!(attach_to_mcg_in, multicast_gid))
            .copy_from_slice(&address);
        node.driver.ok(input, 16);
        let sink = node.mr(256, ALL);
        node.post_recv(&mut end.qp, &[(sink.key, sink.va, 256)]);
        sinks.push(sink);
    }
    let source = pair.a.mr(64, ALL);
    pair.a.fill(&source, b"to the group");
    let mac = [0x01, 0, 0x5e, 1, 2, 3];
    let segments = [
        av(0xff_ffff, QKEY, mac, group),
        data(&[(source.key, source.va, 12)]),
    ]
    .concat();
    pair.a.post(&mut a.qp, op::SEND, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    pair.run();
    let own: Vec<Wc> = std::iter::from_fn(|| pair.a.poll(&mut a.cq)).collect();
    assert_eq!(own.len(), 2, "sent, and received by itself");
    assert_eq!(pair.b.poll(&mut b.cq).unwrap().bytes, 52);
    assert_eq!(pair.a.bytes(&sinks[0], 52)[40..], *b"to the group");
    assert_eq!(pair.b.bytes(&sinks[1], 52)[40..], *b"to the group");
}
