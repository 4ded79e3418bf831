// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each way to fail, with the syndrome on either side, the event, and what is left afterwards.

use super::{node::*, op, pair::*, pattern, CE};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const ERR: u8 = 6;
const FLUSHED: u8 = 0x05;

/// Posts one request and two more behind it, lets it fail, and returns the syndromes in order.
fn fails(pair: &mut Pair, a: &mut End, opcode: u8, segments: &[u8]) -> Vec<u8> {
    pair.a.post(&mut a.qp, opcode, CE, 0, segments);
    pair.a.post(&mut a.qp, op::NOP, 0, 0, &[]);
    pair.a.post(&mut a.qp, op::NOP, CE, 0, &[]);
    pair.a.doorbell(&a.qp);
    let mut seen = Vec::new();
    let done = pair.run_until(LONG, |pair| {
        while let Some(wc) = pair.a.poll(&mut a.cq) {
            seen.push(wc);
        }
        seen.len() >= 3
    });
    assert!(done, "{seen:?}");
    assert_eq!(
        seen.iter().map(|wc| wc.counter).collect::<Vec<_>>().len(),
        3
    );
    assert!(seen.windows(2).all(|two| two[0].counter < two[1].counter));
    assert_eq!(pair.a.state(&a.qp), ERR);
    seen.iter().map(|wc| wc.syndrome).collect()
}

fn kinds(node: &mut Node) -> Vec<(u8, u32)> {
    node.take_events()
        .iter()
        .filter(|event| event.kind != 0)
        .map(|event| {
            let number: [u8; 4] = event.data[24..].try_into().unwrap();
            (event.kind, u32::from_be_bytes(number))
        })
        .collect()
}

const COMM_EST: u8 = 0x02;
const CQ_ERROR: u8 = 0x04;
const CATASTROPHE: u8 = 0x05;
const INVALID: u8 = 0x10;
const ACCESS: u8 = 0x11;

struct Setup {
    pair: Pair,
    a: End,
    b: End,
    source: Mr,
    sink: Mr,
}

fn setup(link: Link) -> Setup {
    let mut pair = Pair::new();
    let (a, b) = connect(&mut pair, 0, link);
    let source = pair.a.mr(8192, ALL);
    let sink = pair.b.mr(8192, ALL);
    Setup {
        pair,
        a,
        b,
        source,
        sink,
    }
}

#[test]
fn a_bad_local_key_is_a_local_protection_error() {
    let Setup {
        mut pair,
        mut a,
        mut b,
        source,
        sink,
    } = setup(Link::default());
    pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 100)]);
    for segment in [
        (source.key ^ 1, source.va, 100),
        (source.key + 0x10_0000, source.va, 100),
        (source.key, source.va - 1, 100),
        (source.key, source.va + 8192 - 99, 100),
        (source.key, u64::MAX - 10, 100),
    ] {
        let seen = fails(&mut pair, &mut a, op::SEND, &data(&[segment]));
        assert_eq!(seen, [0x04, FLUSHED, FLUSHED], "{segment:x?}");
        // Back from RESET; the other side never saw anything.
        pair.a.move_rst(&mut a.qp);
        let cq = a.cq.clone();
        pair.a.move_init(&a.qp, &cq, &cq, 0);
        let (mac, gid) = (pair.b.mac, pair.b.gid);
        pair.a.move_rtr(&a.qp, b.qp.qpn, mac, gid, Link::default());
        pair.a.move_rts(&a.qp, Link::default());
    }
    assert!(pair.b.poll(&mut b.cq).is_none());
}

