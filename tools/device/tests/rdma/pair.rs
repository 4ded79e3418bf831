// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two cards on one cable, or two QPs of one card.

use super::node::*;
use std::time::Duration;

/// What the cable does to frame number `n` of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    /// Behind the next one.
    Late,
    Twice,
    /// Marked for congestion, if its sender is capable of ECN.
    Mark,
}

/// Decides about a frame by its number and bytes.
pub type Weather = Box<dyn FnMut(u64, &[u8]) -> Fate>;

pub struct Pair {
    pub a: Node,
    pub b: Node,
    pub fate: Weather,
    frames: u64,
    pub carried: u64,
}

impl Pair {
    pub fn new() -> Self {
        Self {
            a: Node::new(1),
            b: Node::new(2),
            fate: Box::new(|_, _| Fate::Pass),
            frames: 0,
            carried: 0,
        }
    }

    /// Carries frames until the cable is quiet.
    pub fn run(&mut self) {
        loop {
            let mut moved = 0;
            for forward in [true, false] {
                let mut late = None;
                loop {
                    let (from, to) = match forward {
                        true => (&self.a, &mut self.b),
                        false => (&self.b, &mut self.a),
                    };
                    let Some(mut frame) = from.driver.machine.take_frame() else {
                        break;
                    };
                    moved += 1;
                    self.frames += 1;
                    self.carried += frame.len() as u64;
                    match (self.fate)(self.frames, &frame) {
                        Fate::Pass => to.driver.card.receive(&frame),
                        Fate::Drop => {}
                        Fate::Mark => {
                            mark(&mut frame);
                            to.driver.card.receive(&frame);
                        }
                        Fate::Late => {
                            if let Some(earlier) = late.replace(frame) {
                                to.driver.card.receive(&earlier);
                            }
                            continue;
                        }
                        Fate::Twice => {
                            to.driver.card.receive(&frame);
                            to.driver.card.receive(&frame);
                        }
                    }
                    if let Some(late) = late.take() {
                        to.driver.card.receive(&late);
                    }
                }
                if let Some(late) = late {
                    let to = if forward { &mut self.b } else { &mut self.a };
                    to.driver.card.receive(&late);
                }
            }
            for node in [&mut self.a, &mut self.b] {
                let due = node.driver.card.next_deadline();
                if due.is_some_and(|due| due == Duration::ZERO) {
                    node.driver.card.tick();
                    moved += 1;
                }
            }
            if moved == 0 {
                return;
            }
        }
    }

    /// Runs, and lets time pass in steps of 1 ms up to `total`, until `done`.
    pub fn run_until(&mut self, total: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let mut left = total;
        loop {
            self.run();
            if done(self) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            let step = Duration::from_millis(1).min(left);
            left -= step;
            self.a.advance(step);
            self.b.advance(step);
        }
    }
}

/// What a congested switch does.
fn mark(frame: &mut Vec<u8>) {
    if let Ok(packet) = roce::Packet::parse(frame) {
        let mut headers = packet.headers;
        if headers.ip.tos & 3 != 0 {
            headers.ip.tos |= 3;
            *frame = roce::Frame::of(&packet).seal(&headers).unwrap().to_vec();
        }
    }
}

/// One side of a connection.
pub struct End {
    pub cq: Cq,
    pub qp: Qp,
}

pub fn end(node: &mut Node, st: u64) -> End {
    let cq = node.cq(7);
    let qp = node.qp(st, &cq, &cq);
    node.move_init(&qp, &cq, &cq, 0x1111_1111);
    End { cq, qp }
}

/// A card with an RC QP that is its own peer.
pub fn alone() -> (Node, End) {
    let mut node = Node::new(1);
    let a = end(&mut node, 0);
    let (mac, gid) = (node.mac, node.gid);
    node.move_rtr(&a.qp, a.qp.qpn, mac, gid, Link::default());
    node.move_rts(&a.qp, Link::default());
    (node, a)
}

/// Two connected ends on the two cards; `st` 0 is RC, 1 UC.
pub fn connect(pair: &mut Pair, st: u64, link: Link) -> (End, End) {
    let a = end(&mut pair.a, st);
    let b = end(&mut pair.b, st);
    let (mac_a, gid_a) = (pair.a.mac, pair.a.gid);
    let (mac_b, gid_b) = (pair.b.mac, pair.b.gid);
    pair.a.move_rtr(&a.qp, b.qp.qpn, mac_b, gid_b, link);
    pair.b.move_rtr(&b.qp, a.qp.qpn, mac_a, gid_a, link);
    pair.a.move_rts(&a.qp, link);
    pair.b.move_rts(&b.qp, link);
    (a, b)
}
