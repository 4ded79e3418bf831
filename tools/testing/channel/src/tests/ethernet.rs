// SPDX-License-Identifier: GPL-2.0
//! Send WQEs and completions of the network interface. What they must look like stands in
//! include/linux/mlx5/qp.h and device.h; the numbers here are counted from there by hand.

use crate::net::{
    cqe::{Arrived, Failure, Hashed, Received, Sent},
    wqe::{fixed_segments, Frame, Wqe, MAX_SEGMENTS},
};

fn frame(headers: u16) -> Frame {
    Frame {
        checksum: false,
        mss: 0,
        headers,
        tag: None,
    }
}

fn begun(frame: &Frame) -> Wqe {
    let mut wqe = Wqe::new();
    let copied = wqe.begin(frame, |bytes| {
        for (number, byte) in (0u8..).zip(bytes) {
            *byte = number;
        }
        true
    });
    assert_eq!(copied, Some(()));
    wqe
}

#[test]
fn plain_frame_has_header_and_piece() {
    let mut wqe = begun(&frame(14));
    assert_eq!(wqe.piece(0x1234_5678_9abc, 86, 0x700), Some(()));
    assert_eq!(wqe.finish(0x1ff, 0x42), Some(()));
    let bytes = wqe.bytes();

    // Control, Ethernet with 2 header bytes, 12 more, one piece.
    assert_eq!(bytes.len(), 64);
    assert_eq!(bytes[..8], [0, 0x01, 0xff, 0x0a, 0, 0, 0x42, 4]);
    assert_eq!(bytes[8..16], [0; 8], "no completion asked for");
    assert_eq!(bytes[16..28], [0; 12], "no checksum, no segmentation");
    assert_eq!(bytes[28..30], [0, 14]);
    assert_eq!(
        bytes[30..44],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    );
    assert_eq!(bytes[48..56], [0, 0, 0, 86, 0, 0, 7, 0]);
    assert_eq!(bytes[56..], 0x1234_5678_9abcu64.to_be_bytes());
    assert_eq!(wqe.blocks(), 1);
    assert_eq!(wqe.doorbell(), 0x0001_ff0a_0000_4204);
}

#[test]
fn tag_stands_behind_the_addresses() {
    let mut wqe = begun(&Frame {
        tag: Some((0x8100, 0x2007)),
        ..frame(14)
    });
    assert_eq!(wqe.finish(0, 1), Some(()));
    let bytes = wqe.bytes();

    assert_eq!(bytes[28..30], [0, 18]);
    assert_eq!(bytes[30..42], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(bytes[42..48], [0x81, 0x00, 0x20, 0x07, 12, 13]);
    assert_eq!(bytes.len(), 48);
}

#[test]
fn segmentation_says_opcode_and_payload() {
    let wqe = begun(&Frame {
        checksum: true,
        mss: 1448,
        ..frame(66)
    });
    let bytes = wqe.bytes();

    assert_eq!(bytes[3], 0x0e);
    assert_eq!(bytes[20], 0xc0, "both checksums");
    assert_eq!(bytes[22..24], 1448u16.to_be_bytes());
    assert_eq!(bytes.len(), 16 * fixed_segments(66));
    assert_eq!(fixed_segments(66), 6);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut wqe = Wqe::new();
    assert_eq!(wqe.begin(&frame(1100), |_| true), None);
    assert_eq!(wqe.begin(&frame(14), |_| false), None);
    let tagged = Frame {
        tag: Some((0x8100, 1)),
        ..frame(11)
    };
    assert_eq!(wqe.begin(&tagged, |_| true), None, "no addresses");

    let mut wqe = begun(&frame(2));
    assert_eq!(wqe.piece(0, 0, 1), None);
    assert_eq!(wqe.piece(0, 1 << 31, 1), None);
    for _ in 2..MAX_SEGMENTS {
        assert_eq!(wqe.piece(0x1000, 1, 1), Some(()));
    }
    assert_eq!(wqe.piece(0x1000, 1, 1), None, "the size has 6 bits");
    assert_eq!(wqe.finish(0, 1 << 24), None);
    assert_eq!(wqe.blocks(), 16);
}

/// `struct mlx5_cqe64` with some bytes set.
fn entry(set: &[(usize, u8)]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (at, value) in set {
        bytes[*at] = *value;
    }
    bytes
}

#[test]
fn completions_say_which_wqe() {
    let done = entry(&[(60, 0x12), (61, 0x34), (63, 0x00)]);
    assert_eq!(Sent::parse(&done), Sent::Done { index: 0x1234 });
    let failed = entry(&[(54, 0x68), (55, 0x04), (61, 7), (63, 0xd0)]);
    let failure = Failure {
        vendor: 0x68,
        syndrome: 0x04,
    };
    assert_eq!(Sent::parse(&failed), Sent::Failed { index: 7, failure });
    assert_eq!(
        Sent::parse(&entry(&[(63, 0x20)])),
        Sent::Malformed { opcode: 2 }
    );
    assert_eq!(
        Received::parse(&entry(&[(63, 0x00)])),
        Received::Malformed { opcode: 0 }
    );
}

#[test]
fn received_frame_is_taken_apart() {
    let bytes = entry(&[
        (12, 0xde),
        (15, 0xad),
        (16, 0xc4),
        (28, 0x06),
        (29, 0x49),
        (30, 0x00),
        (31, 0x07),
        (20, 0xab),
        (21, 0xcd),
        (46, 0x05),
        (47, 0xea),
        (61, 9),
        (63, 0x20),
    ]);
    let Received::Frame(arrived) = Received::parse(&bytes) else {
        panic!("not a frame");
    };
    let expected = Arrived {
        index: 9,
        len: 1514,
        sum: Some(0xabcd),
        good: true,
        hash: 0xde00_00ad,
        hashed: Hashed::Ports,
        tag: Some(7),
    };
    assert_eq!(arrived, expected);
}

proptest::proptest! {
    #[test]
    fn no_completion_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 64)) {
        let bytes = <[u8; 64]>::try_from(bytes).unwrap();
        let _ = (Sent::parse(&bytes), Received::parse(&bytes));
    }
}
