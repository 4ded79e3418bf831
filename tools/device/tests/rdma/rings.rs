// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work queues and completion queues around the ends of their rings and of their counters.

use super::{node::*, op, pair::*, CE};
use proptest::prelude::*;

/// A QP connected to itself with a CQ of 2^`log` entries.
fn looped(log: u32) -> (Node, End) {
    let mut node = Node::new(1);
    let cq = node.cq(log);
    let qp = node.qp(0, &cq, &cq);
    node.move_init(&qp, &cq, &cq, 0);
    let (mac, gid) = (node.mac, node.gid);
    node.move_rtr(&qp, qp.qpn, mac, gid, Link::default());
    node.move_rts(&qp, Link::default());
    (node, End { cq, qp })
}

/// Posts a NOP of `units` times 16 bytes; its index.
fn nop(node: &mut Node, end: &mut End, units: usize) -> u16 {
    let index = end.qp.sq_pi;
    let segments = vec![0x5a; (units - 1) * 16];
    node.post(&mut end.qp, op::NOP, CE, 0, &segments);
    index
}

#[derive(Clone, Debug)]
enum Step {
    /// Requests of these sizes, in units of 16 bytes, behind one doorbell.
    Post(Vec<usize>),
    Poll(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec(1usize..=20, 1..5).prop_map(Step::Post),
        (0usize..6).prop_map(Step::Poll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn each_request_completes_once_and_in_order(
        log in 0u32..5,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let (mut node, mut end) = looped(log);
        let mut waiting = std::collections::VecDeque::new();
        for step in steps {
            match step {
                Step::Post(sizes) => {
                    for units in sizes {
                        // Neither ring is overrun: a driver counts too.
                        if waiting.len() < 1 << log {
                            waiting.push_back(nop(&mut node, &mut end, units));
                            let qp = end.qp.clone();
                            node.doorbell(&qp);
                        }
                    }
                }
                Step::Poll(count) => {
                    for _ in 0..count {
                        let wc = node.poll(&mut end.cq);
                        let seen = wc.map(|wc| (wc.syndrome, wc.counter));
                        prop_assert_eq!(seen, waiting.pop_front().map(|index| (0, index)));
                    }
                }
            }
        }
        while let Some(index) = waiting.pop_front() {
            prop_assert_eq!(node.poll(&mut end.cq).map(|wc| wc.counter), Some(index));
        }
        prop_assert!(node.poll(&mut end.cq).is_none());
    }
}

/// 16 bits of the send queue's counter; the longest requests get there soonest.
#[test]
fn the_counter_of_the_send_queue_wraps() {
    let (mut node, mut end) = looped(3);
    let mut wrapped = 0;
    for _ in 0..4200 {
        let before = end.qp.sq_pi;
        let index = nop(&mut node, &mut end, 63);
        wrapped += u32::from(end.qp.sq_pi < before);
        let qp = end.qp.clone();
        node.doorbell(&qp);
        let wc = node.poll(&mut end.cq).unwrap();
        assert_eq!((wc.syndrome, wc.counter), (0, index));
    }
    assert_eq!(wrapped, 1);
}
