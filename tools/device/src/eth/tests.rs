// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Ethernet data path from WQE to wire and back, without a VM.

mod objects;
mod violations;

use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
    status::Status,
};

use super::{
    bench::{data_segment, eth_segment, input, Bench, Queue, ROOM},
    frame::protocol,
    offload,
    testing::{frame_v4, frame_v6, is_right, tagged, ALL},
};
use crate::eth::frame::Headers;

const SEND: u8 = 0x0a;
const LSO: u8 = 0x0e;
const BOTH: u8 = 0xc0;

fn filled(mut frame: Vec<u8>) -> Vec<u8> {
    let headers = Headers::parse(&frame).unwrap();
    offload::fill(&mut frame, &headers, ALL);
    frame
}

/// Puts `frame` into memory and posts a send with `inlined` bytes of it inlined.
fn send(bench: &mut Bench, sq: &mut Queue, opcode: u8, mss: u16, frame: &[u8], inlined: usize) {
    let (head, tail) = frame.split_at(inlined);
    let data = bench.machine.alloc(tail.len());
    bench.machine.poke(data, tail);
    let mut rest = eth_segment(BOTH, mss, head);
    rest.extend_from_slice(&data_segment(tail.len() as u32, bench.key, data));
    bench.post_send(sq, opcode, &rest);
}

fn word(cqe: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(cqe[at..at + 4].try_into().unwrap())
}

fn to_card(bench: &Bench, mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&bench.mac());
    filled(frame)
}

/// A card with one RQ behind a direct TIR.
fn receiver(keep_vlan: bool) -> (Bench, Queue) {
    let mut bench = Bench::new();
    let rq = bench.create_rq(keep_vlan);
    let tirn = bench.direct_tir(rq.number);
    bench.steer_all(tirn);
    (bench, rq)
}

#[test]
fn a_send_leaves_with_right_checksums_and_completes() {
    let mut bench = Bench::new();
    let mut sq = bench.create_sq();
    let payload: Vec<u8> = (0..700).map(|at| at as u8).collect();
    for frame in [
        frame_v4(protocol::UDP, &payload),
        frame_v6(protocol::TCP, &payload),
    ] {
        send(&mut bench, &mut sq, SEND, 0, &frame, 18);

        let sent = bench.machine.take_frame().unwrap();
        assert!(is_right(&sent));
        assert_eq!(sent[sent.len() - 700..], payload);
        let cqe = bench.poll(&mut sq).unwrap();
        assert_eq!(cqe[63] >> 4, 0);
        assert_eq!(word(&cqe, 0x38), u32::from(SEND) << 24 | sq.number);
    }
}

#[test]
fn a_short_frame_is_padded() {
    let mut bench = Bench::new();
    let mut sq = bench.create_sq();

    send(
        &mut bench,
        &mut sq,
        SEND,
        0,
        &frame_v4(protocol::UDP, b"x"),
        18,
    );

    let sent = bench.machine.take_frame().unwrap();
    assert_eq!(sent.len(), 60);
    assert_eq!(sent[43..], [0; 17]);
}

#[test]
fn a_large_send_becomes_segments() {
    let mut bench = Bench::new();
    let mut sq = bench.create_sq();
    let payload: Vec<u8> = (0..5000u32).map(|at| (at * 3) as u8).collect();

    send(
        &mut bench,
        &mut sq,
        LSO,
        1000,
        &frame_v4(protocol::TCP, &payload),
        54,
    );

    let mut stream = Vec::new();
    while let Some(frame) = bench.machine.take_frame() {
        assert!(is_right(&frame));
        stream.extend_from_slice(&frame[54..]);
    }
    assert_eq!(stream, payload);
    assert!(bench.poll(&mut sq).is_some());
    assert!(bench.poll(&mut sq).is_none());
}

