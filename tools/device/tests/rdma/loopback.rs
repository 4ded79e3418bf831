// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One card talking to itself: nothing on the cable, nothing left to a timer.

use super::{
    node::*,
    op,
    pair::{alone, end},
    pattern, CE,
};

#[test]
fn a_big_write_to_the_own_card_needs_no_timer_and_no_cable() {
    let mut node = Node::new(1);
    let mut a = end(&mut node, 0);
    let b = end(&mut node, 0);
    let (mac, gid) = (node.mac, node.gid);
    for (from, to) in [(&a, &b), (&b, &a)] {
        node.move_rtr(&from.qp, to.qp.qpn, mac, gid, Link::default());
        node.move_rts(&from.qp, Link::default());
    }
    let len = 3 << 20;
    let source = node.mr(len, ALL);
    let sink = node.mr(len, ALL);
    let bytes = pattern(len, 4);
    node.fill(&source, &bytes);
    let mut segments = raddr(sink.va, sink.key);
    segments.extend(data(&[(source.key, source.va, len as u32)]));
    node.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    node.doorbell(&a.qp);
    // Whatever is left is due at once, not later.
    let mut turns = 0;
    while node
        .poll(&mut a.cq)
        .map(|wc| assert_eq!(wc.syndrome, 0))
        .is_none()
    {
        assert_eq!(
            node.driver.card.next_deadline(),
            Some(std::time::Duration::ZERO)
        );
        node.driver.card.tick();
        turns += 1;
        assert!(turns < 1000);
    }
    assert!(node.bytes(&sink, len) == bytes);
    assert!(node.driver.machine.take_frame().is_none());
}

#[test]
fn a_qp_can_be_its_own_peer() {
    let (mut node, mut a) = alone();
    let mr = node.mr(8192, ALL);
    let bytes = pattern(4000, 8);
    node.fill(&mr, &bytes);
    node.post_recv(&mut a.qp, &[(mr.key, mr.va + 4096, 4096)]);
    node.post(&mut a.qp, op::SEND, CE, 0, &data(&[(mr.key, mr.va, 4000)]));
    node.doorbell(&a.qp);
    let wcs: Vec<Wc> = std::iter::from_fn(|| node.poll(&mut a.cq)).collect();
    assert_eq!(wcs.len(), 2);
    assert!(wcs.iter().all(|wc| wc.syndrome == 0 && wc.qpn == a.qp.qpn));
    assert_eq!(node.bytes(&mr, 8096)[4096..], bytes);
}

#[test]
fn completions_carry_the_clock_of_the_card_and_failed_ones_do_not() {
    const TIMER: u64 = 0x1000;
    let (mut node, mut a) = alone();
    let mr = node.mr(8192, ALL);
    // Long enough for the upper half of the clock to count.
    for seconds in [1, 9] {
        node.driver
            .machine
            .advance(std::time::Duration::from_secs(seconds));
        node.post_recv(&mut a.qp, &[(mr.key, mr.va + 4096, 64)]);
        node.post(&mut a.qp, op::SEND, CE, 0, &data(&[(mr.key, mr.va, 64)]));
        node.doorbell(&a.qp);
        let now = [TIMER, TIMER + 4].map(|at| node.driver.bar32(at));
        assert_ne!(now, [0, 0]);
        for _ in 0..2 {
            let index = u64::from(a.cq.ci);
            let wc = node.poll(&mut a.cq).expect("completed inside the doorbell");
            assert_eq!(wc.syndrome, 0);
            let stamp = [0x30, 0x34].map(|at| node.completion_word(&a.cq, index, at));
            assert_eq!(stamp, now);
        }
    }
    assert_ne!(node.driver.bar32(TIMER), 0);
    // Not its key.
    node.post(&mut a.qp, op::SEND, CE, 0, &data(&[(!mr.key, mr.va, 64)]));
    node.doorbell(&a.qp);
    let index = u64::from(a.cq.ci);
    let wc = node.poll(&mut a.cq).expect("failed inside the doorbell");
    assert_ne!(wc.syndrome, 0);
    assert_eq!(node.completion_word(&a.cq, index, 0x30), 0);
}
