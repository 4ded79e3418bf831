// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random requests, records and packets: the card neither panics nor hangs, and what is not meant
//! goes on working.

use super::{node::*, op, pair::*, CE};
use proptest::prelude::*;
use roce::{Frame, Packet};
use std::time::Duration;

/// A card with one connection to itself that must survive, and one to be mistreated.
struct Victim {
    node: Node,
    good: End,
    bad: End,
    mr: Mr,
}

fn victim(st: u64) -> Victim {
    let mut node = Node::new(1);
    let good = end(&mut node, 0);
    let bad = end(&mut node, st);
    let (mac, gid) = (node.mac, node.gid);
    let mask = [0xe, 0x8, 0, 0][st.min(3) as usize];
    for (end, mask) in [(&good, 0xe), (&bad, mask)] {
        let link = Link {
            mask,
            ..Link::default()
        };
        node.move_rtr(&end.qp, end.qp.qpn, mac, gid, link);
        node.move_rts(&end.qp, link);
    }
    let mr = node.mr(1 << 16, ALL);
    Victim {
        node,
        good,
        bad,
        mr,
    }
}

impl Victim {
    fn settle(&mut self) {
        for _ in 0..200 {
            match self.node.driver.card.next_deadline() {
                None => return,
                Some(due) if due.is_zero() => self.node.driver.card.tick(),
                Some(_) => self.node.advance(Duration::from_millis(300)),
            }
        }
    }

    fn check(&mut self) {
        self.node.post(&mut self.good.qp, op::NOP, CE, 0, &[]);
        self.node.doorbell(&self.good.qp);
        assert_eq!(self.node.poll(&mut self.good.cq).unwrap().syndrome, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_requests(
        st in prop::sample::select(vec![0u64, 1, 2]),
        requests in prop::collection::vec(
            (any::<[u8; 16]>(), prop::collection::vec(any::<u8>(), 0..300), any::<[bool; 4]>()),
            1..6,
        ),
        receive in any::<[u8; 64]>(),
    ) {
        let mut victim = victim(st);
        let opcodes = [0u8, 1, 8, 9, 0xa, 0xb, 0x10, 0x11, 0x12, 0x25];
        for (head, body, [index, qpn, opcode, key]) in requests {
            let mut wqe = [&head[..], &body[..]].concat();
            let ds = wqe.len().div_ceil(16) as u8;
            wqe.resize(usize::from(ds) * 16, 0);
            // More or less of it right, so that the parser is passed at different places.
            if index {
                wqe[1..3].copy_from_slice(&victim.bad.qp.sq_pi.to_be_bytes());
            }
            if qpn {
                let word = victim.bad.qp.qpn << 8 | u32::from(ds);
                wqe[4..8].copy_from_slice(&word.to_be_bytes());
            }
            if opcode {
                wqe[3] = opcodes[usize::from(head[3]) % opcodes.len()];
            }
            if key && wqe.len() >= 48 {
                let at = wqe.len() - 16;
                wqe[at..at + 4].copy_from_slice(&1000u32.to_be_bytes());
                wqe[at + 4..at + 8].copy_from_slice(&victim.mr.key.to_be_bytes());
                wqe[at + 8..].copy_from_slice(&victim.mr.va.to_be_bytes());
                wqe[16..24].copy_from_slice(&victim.mr.va.to_be_bytes());
                wqe[24..28].copy_from_slice(&victim.mr.key.to_be_bytes());
            }
            victim.node.driver.machine.poke(victim.bad.qp.buffer, &receive);
            victim.node.driver.machine.poke(victim.bad.qp.record, &[0, 0, 0, 1]);
            victim.node.post_raw(&mut victim.bad.qp, &wqe);
            let qp = victim.bad.qp.clone();
            victim.node.doorbell(&qp);
        }
        victim.settle();
        victim.check();
    }

    #[test]
    fn random_doorbell_records(records in prop::collection::vec(any::<[u8; 8]>(), 1..8)) {
        let mut victim = victim(0);
        for record in records {
            victim.node.driver.machine.poke(victim.bad.qp.record, &record);
            let qp = victim.bad.qp.clone();
            victim.node.doorbell(&qp);
            victim.settle();
        }
        victim.check();
    }

    #[test]
    fn random_packets(
        frames in prop::collection::vec(
            (any::<[u8; 12]>(), prop::collection::vec(any::<u8>(), 0..80), any::<[bool; 3]>()),
            1..12,
        ),
    ) {
        let mut victim = victim(0);
        let psn = Link::default().psn;
        for (bth, body, [qpn, near, reth]) in frames {
            let mut bth = bth;
            bth[1] &= 0xf0;
            bth[2..4].fill(0xff);
            if qpn {
                bth[5..8].copy_from_slice(&victim.bad.qp.qpn.to_be_bytes()[1..]);
                bth[0] %= 0x18;
            }
            if near {
                let near = psn + u32::from(bth[11] % 4);
                bth[9..12].copy_from_slice(&near.to_be_bytes()[1..]);
            }
            let mut body = body;
            if reth && body.len() >= 16 {
                body[..8].copy_from_slice(&victim.mr.va.to_be_bytes());
                body[8..12].copy_from_slice(&victim.mr.key.to_be_bytes());
            }
            let frame = frame(&victim.node, &bth, &body);
            victim.node.driver.card.receive(&frame);
        }
        victim.settle();
        victim.check();
    }
}

/// A frame to the card itself with any transport header, and a right ICRC.
fn frame(node: &Node, bth: &[u8], body: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x45, 0];
    let total = 20 + 8 + 12 + body.len() + 4;
    datagram.extend((total as u16).to_be_bytes());
    datagram.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    datagram.extend(&node.gid[12..]);
    datagram.extend(&node.gid[12..]);
    let sum: u32 = datagram
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    datagram[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    datagram.extend([0xc1, 0x23, 0x12, 0xb7]);
    datagram.extend(((total - 20) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(bth);
    datagram.extend(body);
    let icrc = roce::icrc(&datagram).unwrap();
    datagram.extend(icrc);
    let mut frame = [node.mac, node.mac].concat();
    frame.extend([8, 0]);
    frame.extend(datagram);
    frame
}

#[test]
fn the_frames_of_the_random_test_are_good_ones() {
    let victim = victim(0);
    let mut bth = [0u8; 12];
    bth[0] = 0x04;
    bth[2..4].fill(0xff);
    let bytes = frame(&victim.node, &bth, &[1, 2, 3, 4]);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.payload, [1, 2, 3, 4]);
    assert_eq!(Frame::of(&packet).payload(), [1, 2, 3, 4]);
}