#[test]
fn wqes_go_on_around_the_end_of_the_ring() {
    let mut bench = Bench::new();
    let mut sq = bench.create_sq();
    // Two blocks each: the ring of 16 is left in the middle of a WQE.
    bench.post_send(&mut sq, 0, &[]);
    for round in 0..20u8 {
        let frame = frame_v4(protocol::UDP, &[round; 100]);
        send(&mut bench, &mut sq, SEND, 0, &frame, 54);

        let sent = bench.machine.take_frame().unwrap();
        assert_eq!(sent[42..142], [round; 100]);
        while bench.poll(&mut sq).is_some() {}
    }
}

#[test]
fn a_received_frame_is_described_by_its_completion() {
    let (mut bench, mut rq) = receiver(true);
    let data = bench.post_receives(&mut rq, 2);
    let frame = to_card(&bench, frame_v4(protocol::TCP, &[0x5a; 101]));

    bench.card.receive(&frame);

    assert_eq!(bench.machine.peek(data, frame.len()), frame);
    let cqe = bench.poll(&mut rq).unwrap();
    assert_eq!(cqe[63] >> 4, 2);
    assert_eq!(word(&cqe, 0x2c) as usize, frame.len());
    assert_eq!(cqe[0x3c..0x3e], [0, 0]);
    // IPv4 and TCP are fine: L2, L3, L4.
    assert_eq!(cqe[0x1c], 7);
    // IPv4, TCP with ACK and data.
    assert_eq!(cqe[0x1d], 4 << 4 | 2 << 2);
    assert_eq!(word(&cqe, 0x38), 0x77);
    // A packet with right checksums: the IP header sums to zero, the segment to the complement of
    // its pseudo header.
    let mut pseudo = frame[26..34].to_vec();
    pseudo.extend_from_slice(&[0, protocol::TCP, 0, (frame.len() - 34) as u8]);
    let sum = super::checksum::Sum::new()
        .bytes(&pseudo)
        .word(u16::from_be_bytes([cqe[0x14], cqe[0x15]]))
        .folded();
    assert_eq!(sum, 0xffff);
}

#[test]
fn a_bad_checksum_is_received_and_told() {
    let (mut bench, mut rq) = receiver(true);
    bench.post_receives(&mut rq, 1);
    let mut frame = to_card(&bench, frame_v4(protocol::UDP, &[1; 80]));
    frame[60] ^= 1;

    bench.card.receive(&frame);

    assert_eq!(bench.poll(&mut rq).unwrap()[0x1c], 3);
}

#[test]
fn a_vlan_tag_is_stripped_or_kept() {
    for keep in [false, true] {
        let (mut bench, mut rq) = receiver(keep);
        let data = bench.post_receives(&mut rq, 2);
        let plain = to_card(&bench, frame_v4(protocol::UDP, &[9; 64]));
        let frame = tagged(&plain, 0x8100, 0x6005);

        bench.card.receive(&frame);

        let cqe = bench.poll(&mut rq).unwrap();
        let expected = if keep { &frame } else { &plain };
        assert_eq!(bench.machine.peek(data, expected.len()), *expected);
        assert_eq!(word(&cqe, 0x2c) as usize, expected.len());
        assert_eq!(cqe[0x1d] & 1, u8::from(!keep));
        assert_eq!(cqe[0x1e..0x20], if keep { [0, 0] } else { [0x60, 0x05] });
        assert_eq!(cqe[0x1c], 7);

        // A service tag stays: the completion could not say so.
        bench.card.receive(&tagged(&plain, 0x88a8, 5));
        let cqe = bench.poll(&mut rq).unwrap();
        assert_eq!(word(&cqe, 0x2c) as usize, plain.len() + 4);
        assert_eq!(cqe[0x1d] & 1, 0);
    }
}

/// MTU of a port that nobody has set, with the FCS: an untagged frame of 1500 bytes and a tag.
const MTU: usize = 1522;

