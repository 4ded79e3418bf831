// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What error completions of Ethernet queues say: syndrome, and the number of the violation.

use super::*;
use crate::violation::{Effect, EthernetViolation as E, Violation as V};

/// An error completion of a send: syndrome and vendor's number.
fn verdict(cqe: &[u8]) -> (u8, u8) {
    assert_eq!(cqe[63] >> 4, 13);
    (cqe[0x37], cqe[0x36])
}

/// A WQE of two blocks that is good: 18 bytes of headers inlined, the rest of `frame` in memory.
fn good(
    bench: &mut Bench,
    sq: &Queue,
    opcode: u8,
    mss: u16,
    frame: &[u8],
    inlined: usize,
) -> Vec<u8> {
    let (head, tail) = frame.split_at(inlined);
    let data = bench.machine.alloc(tail.len().max(1));
    bench.machine.poke(data, tail);
    let mut wqe = vec![0; 16];
    wqe.extend_from_slice(&eth_segment(0, mss, head));
    if !tail.is_empty() {
        wqe.extend_from_slice(&data_segment(tail.len() as u32, bench.key, data));
    }
    let segments = (wqe.len() / 16) as u32;
    wqe[1..4].copy_from_slice(&[0, 0, opcode]);
    wqe[4..8].copy_from_slice(&(sq.number << 8 | segments).to_be_bytes());
    wqe[11] = 2 << 2;
    wqe.resize(wqe.len().next_multiple_of(64), 0);
    wqe
}

fn udp() -> Vec<u8> {
    frame_v4(protocol::UDP, &[1; 80])
}

/// A send with one thing wrong.
fn outcome(violation: E) -> (u8, u8) {
    let mut bench = Bench::new();
    let tis = (violation != E::NoTis).then(|| bench.create_tis(bench.domain));
    let mut sq = bench.create_sq_of(tis);
    let tcp = frame_v4(protocol::TCP, &[1; 900]);
    let mut wqe = match violation {
        E::HeaderMissing => good(&mut bench, &sq, SEND, 0, &udp(), 13),
        E::LsoHeaders => good(&mut bench, &sq, LSO, 100, &tcp, 53),
        E::LsoSegment => good(&mut bench, &sq, LSO, 0, &tcp, 54),
        E::LsoEmpty => good(&mut bench, &sq, LSO, 100, &tcp[..54], 54),
        E::NoSegment | E::HeaderLength | E::Unsupported | E::NoTis => {
            good(&mut bench, &sq, SEND, 0, &udp(), 18)
        }
    };
    match violation {
        E::NoSegment => wqe[7] = 1,
        E::HeaderLength => wqe[28] = 0x20,
        // Inner checksums.
        E::Unsupported => wqe[20] = 0x30,
        _ => {}
    }
    bench.post_raw(&mut sq, &wqe);
    let cqe = bench.poll(&mut sq).unwrap();
    assert!(bench.machine.take_frame().is_none());
    verdict(&cqe)
}

#[test]
fn each_violation_is_told_by_its_number() {
    let page = include_str!("../../../../../Documentation/emulator/ethernet.md");
    for &violation in E::ALL {
        let Effect::Completion(syndrome) = violation.effect() else {
            panic!("{violation:?} ends in a completion");
        };
        let number = violation as u8;
        assert_eq!(
            outcome(violation),
            (syndrome.code(), number),
            "{violation:?}"
        );
        let row = format!("| {number:#04x} | {} |", violation.text());
        assert!(page.contains(&row), "{row}");
        assert!(V::ALL.iter().all(|other| *other as u8 != number));
    }
}

#[test]
fn what_queue_pairs_do_wrong_has_the_same_number_here() {
    type Damage = fn(&mut [u8]);
    let all: [(V, Damage); 8] = [
        (V::Size, |wqe| wqe[7] = 0),
        (V::Number, |wqe| wqe[6] ^= 1),
        (V::Index, |wqe| wqe[2] ^= 1),
        (V::Opcode, |wqe| wqe[3] = 0x08),
        // The data segment is the third, behind two of headers.
        (V::InlineLength, |wqe| {
            wqe[48..52].copy_from_slice(&0x8000_0100u32.to_be_bytes())
        }),
        (V::MessageLength, |wqe| {
            wqe[48..52].copy_from_slice(&0x0100_0000u32.to_be_bytes())
        }),
        (V::KeyUnknown, |wqe| wqe[55] ^= 1),
        (V::KeyDma, |wqe| wqe[56] = 0x40),
    ];
    for (violation, damage) in all {
        let mut bench = Bench::new();
        let mut sq = bench.create_sq();
        let mut wqe = good(&mut bench, &sq, SEND, 0, &udp(), 18);
        damage(&mut wqe);
        bench.post_raw(&mut sq, &wqe);
        let Effect::Completion(syndrome) = violation.effect() else {
            panic!("{violation:?} ends in a completion");
        };
        let cqe = bench.poll(&mut sq).unwrap();
        let expected = (syndrome.code(), violation as u8);
        assert_eq!(verdict(&cqe), expected, "{violation:?}");
        // What is flushed behind it is nobody's violation.
        bench.post_raw(&mut sq, &wqe);
        assert_eq!(verdict(&bench.poll(&mut sq).unwrap()), (5, 0));
    }
}

#[test]
fn receives_tell_it_as_well() {
    for (key, len, expected) in [
        (0, ROOM as usize, (1, V::ReceiveLength as u8)),
        (1, 80, (4, V::KeyUnknown as u8)),
    ] {
        let (mut bench, mut rq) = receiver(true);
        bench.set_port_mtu(9000);
        bench.key ^= key;
        bench.post_receives(&mut rq, 2);
        let frame = to_card(&bench, frame_v4(protocol::UDP, &vec![1; len]));
        bench.card.receive(&frame);
        let cqe = bench.poll(&mut rq).unwrap();
        assert_eq!(
            (cqe[63] >> 4, cqe[0x37], cqe[0x36]),
            (14, expected.0, expected.1)
        );
        let cqe = bench.poll(&mut rq).unwrap();
        assert_eq!((cqe[63] >> 4, cqe[0x37], cqe[0x36]), (14, 5, 0), "flushed");
    }
}
