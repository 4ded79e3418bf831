// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a message costs does not depend on how many queues there are, and an idle card wants
//! nothing of anybody. Measured in counts: no clock is involved.

use super::{node::*, op, pattern, CE};

/// What one message on the own card costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    turns: u64,
    read: u64,
    written: u64,
    cqes: u64,
    interrupts: u64,
}

fn cost(node: &Node) -> Cost {
    let counters = node.driver.card.counters();
    Cost {
        turns: counters.turns,
        read: counters.dma_read_bytes,
        written: counters.dma_written_bytes,
        cqes: counters.cqes,
        interrupts: counters.interrupts,
    }
}

/// One WRITE of a kilobyte on the last of `count` connections of a card to itself.
fn message(count: usize) -> Cost {
    let mut node = Node::with(1, |profile| {
        // Firmware pages for all of them at once.
        (profile.pages.init, profile.pages.reserve) = (4000, 4000);
    });
    let mut cq = node.cq(6);
    let (mac, gid) = (node.mac, node.gid);
    let mut last = None;
    for _ in 0..count {
        let qp = node.qp(0, &cq, &cq);
        node.move_init(&qp, &cq, &cq, 0);
        node.move_rtr(&qp, qp.qpn, mac, gid, Link::default());
        node.move_rts(&qp, Link::default());
        last = Some(qp);
    }
    let mut qp = last.expect("at least one");
    let (from, to) = (node.mr(1024, ALL), node.mr(1024, ALL));
    node.fill(&from, &pattern(1024, 4));
    assert_eq!(
        node.driver.card.next_deadline(),
        None,
        "idle: no timer runs"
    );
    let segments = [raddr(to.va, to.key), data(&[(from.key, from.va, 1024)])].concat();
    node.post(&mut qp, op::WRITE, CE, 0, &segments);

    let before = cost(&node);
    node.doorbell(&qp);
    let after = cost(&node);

    // The doorbell write itself has done all of it: no other thread, no tick.
    let wc = node.poll(&mut cq).expect("completed inside the doorbell");
    assert_eq!(wc.syndrome, 0);
    assert_eq!(node.bytes(&to, 1024), pattern(1024, 4));
    Cost {
        turns: after.turns - before.turns,
        read: after.read - before.read,
        written: after.written - before.written,
        cqes: after.cqes - before.cqes,
        interrupts: after.interrupts - before.interrupts,
    }
}

#[test]
fn a_message_costs_the_same_among_4096_queues_as_alone() {
    let alone = message(1);
    assert_eq!(message(4096), alone);
    assert_eq!(alone.cqes, 1);
    // The payload once, the completion, and nothing that is not needed.
    assert_eq!(alone.written, 1024 + 64);
    assert!(alone.read <= 1024 + 64 + 64, "{alone:?}");
    assert!(alone.turns <= 4, "{alone:?}");
}
