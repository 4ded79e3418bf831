// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every operation of a connection, byte for byte, on good and on bad cables.

use super::{node::*, op, pair::*, pattern, CE, SE};
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(10);

/// Lengths around packets of 1024 bytes.
const LENGTHS: [usize; 7] = [0, 1, 1023, 1024, 1025, 4096, 70_001];

fn mrs(pair: &mut Pair, len: usize) -> (Mr, Mr) {
    (pair.a.mr(len.max(8), ALL), pair.b.mr(len.max(8), ALL))
}

fn gather(mr: &Mr, len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    // Two pieces, the first of odd length.
    let cut = (len / 3).max(1);
    let mut list = vec![(mr.key, mr.va, cut as u32)];
    if len > cut {
        list.push((mr.key, mr.va + cut as u64, (len - cut) as u32));
    }
    data(&list)
}

/// One message each way of moving data; everything is checked.
fn all_operations(pair: &mut Pair, len: usize, link: Link) {
    let (mut a, mut b) = connect(pair, 0, link);
    let (source, sink) = mrs(pair, len);
    let bytes = pattern(len, 1);
    pair.a.fill(&source, &bytes);
    let remote = raddr(sink.va, sink.key);

    // SEND with immediate.
    pair.b
        .post_recv(&mut b.qp, &[(sink.key, sink.va, len.max(1) as u32)]);
    pair.a.post(
        &mut a.qp,
        op::SEND_IMM,
        CE | SE,
        0xdead_beef,
        &gather(&source, len),
    );
    pair.a.doorbell(&a.qp);
    let got = finish(pair, &mut a, Some(&mut b));
    assert_eq!(pair.b.bytes(&sink, len), bytes);
    let wc = got.unwrap();
    assert_eq!((wc.opcode, wc.bytes, wc.imm), (3, len as u32, 0xdead_beef));
    assert!(wc.solicited);

    // WRITE.
    pair.b.fill(&sink, &vec![0; len]);
    let segments = [remote.clone(), gather(&source, len)].concat();
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    finish(pair, &mut a, None);
    assert_eq!(pair.b.bytes(&sink, len), bytes);

    // WRITE with immediate.
    pair.b.fill(&sink, &vec![0; len]);
    pair.b.post_recv(&mut b.qp, &[]);
    pair.a.post(&mut a.qp, op::WRITE_IMM, CE, 7, &segments);
    pair.a.doorbell(&a.qp);
    let wc = finish(pair, &mut a, Some(&mut b)).unwrap();
    assert_eq!((wc.opcode, wc.bytes, wc.imm), (1, len as u32, 7));
    assert_eq!(pair.b.bytes(&sink, len), bytes);

    // READ back.
    pair.a.fill(&source, &vec![0; len]);
    pair.a.post(&mut a.qp, op::READ, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    finish(pair, &mut a, None);
    assert_eq!(pair.a.bytes(&source, len), bytes);
}

/// Waits for the completion of the last request, and of a receive.
fn finish(pair: &mut Pair, a: &mut End, b: Option<&mut End>) -> Option<Wc> {
    let mut sent = None;
    let done = pair.run_until(SECOND, |pair| {
        sent = sent.or_else(|| pair.a.poll(&mut a.cq));
        sent.is_some()
    });
    assert!(done, "no completion");
    assert_eq!(sent.unwrap().syndrome, 0);
    let b = b?;
    let received = pair.b.poll(&mut b.cq);
    assert_eq!(received.unwrap().syndrome, 0);
    received
}

#[test]
fn every_operation_moves_every_byte() {
    for len in LENGTHS {
        all_operations(&mut Pair::new(), len, Link::default());
    }
}

#[test]
fn all_packet_sizes_work() {
    for mtu in 1..=5 {
        let link = Link {
            mtu,
            ..Link::default()
        };
        all_operations(&mut Pair::new(), 10_000, link);
    }
}

#[test]
fn lost_packets_are_sent_again() {
    let mut pair = Pair::new();
    pair.fate = Box::new(|n, _| if n % 7 == 3 { Fate::Drop } else { Fate::Pass });
    all_operations(&mut pair, 70_001, Link::default());
    assert!(pair.b.q_counter(0x38) > 0, "out_of_sequence");
    assert!(pair.a.q_counter(0x50) > 0, "packet_seq_err");
}

#[test]
fn late_and_repeated_packets_do_no_harm() {
    let mut pair = Pair::new();
    pair.fate = Box::new(|n, _| match n % 11 {
        2 | 5 => Fate::Late,
        7 | 8 => Fate::Twice,
        _ => Fate::Pass,
    });
    all_operations(&mut pair, 30_000, Link::default());
    assert!(pair.b.q_counter(0x40) > 0, "duplicate_request");
}

#[test]
fn damaged_packets_are_dropped_and_sent_again() {
    let mut pair = Pair::new();
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let (source, sink) = mrs(&mut pair, 5000);
    let bytes = pattern(5000, 9);
    pair.a.fill(&source, &bytes);
    let segments = [raddr(sink.va, sink.key), gather(&source, 5000)].concat();
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    let mut damaged = pair.a.driver.machine.take_frame().unwrap();
    damaged[80] ^= 1;
    pair.b.driver.card.receive(&damaged);
    finish(&mut pair, &mut a, None);
    assert_eq!(pair.b.bytes(&sink, 5000), bytes);
    assert_eq!(pair.b.driver.card.counters().transport["bad_packet"], 1);
}

#[test]
fn atomics_return_the_old_value_once() {
    let mut pair = Pair::new();
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let (source, sink) = mrs(&mut pair, 64);
    // The cable loses the answer of every second operation: the duplicate must not add again.
    pair.fate = Box::new(|n, _| if n % 4 == 2 { Fate::Drop } else { Fate::Pass });
    let big_endian = |value: u64| value.to_be_bytes().to_vec();
    pair.b.fill(&sink, &[0; 16]);
    let mut sum = 0u64;
    for add in [5u64, 1 << 40, u64::MAX] {
        let mut segments = raddr(sink.va + 8 - sink.va % 8, sink.key);
        segments.extend(big_endian(add));
        segments.extend([0; 8]);
        segments.extend(data(&[(source.key, source.va, 8)]));
        pair.a.post(&mut a.qp, op::FETCH_ADD, CE, 0, &segments);
        pair.a.doorbell(&a.qp);
        finish(&mut pair, &mut a, None);
        assert_eq!(atomic(&pair.a.bytes(&source, 8)), sum);
        sum = sum.wrapping_add(add);
    }
    // Compare and swap: once not equal, once equal.
    for (compare, expected) in [(sum + 1, sum), (sum, 77)] {
        let mut segments = raddr(sink.va + 8 - sink.va % 8, sink.key);
        segments.extend(big_endian(77));
        segments.extend(big_endian(compare));
        segments.extend(data(&[(source.key, source.va, 8)]));
        pair.a.post(&mut a.qp, op::CMP_SWAP, CE, 0, &segments);
        pair.a.doorbell(&a.qp);
        finish(&mut pair, &mut a, None);
        assert_eq!(atomic(&pair.a.bytes(&source, 8)), sum);
        let at = (8 - sink.va % 8) as usize;
        assert_eq!(atomic(&pair.b.bytes(&sink, 24)[at..at + 8]), expected);
    }
}

/// The default profile leaves operands in network order until the driver asks for host order.
fn atomic(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

#[test]
fn atomics_have_host_order_when_the_driver_chose_it() {
    let host = |profile: &mut device::profile::Profile| {
        let caps = profile.caps.get_mut("atomic_caps").unwrap();
        caps.insert("atomic_req_8B_endianness_mode".to_owned(), 1);
    };
    let mut pair = Pair::new();
    pair.a = Node::with(1, host);
    pair.b = Node::with(2, host);
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let (source, sink) = mrs(&mut pair, 64);
    let at = (8 - sink.va % 8) as usize;
    pair.b.fill(
        &sink,
        &[vec![0; at], 0xffu64.to_le_bytes().to_vec()].concat(),
    );
    let mut segments = raddr(sink.va + at as u64, sink.key);
    segments.extend(1u64.to_be_bytes());
    segments.extend([0; 8]);
    segments.extend(data(&[(source.key, source.va, 8)]));
    pair.a.post(&mut a.qp, op::FETCH_ADD, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    finish(&mut pair, &mut a, None);
    assert_eq!(pair.a.bytes(&source, 8), 0xffu64.to_le_bytes());
    assert_eq!(pair.b.bytes(&sink, at + 8)[at..], 0x100u64.to_le_bytes());
}

#[test]
fn inline_data_wraps_at_the_end_of_the_queue() {
    let mut pair = Pair::new();
    let (mut a, mut b) = connect(&mut pair, 0, Link::default());
    let sink = pair.b.mr(4096, ALL);
    // 180 bytes inline take 4 blocks with the control segment: 32 blocks are no multiple of 3.
    for round in 0..40u8 {
        let bytes = pattern(170, round);
        let mut segments = (bytes.len() as u32 | 1 << 31).to_be_bytes().to_vec();
        segments.extend(&bytes);
        segments.resize(segments.len().next_multiple_of(16), 0);
        segments.truncate(176);
        pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 4096)]);
        if round % 2 == 0 {
            pair.a.post(&mut a.qp, op::NOP, 0, 0, &[]);
        }
        pair.a.post(&mut a.qp, op::SEND, CE, 0, &segments);
        pair.a.doorbell(&a.qp);
        let wc = finish(&mut pair, &mut a, Some(&mut b)).unwrap();
        assert_eq!(wc.bytes, 170);
        assert_eq!(pair.b.bytes(&sink, 170), bytes);
    }
}

