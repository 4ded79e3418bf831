// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marked packets, the notifications they bring, and the rates these bring.

use super::{
    datagrams::{av, ready, QKEY},
    node::*,
    op,
    pair::*,
    pattern, CE,
};
use device::scaffold::driver::Input;
use mlx5_hw::{
    field,
    field::{bytes_of, Ref},
    ifc, raw, span,
};
use roce::{Packet, Service};
use std::{cell::RefCell, rc::Rc, time::Duration};

const REACTION: u64 = 1;
const NOTIFICATION: u64 = 2;

/// What a card counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    flows: u64,
    ignored: u64,
    handled: u64,
    marked: u64,
    sent: u64,
}

fn counts_and(node: &mut Node, clear: u64) -> Counts {
    let input = Input::<ifc::query_cong_statistics_in>::new(raw::MLX5_CMD_OP_QUERY_CONG_STATISTICS)
        .set(field!(query_cong_statistics_in, clear), clear);
    let out = bytes_of::<ifc::query_cong_statistics_out>();
    let answer = node.driver.ok(input, out);
    let out = Ref::<ifc::query_cong_statistics_out>::new(&answer.output).unwrap();
    Counts {
        flows: out.get(field!(query_cong_statistics_out, rp_cur_flows)),
        ignored: out.get(field!(query_cong_statistics_out, rp_cnp_ignored_low)),
        handled: out.get(field!(query_cong_statistics_out, rp_cnp_handled_low)),
        marked: out.get(field!(
            query_cong_statistics_out,
            np_ecn_marked_roce_packets_low
        )),
        sent: out.get(field!(query_cong_statistics_out, np_cnp_sent_low)),
    }
}

fn counts(node: &mut Node) -> Counts {
    counts_and(node, 0)
}

/// Enables or disables one point for priority 0.
fn switch(node: &mut Node, protocol: u64, enable: bool) {
    let modify = Input::<ifc::modify_cong_status_in>::new(raw::MLX5_CMD_OP_MODIFY_CONG_STATUS)
        .set(field!(modify_cong_status_in, cong_protocol), protocol)
        .set(field!(modify_cong_status_in, enable), enable.into());
    node.driver.ok(modify, 16);
    for priority in [0, 1] {
        let query = Input::<ifc::query_cong_status_in>::new(raw::MLX5_CMD_OP_QUERY_CONG_STATUS)
            .set(field!(query_cong_status_in, cong_protocol), protocol)
            .set(field!(query_cong_status_in, priority), priority);
        let answer = node.driver.ok(query, 16);
        assert_eq!(answer.word(12) >> 31 == 1, enable || priority == 1);
    }
}

/// The first notification sets the rate to 8 Mb/s, a byte a microsecond, and nothing raises it soon.
fn crawl(node: &mut Node) {
    let mut input = Input::<ifc::modify_cong_params_in>::new(raw::MLX5_CMD_OP_MODIFY_CONG_PARAMS)
        .set(field!(modify_cong_params_in, cong_protocol), REACTION)
        .set(
            field!(
                modify_cong_params_in,
                field_select.field_select_r_roce_rp.field_select_r_roce_rp
            ),
            1 << 11 | 1 << 5 | 1 << 3,
        );
    mlx5_hw::field::Mut::<ifc::modify_cong_params_in>::new(&mut input.bytes)
        .unwrap()
        .with(
            span!(
                modify_cong_params_in,
                congestion_parameters.cong_control_r_roce_ecn_rp
            ),
            |rp| {
                rp.set(
                    field!(cong_control_r_roce_ecn_rp, rate_to_set_on_first_cnp),
                    8,
                )
                .set(field!(cong_control_r_roce_ecn_rp, rpg_threshold), 31)
                .set(field!(cong_control_r_roce_ecn_rp, rpg_time_reset), 131_071);
            },
        );
    node.driver.ok(input, 16);
}

type Seen = Rc<RefCell<Vec<Vec<u8>>>>;

/// Marks what this MAC address sends, and keeps a copy of all frames as they were sent.
fn congest(pair: &mut Pair, mac: [u8; 6]) -> Seen {
    let seen = Seen::default();
    let all = seen.clone();
    pair.fate = Box::new(move |_, frame| {
        all.borrow_mut().push(frame.to_vec());
        if frame[6..12] == mac {
            Fate::Mark
        } else {
            Fate::Pass
        }
    });
    seen
}

fn write(pair: &mut Pair, a: &mut End, len: usize) -> Mr {
    let source = pair.a.mr(len, ALL);
    let sink = pair.b.mr(len, ALL);
    pair.a.fill(&source, &pattern(len, 3));
    let segments = [
        raddr(sink.va, sink.key),
        data(&[(source.key, source.va, len as u32)]),
    ];
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments.concat());
    pair.a.doorbell(&a.qp);
    sink
}

fn cnps(seen: &Seen) -> Vec<Vec<u8>> {
    let seen = seen.borrow();
    let is = |frame: &&Vec<u8>| {
        let packet = Packet::parse(frame).unwrap();
        packet.headers.bth.opcode.service == Service::Cnp
    };
    seen.iter().filter(is).cloned().collect()
}

