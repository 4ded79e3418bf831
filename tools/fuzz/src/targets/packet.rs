// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames from the wire: whole ones, and RoCE packets whose outer headers and ICRC are right.
//!
//! A record is a byte of choices, three bytes of nothing, and: with an even first byte a transport
//! header of twelve bytes and what follows it; with bit 1 its queue number, with bit 2 its PSN is made right. With an odd first byte it is a frame as
//! it is.

use std::time::Duration;

use crate::{
    input::Input,
    node::{Link, Mr, Node, ALL},
    pair::{end, End},
    Features, Plan, Target,
};

/// The door.
pub struct Packet;

struct Stage {
    node: Node,
    ends: Vec<End>,
    mr: Mr,
}

/// A card with connections whose other ends are played by the input.
fn stage() -> Stage {
    let mut node = Node::new(1);
    let (mac, gid) = (node.mac, node.gid);
    let mr = node.mr(1 << 14, ALL);
    let mut ends = Vec::new();
    for (st, mask) in [(0, 0xe), (1, 0x8), (2, 0)] {
        let mut end = end(&mut node, st);
        let link = Link {
            mask,
            ..Link::default()
        };
        node.move_rtr(&end.qp, 0x55, mac, gid, link);
        node.move_rts(&end.qp, link);
        for _ in 0..8 {
            node.post_recv(&mut end.qp, &[(mr.key, mr.va, 4096)]);
        }
        ends.push(end);
    }
    Stage { node, ends, mr }
}

/// A frame to the card with any transport header.
fn frame(node: &Node, transport: &[u8]) -> Option<Vec<u8>> {
    let total = u16::try_from(20 + 8 + transport.len() + 4).ok()?;
    let mut datagram = vec![0x45, 0];
    datagram.extend(total.to_be_bytes());
    datagram.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    datagram.extend(&node.gid[12..]);
    datagram.extend(&node.gid[12..]);
    let sum: u32 = datagram
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    // CAST: the folded sum has 16 bits.
    datagram[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    datagram.extend([0xc1, 0x23, 0x12, 0xb7]);
    datagram.extend((total - 20).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(transport);
    let icrc = roce::icrc(&datagram)?;
    datagram.extend(icrc);
    let mut frame = [node.mac, node.mac].concat();
    frame.extend([8, 0]);
    frame.extend(datagram);
    Some(frame)
}

fn record(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut record = vec![6, 0, 0, 0, opcode, 0, 0xff, 0xff, 0, 0, 0, 0, 0x80, 0, 0, 0];
    record.extend_from_slice(body);
    record
}

impl Target for Packet {
    fn name(&self) -> &'static str {
        "packet"
    }

    fn seeds(&self) -> Vec<Input> {
        let Stage { node, mr, .. } = stage();
        let mut write = mr.va.to_be_bytes().to_vec();
        write.extend(mr.key.to_be_bytes());
        write.extend(8u32.to_be_bytes());
        write.extend([7; 8]);
        let mut arp = vec![1, 0, 0, 0];
        arp.extend([0xff; 6]);
        arp.extend(node.mac);
        arp.extend([8, 6]);
        arp.resize(64, 0);
        vec![
            Input::new([record(0x04, &[1, 2, 3, 4])]),
            Input::new([record(0x0a, &write)]),
            Input::new([arp]),
        ]
    }

    fn words(&self) -> Vec<Vec<u8>> {
        let Stage { mr, .. } = stage();
        vec![
            mr.key.to_be_bytes().to_vec(),
            mr.va.to_be_bytes().to_vec(),
            vec![0x11, 0x11, 0x11, 0x11],
            vec![8, 0, 0x45, 0],
            vec![0x86, 0xdd, 0x60, 0],
            vec![0x81, 0, 0, 5],
        ]
        .into_iter()
        .chain((0..0x18).map(|opcode| vec![opcode, 0, 0xff, 0xff]))
        .collect()
    }

    fn run(&self, input: &Input, plan: Plan, features: &mut Features) {
        let Stage {
            mut node,
            mut ends,
            mr: _,
        } = stage();
        let mut psns = [Link::default().psn; 3];
        for record in &input.records {
            let [how, _, _, _, bytes @ ..] = record.as_slice() else {
                continue;
            };
            if how & 1 == 1 {
                node.driver.card.receive(bytes);
                continue;
            }
            let mut transport = bytes.to_vec();
            transport.resize(transport.len().clamp(12, 5000).next_multiple_of(4), 0);
            let index = usize::from(how >> 6) % 3;
            if how & 2 != 0 {
                transport[5..8].copy_from_slice(&ends[index].qp.qpn.to_be_bytes()[1..]);
            }
            if how & 4 != 0 {
                transport[9..12].copy_from_slice(&psns[index].to_be_bytes()[1..]);
                psns[index] = psns[index].wrapping_add(1) & 0xff_ffff;
            }
            if let Some(frame) = frame(&node, &transport) {
                node.driver.card.receive(&frame);
            }
            while let Some(answer) = node.driver.machine.take_frame() {
                features.saw(("answer", answer.len()));
            }
        }
        for _ in 0..50 {
            match node.driver.card.next_deadline() {
                None => break,
                Some(due) if due.is_zero() => node.driver.card.tick(),
                Some(_) => node.advance(Duration::from_millis(300)),
            }
        }
        look(&mut node, &mut ends, plan, features);
    }
}

fn look(node: &mut Node, ends: &mut [End], plan: Plan, features: &mut Features) {
    for (index, end) in ends.iter_mut().enumerate() {
        while let Some(wc) = node.poll(&mut end.cq) {
            features.saw((index, wc.opcode, wc.syndrome, wc.bytes.checked_ilog2()));
        }
        features.saw((index, node.state(&end.qp)));
    }
    for event in node.take_events() {
        features.saw(("event", event.kind));
    }
    let card = node.driver.card.counters();
    for (name, count) in card.transport.iter().chain(&card.ethernet) {
        features.saw((name, count.checked_ilog2()));
    }
    // Requests counted in the set of the queues: a READ that was let in.
    let reads = node.q_counter(0x18);
    features.saw(("reads", reads.checked_ilog2()));
    plan.trip(reads > 0);
}