#[test]
fn a_frame_above_the_mtu_of_the_port_is_dropped_and_counted() {
    let (mut bench, mut rq) = receiver(true);
    bench.post_receives(&mut rq, 2);
    let headers = frame_v4(protocol::UDP, &[]).len();
    let of_len = |len: usize| frame_v4(protocol::UDP, &vec![1; len - headers]);
    let longest = to_card(&bench, of_len(MTU - 4));
    let longer = to_card(&bench, of_len(MTU - 3));

    bench.card.receive(&longer);
    assert!(bench.poll(&mut rq).is_none());
    bench.card.receive(&longest);

    let cqe = bench.poll(&mut rq).unwrap();
    assert_eq!(word(&cqe, 0x2c) as usize, longest.len());
    let mut asked = vec![0; bytes_of::<ifc::ppcnt_reg>()];
    Mut::<ifc::ppcnt_reg>::new(&mut asked)
        .unwrap()
        .set(field!(ppcnt_reg, local_port), 1)
        .set(
            field!(ppcnt_reg, grp),
            raw::MLX5_IEEE_802_3_COUNTERS_GROUP.into(),
        );
    let answer = bench.register(raw::MLX5_REG_PPCNT, false, &asked);
    let set = &answer[span!(ppcnt_reg, counter_set).offset()..];
    let set = Ref::<ifc::eth_802_3_cntrs_grp_data_layout>::new(set).unwrap();
    let low = field!(eth_802_3_cntrs_grp_data_layout, a_frame_too_long_errors_low);
    assert_eq!(set.get(low), 1);
}

#[test]
fn without_wqe_a_frame_is_dropped_and_counted() {
    let (mut bench, mut rq) = receiver(true);
    let frame = to_card(&bench, frame_v4(protocol::UDP, &[1; 80]));
    bench.post_receives(&mut rq, 1);

    bench.card.receive(&frame);
    bench.card.receive(&frame);
    bench.card.receive(&frame);

    assert!(bench.poll(&mut rq).is_some());
    assert!(bench.poll(&mut rq).is_none());
    assert_eq!(bench.card.hca().eth.out_of_buffer, 2);
}

#[test]
fn the_vport_filters_by_its_lists() {
    let (mut bench, mut rq) = receiver(true);
    bench.post_receives(&mut rq, 16);
    let frame = to_card(&bench, frame_v4(protocol::UDP, &[1; 80]));
    let group = [0x01, 0, 0x5e, 0, 0, 1];
    let other = [2, 9, 9, 9, 9, 9];
    let mut taken = |bench: &mut Bench, dmac: [u8; 6]| {
        let mut frame = frame.clone();
        frame[..6].copy_from_slice(&dmac);
        bench.card.receive(&frame);
        bench.poll(&mut rq).is_some()
    };

    assert!(!taken(&mut bench, group));
    assert!(!taken(&mut bench, [0xff; 6]));
    assert!(!taken(&mut bench, other));
    bench.card.hca().vport.mc_list = vec![group];
    bench.card.hca().vport.uc_list = vec![other];
    assert!(taken(&mut bench, group));
    assert!(!taken(&mut bench, [0xff; 6]));
    assert!(taken(&mut bench, other));
    bench.card.hca().vport.promisc_all = true;
    assert!(taken(&mut bench, [0xff; 6]));
}

#[test]
fn a_hash_spreads_flows_over_the_table_and_keeps_each_on_its_queue() {
    let mut bench = Bench::new();
    let mut rqs: Vec<_> = (0..2).map(|_| bench.create_rq(true)).collect();
    let rqns: Vec<_> = rqs.iter().map(|rq| rq.number).collect();
    let rqtn = bench.create_rqt(&rqns).unwrap();
    let tirn = bench
        .create_tir(|create| {
            create
                .set(field!(create_tir_in, ctx.disp_type), 1)
                .set(field!(create_tir_in, ctx.indirect_table), rqtn.into())
                .set(field!(create_tir_in, ctx.rx_hash_fn), 1)
                .set(
                    field!(create_tir_in, ctx.rx_hash_field_selector_outer.l4_prot_type),
                    1,
                )
                .set(
                    field!(
                        create_tir_in,
                        ctx.rx_hash_field_selector_outer.selected_fields
                    ),
                    0xf,
                );
        })
        .unwrap();
    bench.steer_all(tirn);
    for rq in &mut rqs {
        bench.post_receives(rq, 16);
    }
    let base = to_card(&bench, frame_v4(protocol::UDP, &[1; 80]));
    for port in 0..8u8 {
        let mut frame = base.clone();
        frame[35] = port;
        bench.card.receive(&frame);
        bench.card.receive(&frame);
    }

    let mut seen = Vec::new();
    for rq in &mut rqs {
        let mut count = 0;
        while let Some(cqe) = bench.poll(rq) {
            assert_eq!(cqe[0x10], 0x84);
            count += 1;
        }
        seen.push(count);
    }
    assert_eq!(seen, [8, 8]);
}