#[test]
fn a_marked_packet_is_answered_once_in_the_time_and_slows_its_sender() {
    let mut pair = Pair::new();
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let mac = pair.a.mac;
    let seen = congest(&mut pair, mac);
    let sink = write(&mut pair, &mut a, 10_000);
    pair.run();
    assert_eq!(pair.b.bytes(&sink, 10_000), pattern(10_000, 3));
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
    let expected = Counts {
        marked: 10,
        sent: 1,
        ..Counts::default()
    };
    assert_eq!(counts(&mut pair.b), expected);
    let expected = Counts {
        flows: 1,
        handled: 1,
        ..Counts::default()
    };
    assert_eq!(counts(&mut pair.a), expected);
    let cnps = cnps(&seen);
    let cnp = Packet::parse(&cnps[0]).unwrap().headers;
    assert_eq!((cnps.len(), cnp.bth.dest_qp), (1, a.qp.qpn));
    // As the ConnectX-4 Lx of tools/roce/tests/vectors.rs sends it, but for addresses and identification.
    assert_eq!((cnp.ip.tos, cnp.ip.ttl, cnp.sport), (0xc2, 64, 0));
    assert_eq!(cnps[0][42..46], [0x81, 0, 0xff, 0xff]);
    assert_eq!(cnps[0][46..47], [0x40]);
    assert_eq!(cnps[0][50..70], [0; 20]);
    assert_eq!(cnps[0].len(), 14 + 60);
    let limited = format!("QP {:#x}", a.qp.qpn);
    let dump = pair.a.driver.card.dump();
    let line = dump.iter().find(|line| line.starts_with(&limited)).unwrap();
    assert!(line.ends_with("limited to 50048 Mb/s"), "{line}");

    // Later there is another one; then nothing more comes, and the rate is back.
    pair.a.advance(Duration::from_millis(1));
    pair.b.advance(Duration::from_millis(1));
    write(&mut pair, &mut a, 1);
    pair.run();
    assert_eq!(counts(&mut pair.b).sent, 2);
    assert_eq!(counts_and(&mut pair.a, 1).handled, 2);
    pair.a.advance(Duration::from_secs(10));
    assert_eq!(counts(&mut pair.a), Counts::default(), "cleared");
}

#[test]
fn what_is_disabled_neither_tells_nor_listens() {
    let mut pair = Pair::new();
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let mac = pair.a.mac;
    let seen = congest(&mut pair, mac);
    // No notification point: packets are marked, and that is all.
    switch(&mut pair.b, NOTIFICATION, false);
    write(&mut pair, &mut a, 3000);
    pair.run();
    assert_eq!(counts(&mut pair.b), Counts::default());
    assert_eq!(cnps(&seen).len(), 0);
    switch(&mut pair.b, NOTIFICATION, true);
    // No reaction point: packets say that nobody can be told.
    switch(&mut pair.a, REACTION, false);
    write(&mut pair, &mut a, 3000);
    pair.run();
    assert_eq!(counts(&mut pair.b), Counts::default());
    assert_eq!(counts(&mut pair.a), Counts::default());
    let ecn = |frame: &[u8]| frame[15] & 3;
    let seen = seen.borrow();
    let of_a: Vec<u8> = seen
        .iter()
        .filter(|frame| frame[6..12] == mac)
        .map(|frame| ecn(frame))
        .collect();
    assert_eq!(of_a, [2, 2, 2, 0, 0, 0]);
    let others = seen.iter().filter(|frame| frame[6..12] != mac);
    assert!(others.into_iter().all(|frame| ecn(frame) == 2));
}

#[test]
fn a_marked_datagram_is_answered_to_the_qp_that_sent_it() {
    let mut pair = Pair::new();
    let mut a = ready(&mut pair.a, 2);
    let mut b = ready(&mut pair.b, 2);
    let mac = pair.a.mac;
    let seen = congest(&mut pair, mac);
    let source = pair.a.mr(64, ALL);
    let sink = pair.b.mr(4200, ALL);
    // Of datagrams the address vector says whether they are capable.
    for (class, told) in [(0u8, 0), (2, 1)] {
        pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 4200)]);
        let mut av = av(b.qp.qpn, QKEY, pair.b.mac, pair.b.gid);
        av[26] = class;
        let segments = [av, data(&[(source.key, source.va, 64)])].concat();
        pair.a.post(&mut a.qp, op::SEND, CE, 0, &segments);
        pair.a.doorbell(&a.qp);
        pair.run();
        assert_eq!(pair.b.poll(&mut b.cq).unwrap().syndrome, 0);
        assert_eq!(counts(&mut pair.b).sent, told);
        assert_eq!(counts(&mut pair.a).handled, told);
    }
    let cnps = cnps(&seen);
    assert_eq!(
        Packet::parse(&cnps[0]).unwrap().headers.bth.dest_qp,
        a.qp.qpn
    );
    // The same for a card that does not react, for no QP, and for a QP of another peer.
    switch(&mut pair.a, REACTION, false);
    pair.a.driver.card.receive(&cnps[0]);
    switch(&mut pair.a, REACTION, true);
    let packet = Packet::parse(&cnps[0]).unwrap();
    let other = connect(&mut pair, 0, Link::default()).0.qp.qpn;
    for (qpn, source) in [(0xff_fff0, 2), (other, 9)] {
        let mut headers = packet.headers;
        headers.bth.dest_qp = qpn;
        if let roce::Addresses::V4 { src, .. } = &mut headers.ip.addresses {
            src[3] = source;
        }
        let mut frame = roce::Frame::of(&packet);
        pair.a.driver.card.receive(frame.seal(&headers).unwrap());
    }
    let expected = Counts {
        ignored: 3,
        handled: 1,
        ..Counts::default()
    };
    assert_eq!(
        Counts {
            flows: 0,
            ..counts(&mut pair.a)
        },
        expected
    );
}

