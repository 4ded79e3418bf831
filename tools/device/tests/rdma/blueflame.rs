// SPDX-License-Identifier: Apache-2.0 OR MIT
//! WQEs that come with their doorbell. As in the stock driver's test (core/wc.c), the copy in
//! memory does not ask for a completion and the one in the register does.

use super::{node::*, op, pair::*, CE};

/// Posts a NOP that asks for nothing, and gives the line that would: what goes to the register.
fn post(node: &mut Node, a: &mut End) -> Vec<u8> {
    let index = u32::from(a.qp.sq_pi);
    node.post(&mut a.qp, op::NOP, 0, 0, &[]);
    let mut line = vec![0; 64];
    line[..4].copy_from_slice(&(index << 8 | u32::from(op::NOP)).to_be_bytes());
    line[4..8].copy_from_slice(&(a.qp.qpn << 8 | 1).to_be_bytes());
    line[11] = CE;
    line
}

fn register(node: &Node) -> u64 {
    u64::from(node.uar) * 4096 + 0x800
}

fn ring(node: &mut Node, at: u64, data: &[u8]) {
    node.driver.card.bar_write(at, data);
}

fn taken(node: &Node) -> (u64, u64) {
    let counters = node.driver.card.counters();
    (counters.blueflame, counters.blueflame_taken)
}

#[test]
fn what_the_register_got_is_executed() {
    let (mut node, mut a) = alone();
    for half in [0, 0x100, 0] {
        let line = post(&mut node, &mut a);
        let at = register(&node) + half;
        ring(&mut node, at, &line);
        let wc = node.poll(&mut a.cq).expect("completion");
        assert_eq!(wc.counter, a.qp.sq_pi - 1);
    }
    assert_eq!(taken(&node), (3, 3));
}

#[test]
fn a_line_in_pieces_is_a_plain_doorbell() {
    let (mut node, mut a) = alone();
    for size in [8, 16, 32, 56] {
        let line = post(&mut node, &mut a);
        let at = register(&node);
        for (n, piece) in line.chunks(size).enumerate() {
            ring(&mut node, at + (n * size) as u64, piece);
        }
        assert!(node.poll(&mut a.cq).is_none(), "pieces of {size}");
    }
    assert_eq!(taken(&node), (0, 0));
    // All of them were executed, from memory.
    node.post(&mut a.qp, op::NOP, CE, 0, &[]);
    node.doorbell(&a.qp);
    assert_eq!(node.poll(&mut a.cq).expect("completion").counter, 4);
    assert_eq!(node.driver.card.counters().stray_accesses, 0);
}

#[test]
fn only_the_next_request_counts() {
    let (mut node, mut a) = alone();
    post(&mut node, &mut a);
    let second = post(&mut node, &mut a);
    let at = register(&node);
    // Both are posted; the first is executed before the second, and both from memory.
    ring(&mut node, at, &second);
    assert!(node.poll(&mut a.cq).is_none());
    assert_eq!(taken(&node), (1, 0));
}

#[test]
fn a_line_ahead_of_the_record_is_forgotten() {
    let (mut node, mut a) = alone();
    let line = post(&mut node, &mut a);
    node.driver.machine.poke(a.qp.record + 4, &[0; 4]);
    let at = register(&node);
    ring(&mut node, at, &line);
    assert!(node.poll(&mut a.cq).is_none(), "not posted yet");
    node.driver.machine.poke(a.qp.record + 4, &[0, 0, 0, 1]);
    node.doorbell(&a.qp);
    assert!(node.poll(&mut a.cq).is_none(), "memory does not ask");
    assert_eq!(taken(&node), (1, 0));
}

#[test]
fn nonsense_in_a_line_is_the_error_it_is_in_memory() {
    let (mut node, mut a) = alone();
    let mut line = post(&mut node, &mut a);
    // Another queue's number behind a doorbell for this one cannot be: the size is what can lie.
    line[7] = 0x3f;
    let at = register(&node);
    ring(&mut node, at, &line);
    assert_eq!(taken(&node), (0, 0), "63 segments do not fit the line");
    let mut line = post(&mut node, &mut a);
    line[3] = 0x77;
    ring(&mut node, at, &line);
    let wc = node.poll(&mut a.cq).expect("error");
    assert_ne!(wc.syndrome, 0);
    assert_eq!(taken(&node), (1, 1));
}