#[test]
fn frames_to_itself_reach_only_tirs_that_want_them() {
    let (mut bench, mut rq) = receiver(true);
    let mut sq = bench.create_sq();
    bench.post_receives(&mut rq, 8);
    let frame = to_card(&bench, frame_v4(protocol::UDP, &[1; 80]));

    send(&mut bench, &mut sq, SEND, 0, &frame, 18);
    assert!(bench.machine.take_frame().is_none(), "stays in the card");
    assert!(bench.poll(&mut rq).is_none(), "same transport domain");

    let tirn = bench.card.hca().tirs.iter().next().unwrap().0;
    bench
        .run(input::<ifc::modify_tir_in>(
            raw::MLX5_CMD_OP_MODIFY_TIR,
            &[],
            |modify| {
                modify
                    .set(field!(modify_tir_in, tirn), tirn.into())
                    .set(field!(modify_tir_in, bitmask.self_lb_en), 1)
                    .set(field!(modify_tir_in, ctx.self_lb_block), 1);
            },
        ))
        .unwrap();
    send(&mut bench, &mut sq, SEND, 0, &frame, 18);
    assert!(bench.poll(&mut rq).is_some());

    bench.card.hca().vport.promisc_mc = true;
    let mut broadcast = frame.clone();
    broadcast[..6].fill(0xff);
    send(&mut bench, &mut sq, SEND, 0, &broadcast, 18);
    assert!(bench.machine.take_frame().is_some(), "leaves as well");
    assert!(bench.poll(&mut rq).is_none(), "only unicast was allowed");
}

#[test]
fn another_transport_domain_hears_the_card_itself() {
    let (mut bench, mut rq) = receiver(true);
    bench.post_receives(&mut rq, 1);
    bench.domain = bench.alloc_domain();
    let mut sq = bench.create_sq();
    let frame = to_card(&bench, frame_v4(protocol::UDP, &[1; 80]));

    send(&mut bench, &mut sq, SEND, 0, &frame, 18);

    assert!(bench.poll(&mut rq).is_some());
}

#[test]
fn a_bad_wqe_ends_the_queue_and_later_ones_are_flushed() {
    let good = |bench: &mut Bench, sq: &mut Queue| {
        send(bench, sq, SEND, 0, &frame_v4(protocol::UDP, &[1; 80]), 18);
    };
    type Damage = fn(&mut [u8]);
    let bad: [(&str, Damage); 6] = [
        ("size 0", |wqe| wqe[7] = 0),
        ("size beyond what is posted", |wqe| wqe[7] = 0x3f),
        ("number of another queue", |wqe| wqe[6] ^= 1),
        ("another index", |wqe| wqe[2] ^= 1),
        ("opcode RDMA WRITE", |wqe| wqe[3] = 0x08),
        ("header longer than the WQE", |wqe| wqe[28] = 0x20),
    ];
    for (what, damage) in bad {
        let mut bench = Bench::new();
        let mut sq = bench.create_sq();
        let mut wqe = vec![0; 64];
        wqe[3] = SEND;
        wqe[4..8].copy_from_slice(&(sq.number << 8 | 3).to_be_bytes());
        wqe[16..48].copy_from_slice(&eth_segment(0, 0, &[0; 18]));
        damage(&mut wqe);

        bench.post_raw(&mut sq, &wqe);

        let cqe = bench.poll(&mut sq).expect(what);
        assert_eq!(cqe[63] >> 4, 13, "{what}");
        assert_eq!(cqe[0x37], 2, "{what}");
        good(&mut bench, &mut sq);
        let cqe = bench.poll(&mut sq).expect(what);
        assert_eq!((cqe[63] >> 4, cqe[0x37]), (13, 5), "{what}");
        assert!(bench.machine.take_frame().is_none());

        // The way the driver recovers.
        bench.modify_sq(&sq, 3, 0).unwrap();
        sq.posted = 0;
        bench.machine.poke(sq.record + 4, &[0; 4]);
        bench.modify_sq(&sq, 0, 1).unwrap();
        good(&mut bench, &mut sq);
        assert!(bench.machine.take_frame().is_some(), "{what}");
    }
}