/// How long `pair` needs until there is a completion at `a`, in virtual time.
fn time(pair: &mut Pair, a: &mut End) -> Duration {
    // Finer than a QP may run ahead of its rate.
    let step = Duration::from_micros(50);
    let mut took = Duration::ZERO;
    loop {
        pair.run();
        if let Some(wc) = pair.a.poll(&mut a.cq) {
            assert_eq!(wc.syndrome, 0);
            return took;
        }
        assert!(took < Duration::from_secs(2), "no completion");
        took += step;
        pair.a.advance(step);
        pair.b.advance(step);
    }
}

fn first_is_marked(pair: &mut Pair, mac: [u8; 6]) {
    let mut first = true;
    pair.fate = Box::new(move |_, frame| {
        if frame[6..12] == mac && std::mem::take(&mut first) {
            Fate::Mark
        } else {
            Fate::Pass
        }
    });
}

/// A connection whose first packet will be marked, and whose sender then crawls.
fn crawling() -> (Pair, End) {
    let mut pair = Pair::new();
    let link = Link {
        // The shortest, four times 8.192 us: a packet takes a millisecond.
        timeout: 1,
        ..Link::default()
    };
    let (a, _b) = connect(&mut pair, 0, link);
    let mac = pair.a.mac;
    first_is_marked(&mut pair, mac);
    crawl(&mut pair.a);
    (pair, a)
}

#[test]
fn a_message_takes_as_long_as_its_rate_says_and_is_not_lost() {
    let (mut pair, mut a) = crawling();
    // The notification comes after the first packets have left.
    write(&mut pair, &mut a, 1);
    assert!(time(&mut pair, &mut a) < Duration::from_millis(2));
    let sink = write(&mut pair, &mut a, 300_000);
    let took = time(&mut pair, &mut a);
    // A byte a microsecond, with headers of 62 bytes for each 1024; the last packet does not wait for itself.
    let expected = Duration::from_millis(300 * 1086 / 1024);
    assert!(
        took > expected.mul_f64(0.97) && took < expected.mul_f64(1.03),
        "{took:?}"
    );
    assert_eq!(pair.b.bytes(&sink, 300_000), pattern(300_000, 3));
    assert_eq!(pair.a.q_counter(0x60), 0, "local_ack_timeout_err");
}

#[test]
fn answers_to_reads_are_slowed_down_on_a_qp_that_never_sends() {
    let mut pair = Pair::new();
    let mut a = end(&mut pair.a, 0);
    let b = end(&mut pair.b, 0);
    let link = Link::default();
    let (mac_a, gid_a) = (pair.a.mac, pair.a.gid);
    let (mac_b, gid_b) = (pair.b.mac, pair.b.gid);
    pair.a.move_rtr(&a.qp, b.qp.qpn, mac_b, gid_b, link);
    pair.a.move_rts(&a.qp, link);
    // Its state stays RTR.
    pair.b.move_rtr(&b.qp, a.qp.qpn, mac_a, gid_a, link);
    first_is_marked(&mut pair, mac_b);
    crawl(&mut pair.b);
    let sink = pair.a.mr(60_000, ALL);
    let source = pair.b.mr(60_000, ALL);
    pair.b.fill(&source, &pattern(60_000, 5));
    for (len, least) in [(1, 0), (60_000, 58)] {
        let segments = [
            raddr(source.va, source.key),
            data(&[(sink.key, sink.va, len)]),
        ];
        pair.a.post(&mut a.qp, op::READ, CE, 0, &segments.concat());
        pair.a.doorbell(&a.qp);
        let took = time(&mut pair, &mut a);
        assert!(took >= Duration::from_millis(least), "{len}: {took:?}");
        assert!(took < Duration::from_millis(least + 8), "{len}: {took:?}");
    }
    assert_eq!(pair.a.bytes(&sink, 60_000), pattern(60_000, 5));
    assert_eq!(counts(&mut pair.b).handled, 1);
    assert_eq!(counts(&mut pair.a).marked, 1);
}

#[test]
fn a_rate_ends_with_the_reaction_point() {
    let (mut pair, mut a) = crawling();
    write(&mut pair, &mut a, 1);
    time(&mut pair, &mut a);
    switch(&mut pair.a, REACTION, false);
    write(&mut pair, &mut a, 300_000);
    assert!(time(&mut pair, &mut a) < Duration::from_millis(2));
}