#[test]
fn many_requests_in_flight_complete_in_order() {
    let mut pair = Pair::new();
    pair.fate = Box::new(|n, _| if n % 13 == 5 { Fate::Drop } else { Fate::Pass });
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let (source, sink) = mrs(&mut pair, 60_000);
    let bytes = pattern(60_000, 3);
    pair.a.fill(&source, &bytes);
    // WRITE a piece, READ it back to another place, again and again.
    let mut expected = Vec::new();
    for part in 0..10u64 {
        let at = part * 3000;
        let piece = data(&[(source.key, source.va + at, 3000)]);
        let back = data(&[(source.key, source.va + 30_000 + at, 3000)]);
        let remote = raddr(sink.va + at, sink.key);
        expected.push(a.qp.sq_pi);
        pair.a.post(
            &mut a.qp,
            op::WRITE,
            CE,
            0,
            &[remote.clone(), piece].concat(),
        );
        expected.push(a.qp.sq_pi);
        pair.a
            .post(&mut a.qp, op::READ, CE, 0, &[remote, back].concat());
    }
    pair.a.doorbell(&a.qp);
    let mut seen = Vec::new();
    let done = pair.run_until(SECOND, |pair| {
        while let Some(wc) = pair.a.poll(&mut a.cq) {
            assert_eq!(wc.syndrome, 0);
            seen.push(wc.counter);
        }
        seen.len() == 20
    });
    assert!(done, "{seen:?}");
    assert_eq!(seen, expected);
    assert_eq!(pair.b.bytes(&sink, 30_000), bytes[..30_000]);
    assert_eq!(pair.a.bytes(&source, 60_000)[30_000..], bytes[..30_000]);
}