#[test]
fn a_bad_key_is_a_protection_error() {
    let mut bench = Bench::new();
    let mut sq = bench.create_sq();
    let mut rest = eth_segment(0, 0, &[0; 18]);
    rest.extend_from_slice(&data_segment(100, bench.key ^ 1, 0x1000));

    bench.post_send(&mut sq, SEND, &rest);

    let cqe = bench.poll(&mut sq).unwrap();
    assert_eq!((cqe[63] >> 4, cqe[0x37]), (13, 4));
}

#[test]
fn a_frame_longer_than_its_wqe_ends_the_receive_queue() {
    let (mut bench, mut rq) = receiver(true);
    bench.set_port_mtu(9000);
    bench.post_receives(&mut rq, 3);
    let frame = to_card(&bench, frame_v4(protocol::UDP, &[1; ROOM as usize]));

    bench.card.receive(&frame);

    let cqe = bench.poll(&mut rq).unwrap();
    assert_eq!((cqe[63] >> 4, cqe[0x37]), (14, 1));
    for index in [1, 2] {
        let cqe = bench.poll(&mut rq).unwrap();
        assert_eq!((cqe[63] >> 4, cqe[0x37], cqe[0x3d]), (14, 5, index));
    }
    assert!(bench.poll(&mut rq).is_none());
}

#[test]
fn records_that_lie_end_the_queue_without_noise() {
    let (mut bench, mut rq) = receiver(true);
    bench.machine.poke(rq.record, &0x1234u32.to_be_bytes());
    let frame = to_card(&bench, frame_v4(protocol::UDP, &[1; 80]));
    bench.card.receive(&frame);
    assert!(bench.poll(&mut rq).is_none());
    assert_eq!(bench.modify_rq(&rq, 1, 1), Err(Status::BadResState));

    let mut sq = bench.create_sq();
    sq.posted = 17;
    bench.ring(&sq, &[0; 8]);
    assert!(bench.poll(&mut sq).is_none());
    assert_eq!(bench.modify_sq(&sq, 1, 1), Err(Status::BadResState));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    #[test]
    fn frames_of_any_kind_are_survived(
        frames in proptest::collection::vec(
            proptest::collection::vec(proptest::num::u8::ANY, 0..128),
            1..20,
        ),
    ) {
        let (mut bench, mut rq) = receiver(false);
        bench.post_receives(&mut rq, 8);
        for mut frame in frames {
            bench.card.receive(&frame);
            if let Some(dmac) = frame.first_chunk_mut::<6>() {
                *dmac = bench.mac();
            }
            bench.card.receive(&frame);
            while bench.poll(&mut rq).is_some() {}
        }
    }

    #[test]
    fn wqes_of_any_kind_are_survived(
        wqes in proptest::collection::vec(
            proptest::collection::vec(proptest::num::u8::ANY, 64..=256),
            1..8,
        ),
        honest in proptest::bool::ANY,
    ) {
        let mut bench = Bench::new();
        let mut sq = bench.create_sq();
        for mut wqe in wqes {
            wqe.truncate(wqe.len() / 64 * 64);
            if honest {
                wqe[1..3].copy_from_slice(&sq.posted.to_be_bytes());
                wqe[3] = SEND;
                wqe[4..7].copy_from_slice(&sq.number.to_be_bytes()[1..]);
                wqe[16..20].fill(0);
                wqe[21] = 0;
            }
            bench.post_raw(&mut sq, &wqe);
            while bench.poll(&mut sq).is_some() {}
        }
    }
}