#[test]
fn remote_access_outside_or_without_right_is_refused() {
    let reads = |va: u64, key: u32| (op::READ, va, key);
    let Setup { sink, .. } = setup(Link::default());
    let cases: Vec<(u8, u64, u32, u8)> = vec![
        (op::WRITE, sink.va - 1, sink.key, ALL),
        (op::WRITE, sink.va + 8192 - 99, sink.key, ALL),
        (op::WRITE, sink.va, sink.key ^ 1, ALL),
        (op::WRITE, u64::MAX - 50, sink.key, ALL),
        (op::WRITE, sink.va, sink.key, ALL & !0x2),
        (reads(sink.va, sink.key).0, sink.va, sink.key, ALL & !0x4),
        (op::READ, sink.va + 8192, sink.key, ALL),
    ];
    for (opcode, va, key, rights) in cases {
        let Setup {
            mut pair,
            mut a,
            b,
            source,
            ..
        } = setup(Link {
            rights,
            ..Link::default()
        });
        let segments = [raddr(va, key), data(&[(source.key, source.va, 100)])].concat();
        let seen = fails(&mut pair, &mut a, opcode, &segments);
        assert_eq!(seen, [0x13, FLUSHED, FLUSHED], "{opcode:#x} {va:#x}");
        assert_eq!(pair.b.state(&b.qp), ERR);
        let events = kinds(&mut pair.b);
        assert!(events.contains(&(ACCESS, b.qp.qpn)), "{events:?}");
    }
}

#[test]
fn a_key_without_the_right_is_refused() {
    for (opcode, rights) in [(op::WRITE, ALL & !0x2), (op::READ, ALL & !0x4)] {
        let Setup {
            mut pair,
            mut a,
            source,
            ..
        } = setup(Link::default());
        let sink = pair.b.mr(8192, rights);
        let segments = [
            raddr(sink.va, sink.key),
            data(&[(source.key, source.va, 100)]),
        ]
        .concat();
        let seen = fails(&mut pair, &mut a, opcode, &segments);
        assert_eq!(seen[0], 0x13);
    }
}

#[test]
fn a_key_of_another_domain_is_refused() {
    let Setup {
        mut pair,
        mut a,
        source,
        ..
    } = setup(Link::default());
    let own = pair.b.pd;
    pair.b.pd = pair.b.driver.alloc_pd();
    let sink = pair.b.mr(8192, ALL);
    pair.b.pd = own;
    let segments = [
        raddr(sink.va, sink.key),
        data(&[(source.key, source.va, 100)]),
    ]
    .concat();
    assert_eq!(fails(&mut pair, &mut a, op::WRITE, &segments)[0], 0x13);
}

#[test]
fn a_message_too_long_for_its_receive_fails_both_sides() {
    let Setup {
        mut pair,
        mut a,
        mut b,
        source,
        sink,
    } = setup(Link::default());
    pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 3000)]);
    pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 3000)]);
    let seen = fails(
        &mut pair,
        &mut a,
        op::SEND,
        &data(&[(source.key, source.va, 3001)]),
    );
    assert_eq!(seen[0], 0x12, "remote invalid request");
    let received: Vec<u8> = std::iter::from_fn(|| pair.b.poll(&mut b.cq))
        .map(|wc| wc.syndrome)
        .collect();
    assert_eq!(received, [0x01, FLUSHED]);
}

#[test]
fn a_receive_with_a_bad_key_is_a_remote_operation_error() {
    let Setup {
        mut pair,
        mut a,
        mut b,
        source,
        sink,
    } = setup(Link::default());
    pair.b
        .post_recv(&mut b.qp, &[(sink.key ^ 1, sink.va, 3000)]);
    let seen = fails(
        &mut pair,
        &mut a,
        op::SEND,
        &data(&[(source.key, source.va, 100)]),
    );
    assert_eq!(seen[0], 0x14);
    assert_eq!(pair.b.poll(&mut b.cq).unwrap().syndrome, 0x04);
}

#[test]
fn a_silent_peer_uses_up_the_retries() {
    let Setup {
        mut pair,
        mut a,
        source,
        sink,
        ..
    } = setup(Link {
        retry: 2,
        ..Link::default()
    });
    pair.fate = Box::new(|_, _| Fate::Drop);
    let segments = [
        raddr(sink.va, sink.key),
        data(&[(source.key, source.va, 100)]),
    ]
    .concat();
    assert_eq!(fails(&mut pair, &mut a, op::WRITE, &segments)[0], 0x15);
    // local_ack_timeout_err: the first time and two retries.
    assert_eq!(pair.a.q_counter(0x60), 3);
}

#[test]
fn a_receiver_that_is_never_ready_uses_up_its_retries() {
    let Setup {
        mut pair,
        mut a,
        source,
        ..
    } = setup(Link {
        rnr_retry: 3,
        ..Link::default()
    });
    let seen = fails(
        &mut pair,
        &mut a,
        op::SEND,
        &data(&[(source.key, source.va, 100)]),
    );
    assert_eq!(seen[0], 0x16);
    assert_eq!(pair.b.q_counter(0x30), 4, "out_of_buffer");
    assert_eq!(pair.a.q_counter(0x48), 3, "rnr_nak_retry_err");
}