#[test]
fn an_unreliable_connection_drops_whole_messages_only() {
    let mut pair = Pair::new();
    let (mut a, mut b) = connect(
        &mut pair,
        1,
        Link {
            mask: 0x8,
            ..Link::default()
        },
    );
    let (source, sink) = mrs(&mut pair, 5000);
    pair.fate = Box::new(|n, _| if n == 2 { Fate::Drop } else { Fate::Pass });
    for round in 0..3 {
        let bytes = pattern(5000, round);
        pair.a.fill(&source, &bytes);
        pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 5000)]);
        pair.a
            .post(&mut a.qp, op::SEND, CE, 0, &gather(&source, 5000));
        pair.a.doorbell(&a.qp);
        pair.run();
        assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
        let received = pair.b.poll(&mut b.cq);
        assert_eq!(received.is_some(), round > 0);
        if received.is_some() {
            assert_eq!(pair.b.bytes(&sink, 5000), bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn any_cable_that_gets_better_delivers(
        fates in prop::collection::vec(0u8..8, 1..60),
        len in 1usize..20_000,
        mtu in 1u32..=5,
        psn in 0u32..1 << 24,
    ) {
        let mut pair = Pair::new();
        pair.fate = Box::new(move |n, _| match fates.get(n as usize) {
            Some(0) => Fate::Drop,
            Some(1) => Fate::Late,
            Some(2) => Fate::Twice,
            _ => Fate::Pass,
        });
        let link = Link { mtu, psn, ..Link::default() };
        all_operations(&mut pair, len, link);
    }
}
