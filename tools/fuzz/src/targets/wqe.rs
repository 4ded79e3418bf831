// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Send requests of every service type, receives and doorbell records.
//!
//! A record is a byte of choices, three bytes of nothing and the bytes of a request: bits 1:0 pick the queue (RC, UC, UD,
//! RC), bit 2 leaves the index and bit 3 the queue number as they are (else they are made right),
//! bit 4 leaves the size; with bit 5 the bytes are a receive request, with bit 6 a doorbell record.

use std::time::Duration;

use crate::{
    input::Input,
    node::{data, raddr, Link, Mr, Node, ALL},
    pair::{end, End},
    Features, Plan, Target,
};

/// The door.
pub struct Wqe;

/// A card whose queues are connected to themselves.
struct Stage {
    node: Node,
    ends: Vec<End>,
    mr: Mr,
}

const BYTES: usize = 1 << 16;

/// Of requests, and two that do not exist.
const OPCODES: [u8; 11] = [8, 9, 0xa, 0xb, 1, 0x10, 0x11, 0x12, 0x25, 0x0e, 0x3f];

fn stage() -> Stage {
    let mut node = Node::new(1);
    let (mac, gid) = (node.mac, node.gid);
    let mut ends = Vec::new();
    for (st, mask) in [(0, 0xe), (1, 0x8), (2, 0)] {
        let end = end(&mut node, st);
        let link = Link {
            mask,
            ..Link::default()
        };
        node.move_rtr(&end.qp, end.qp.qpn, mac, gid, link);
        node.move_rts(&end.qp, link);
        ends.push(end);
    }
    let mr = node.mr(BYTES, ALL);
    for end in &mut ends {
        for _ in 0..4 {
            node.post_recv(&mut end.qp, &[(mr.key, mr.va, BYTES as u32)]);
        }
    }
    Stage { node, ends, mr }
}

fn request(opcode: u8, segments: &[Vec<u8>]) -> Vec<u8> {
    let mut record = vec![
        0, 0, 0, 0, 0, 0, 0, opcode, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0,
    ];
    record.extend(segments.concat());
    record
}

impl Target for Wqe {
    fn name(&self) -> &'static str {
        "wqe"
    }

    fn seeds(&self) -> Vec<Input> {
        let Stage { mr, .. } = stage();
        let gather = data(&[(mr.key, mr.va, 600)]);
        let receive = [vec![0x20, 0, 0, 0], data(&[(mr.key, mr.va, 4096)])].concat();
        vec![
            Input::new([request(0, &[])]),
            Input::new([receive, request(0x0a, &[gather.clone()])]),
            Input::new([request(0x10, &[raddr(mr.va + 8192, mr.key), gather])]),
        ]
    }

    fn words(&self) -> Vec<Vec<u8>> {
        let Stage { mr, .. } = stage();
        vec![
            mr.key.to_be_bytes().to_vec(),
            mr.va.to_be_bytes().to_vec(),
            (mr.va + 4096).to_be_bytes().to_vec(),
            vec![0x80, 0, 0, 8],
            vec![0, 0, 0, 8],
            vec![0, 0, 16, 0],
        ]
        .into_iter()
        .chain(OPCODES.map(|opcode| vec![0, 0, 0, opcode]))
        .collect()
    }

    fn run(&self, input: &Input, plan: Plan, features: &mut Features) {
        let Stage {
            mut node,
            mut ends,
            mr: _,
        } = stage();
        for record in &input.records {
            let [how, _, _, _, bytes @ ..] = record.as_slice() else {
                continue;
            };
            let end = &mut ends[usize::from(how & 3) % 3];
            if how & 0x20 != 0 {
                let at = end.qp.buffer + 64 * u64::from(end.qp.rq_pi % 16);
                node.driver.machine.poke(at, &bytes[..bytes.len().min(64)]);
                end.qp.rq_pi = end.qp.rq_pi.wrapping_add(1);
                let pi = u32::from(end.qp.rq_pi).to_be_bytes();
                node.driver.machine.poke(end.qp.record, &pi);
                continue;
            }
            if how & 0x40 != 0 {
                let record = &bytes[..bytes.len().min(8)];
                node.driver.machine.poke(end.qp.record, record);
                node.doorbell(&end.qp);
                continue;
            }
            let mut wqe = bytes.to_vec();
            wqe.resize(wqe.len().next_multiple_of(16).clamp(16, 1024), 0);
            if how & 4 == 0 {
                wqe[1..3].copy_from_slice(&end.qp.sq_pi.to_be_bytes());
            }
            if how & 8 == 0 {
                wqe[4..7].copy_from_slice(&end.qp.qpn.to_be_bytes()[1..]);
            }
            if how & 16 == 0 {
                // CAST: at most 64.
                wqe[7] = (wqe.len() / 16) as u8;
            }
            node.post_raw(&mut end.qp, &wqe);
            node.doorbell(&end.qp);
        }
        settle(&mut node);
        look(&mut node, &mut ends, plan, features);
    }
}

/// Lets everything come to its end.
fn settle(node: &mut Node) {
    for _ in 0..400 {
        match node.driver.card.next_deadline() {
            None => return,
            Some(due) if due.is_zero() => node.driver.card.tick(),
            Some(_) => node.advance(Duration::from_millis(300)),
        }
    }
}

fn look(node: &mut Node, ends: &mut [End], plan: Plan, features: &mut Features) {
    for (index, end) in ends.iter_mut().enumerate() {
        while let Some(wc) = node.poll(&mut end.cq) {
            features.saw((index, wc.opcode, wc.wqe_opcode, wc.syndrome));
            features.saw((index, wc.opcode, wc.bytes.checked_ilog2()));
            // A WRITE or an atomic that went well: no seed has one.
            plan.trip(wc.opcode == 0 && matches!(wc.wqe_opcode, 8 | 9 | 0x11 | 0x12));
        }
        features.saw((index, node.state(&end.qp)));
    }
    for event in node.take_events() {
        features.saw(("event", event.kind));
    }
    for (name, count) in &node.driver.card.counters().transport {
        features.saw((name, count.checked_ilog2()));
    }
}