#[test]
fn a_receiver_that_becomes_ready_gets_the_message() {
    let Setup {
        mut pair,
        mut a,
        mut b,
        source,
        sink,
    } = setup(Link::default());
    let bytes = pattern(5000, 2);
    pair.a.fill(&source, &bytes);
    pair.a.post(
        &mut a.qp,
        op::SEND,
        CE,
        0,
        &data(&[(source.key, source.va, 5000)]),
    );
    pair.a.doorbell(&a.qp);
    assert!(!pair.run_until(Duration::from_millis(200), |pair| {
        pair.a.poll(&mut a.cq).is_some()
    }));
    pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 5000)]);
    assert!(pair.run_until(LONG, |pair| pair.a.poll(&mut a.cq).is_some()));
    assert_eq!(pair.b.bytes(&sink, 5000), bytes);
    assert_eq!(pair.b.poll(&mut b.cq).unwrap().bytes, 5000);
}

#[test]
fn malformed_requests_are_local_operation_errors() {
    for (opcode, segments) in [
        (0x3f, vec![]),
        (op::WRITE, vec![]),
        (op::FETCH_ADD, raddr(0, 0)),
        (op::SEND_INVAL | 0x40, vec![0; 16]),
    ] {
        let Setup {
            mut pair, mut a, ..
        } = setup(Link::default());
        let seen = fails(&mut pair, &mut a, opcode, &segments);
        assert_eq!(seen, [0x02, FLUSHED, FLUSHED], "{opcode:#x}");
    }
}

#[test]
fn good_requests_before_a_bad_one_complete() {
    let Setup {
        mut pair,
        mut a,
        source,
        sink,
        ..
    } = setup(Link::default());
    let good = [
        raddr(sink.va, sink.key),
        data(&[(source.key, source.va, 8192)]),
    ]
    .concat();
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &good);
    pair.a.post(&mut a.qp, op::READ, CE, 0, &good);
    let seen = {
        let bad = data(&[(source.key ^ 1, source.va, 8)]);
        pair.a.post(&mut a.qp, op::SEND, CE, 0, &bad);
        pair.a.doorbell(&a.qp);
        pair.run();
        let all = std::iter::from_fn(|| pair.a.poll(&mut a.cq));
        all.map(|wc| wc.syndrome).collect::<Vec<_>>()
    };
    assert_eq!(seen, [0, 0, 0x04]);
}

#[test]
fn everything_posted_after_the_error_is_flushed_too() {
    let Setup {
        mut pair,
        mut a,
        source,
        ..
    } = setup(Link::default());
    pair.a.post_recv(&mut a.qp, &[(source.key, source.va, 8)]);
    pair.a.move_err(&a.qp);
    pair.a.post(
        &mut a.qp,
        op::SEND,
        0,
        0,
        &data(&[(source.key, source.va, 8)]),
    );
    pair.a.doorbell(&a.qp);
    // The receive queue has no doorbell: the card finds this one by itself.
    pair.a.post_recv(&mut a.qp, &[(source.key, source.va, 8)]);
    let mut seen = Vec::new();
    assert!(pair.run_until(Duration::from_millis(20), |pair| {
        seen.extend(std::iter::from_fn(|| pair.a.poll(&mut a.cq)));
        seen.len() == 3
    }));
    assert!(seen.iter().all(|wc| wc.syndrome == FLUSHED));
    let receives: Vec<u16> = seen
        .iter()
        .filter(|wc| wc.opcode == 14)
        .map(|wc| wc.counter)
        .collect();
    assert_eq!(receives, [0, 1]);
    // After RESET nothing is written any more.
    pair.a.move_rst(&mut a.qp);
    pair.a.post(&mut a.qp, op::NOP, CE, 0, &[]);
    pair.a.doorbell(&a.qp);
    assert!(!pair.run_until(Duration::from_millis(20), |pair| {
        pair.a.poll(&mut a.cq).is_some()
    }));
}

#[test]
fn an_overrun_cq_fails_once_and_takes_only_its_own_qps() {
    let mut pair = Pair::new();
    let small = pair.a.cq(1);
    let other = end(&mut pair.a, 0);
    let mut qp = pair.a.qp(0, &small, &small);
    pair.a.move_init(&qp, &small, &small, 0);
    let (mac, gid) = (pair.b.mac, pair.b.gid);
    for qp in [&qp, &other.qp] {
        pair.a.move_rtr(qp, 1, mac, gid, Link::default());
        pair.a.move_rts(qp, Link::default());
    }
    for _ in 0..5 {
        pair.a.post(&mut qp, op::NOP, CE, 0, &[]);
    }
    pair.a.doorbell(&qp);
    pair.run();
    let errors: Vec<_> = pair
        .a
        .take_events()
        .into_iter()
        .filter(|event| event.kind == CQ_ERROR)
        .collect();
    assert_eq!(errors.len(), 1);
    let cqn: [u8; 4] = errors[0].data[..4].try_into().unwrap();
    assert_eq!(
        (u32::from_be_bytes(cqn), errors[0].data[11]),
        (small.cqn, 1)
    );
    assert_eq!(pair.a.state(&qp), ERR);
    assert_eq!(pair.a.state(&other.qp), 3);
    assert_eq!(pair.a.driver.card.counters().cq_overruns, 1);
}

#[test]
fn a_corrupted_context_is_a_catastrophe() {
    let Setup { mut pair, a, .. } = setup(Link::default());
    let fault = device::fault::Fault::QpContext { qpn: a.qp.qpn };
    pair.a.driver.card.inject(fault).unwrap();
    assert_eq!(pair.a.state(&a.qp), ERR);
    assert!(kinds(&mut pair.a).contains(&(CATASTROPHE, a.qp.qpn)));
}

#[test]
fn more_posted_than_the_queue_holds_is_a_catastrophe() {
    let Setup {
        mut pair, mut a, ..
    } = setup(Link::default());
    pair.a.post(&mut a.qp, op::NOP, CE, 0, &[]);
    pair.a
        .driver
        .machine
        .poke(a.qp.record + 4, &1000u32.to_be_bytes());
    pair.a.doorbell(&a.qp);
    assert_eq!(pair.a.state(&a.qp), ERR);
    assert!(kinds(&mut pair.a).contains(&(CATASTROPHE, a.qp.qpn)));
}

#[test]
fn a_lagging_record_is_counted_and_authoritative() {
    let Setup {
        mut pair, mut a, ..
    } = setup(Link::default());
    pair.a.post(&mut a.qp, op::NOP, CE, 0, &[]);
    pair.a
        .driver
        .machine
        .poke(a.qp.record + 4, &0u32.to_be_bytes());
    pair.a.doorbell(&a.qp);
    pair.run();
    assert!(pair.a.poll(&mut a.cq).is_none());
    assert_eq!(
        pair.a.driver.card.counters().transport["doorbell_record_lags"],
        1
    );
    pair.a
        .driver
        .machine
        .poke(a.qp.record + 4, &1u32.to_be_bytes());
    pair.a.doorbell(&a.qp);
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
}

#[test]
fn the_first_packet_establishes_the_communication() {
    let mut pair = Pair::new();
    let a = end(&mut pair.a, 0);
    let b = end(&mut pair.b, 0);
    let (mac_a, gid_a) = (pair.a.mac, pair.a.gid);
    let (mac_b, gid_b) = (pair.b.mac, pair.b.gid);
    pair.a
        .move_rtr(&a.qp, b.qp.qpn, mac_b, gid_b, Link::default());
    pair.b
        .move_rtr(&b.qp, a.qp.qpn, mac_a, gid_a, Link::default());
    pair.a.move_rts(&a.qp, Link::default());
    let mut a = a;
    let sink = pair.b.mr(64, ALL);
    let source = pair.a.mr(64, ALL);
    let segments = [
        raddr(sink.va, sink.key),
        data(&[(source.key, source.va, 8)]),
    ]
    .concat();
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    pair.run();
    let established = kinds(&mut pair.b);
    assert_eq!(established, [(COMM_EST, b.qp.qpn)]);
    assert_eq!(INVALID, 0x10);
}
