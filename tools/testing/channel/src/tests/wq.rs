// SPDX-License-Identifier: GPL-2.0
//! WQEs against bytes that were laid out by hand from struct mlx5_wqe_*_seg, and the window.

use crate::wq::{encode_recv, Remote, Request, Sge, Signal, Window};
use mlx5_hw::ring::{Counter, Ring};

const LOCAL: Sge = Sge {
    addr: 0x1122_3344_5566_7788,
    lkey: 0xa1a2_a3a4,
    len: 0x1000,
};
const REMOTE: Remote = Remote {
    addr: 0x99aa_bbcc_ddee_ff00,
    rkey: 0xb1b2_b3b4,
};
const DATA: [u8; 16] = [
    0, 0, 0x10, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
];
const RADDR: [u8; 16] = [
    0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0, 0xb1, 0xb2, 0xb3, 0xb4, 0, 0, 0, 0,
];

fn padded(parts: &[&[u8]]) -> [u8; 64] {
    let mut wqe = [0; 64];
    let bytes = parts.concat();
    wqe[..bytes.len()].copy_from_slice(&bytes);
    wqe
}

#[test]
fn write_has_control_address_and_data() {
    let wqe = Request::Write {
        remote: REMOTE,
        local: LOCAL,
    }
    .encode(0x0102, 0x030405, Signal::Completion)
    .unwrap();
    let ctrl = [0, 1, 2, 8, 3, 4, 5, 3, 0, 0, 0, 8, 0, 0, 0, 0];
    assert_eq!(wqe, padded(&[&ctrl, &RADDR, &DATA]));
}

#[test]
fn read_without_completion_has_no_ce_bits() {
    let wqe = Request::Read {
        remote: REMOTE,
        local: LOCAL,
    }
    .encode(0xffff, 0xff_ffff, Signal::Silent)
    .unwrap();
    let ctrl = [
        0, 0xff, 0xff, 0x10, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(wqe, padded(&[&ctrl, &RADDR, &DATA]));
}

#[test]
fn send_imm_carries_its_immediate() {
    let wqe = Request::SendImm {
        local: LOCAL,
        imm: 0xc1c2_c3c4,
    }
    .encode(7, 0x40, Signal::Completion)
    .unwrap();
    let ctrl = [
        0, 0, 7, 0x0b, 0, 0, 0x40, 2, 0, 0, 0, 8, 0xc1, 0xc2, 0xc3, 0xc4,
    ];
    assert_eq!(wqe, padded(&[&ctrl, &DATA]));
}

#[test]
fn fetch_add_fills_the_block() {
    let local = Sge { len: 8, ..LOCAL };
    let wqe = Request::FetchAdd {
        remote: REMOTE,
        add: 0x0102_0304_0506_0708,
        local,
    }
    .encode(0, 2, Signal::Completion)
    .unwrap();
    let ctrl = [0, 0, 0, 0x12, 0, 0, 2, 4, 0, 0, 0, 8, 0, 0, 0, 0];
    let atomic = [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut data = DATA;
    data[2..4].copy_from_slice(&[0, 8]);
    assert_eq!(wqe, padded(&[&ctrl, &RADDR, &atomic, &data]));
}

#[test]
fn what_a_segment_cannot_say_is_refused() {
    for len in [0, 1 << 31] {
        let local = Sge { len, ..LOCAL };
        assert_eq!(Request::Send { local }.encode(0, 2, Signal::Silent), None);
        assert_eq!(encode_recv(&local), None);
    }
    assert_eq!(
        Request::Send { local: LOCAL }.encode(0, 1 << 24, Signal::Silent),
        None
    );
    let wide = Request::FetchAdd {
        remote: REMOTE,
        add: 1,
        local: LOCAL,
    };
    assert_eq!(wide.encode(0, 2, Signal::Silent), None);
}

#[test]
fn recv_is_one_data_segment() {
    assert_eq!(encode_recv(&LOCAL), Some(DATA));
}

#[test]
fn window_is_full_after_its_size_and_wraps() {
    let mut window = Window::new(Ring::new(2).unwrap()).unwrap();
    for lap in 0..100_000u32 {
        for n in 0..4 {
            let at = window.post().unwrap();
            assert_eq!(at.value(), lap * 4 + n);
        }
        assert_eq!(window.post(), None);
        let third = window.locate((lap * 4 + 2) as u16).unwrap();
        assert_eq!(window.complete(third), 3);
        let fourth = window.locate((lap * 4 + 3) as u16).unwrap();
        assert_eq!(window.complete(fourth), 1);
        assert!(window.is_empty());
    }
}

#[test]
fn blocks_are_taken_together_or_not_at_all() {
    let mut window = Window::new(Ring::new(3).unwrap()).unwrap();
    assert_eq!(window.post_blocks(5), Some(Counter::new(0)));
    assert_eq!(window.post_blocks(4), None);
    assert_eq!(window.used(), 5);
    assert_eq!(window.post_blocks(3), Some(Counter::new(5)));
    assert_eq!((window.free(), window.post_blocks(1)), (0, None));
}

#[test]
fn a_counter_outside_the_window_means_nothing() {
    let mut window = Window::new(Ring::new(7).unwrap()).unwrap();
    assert_eq!(window.locate(0), None);
    window.post();
    window.post();
    assert!(window.locate(1).is_some());
    assert_eq!(window.locate(2), None);
    assert_eq!(window.locate(0xffff), None);
    assert_eq!(window.locate(128), None);
}
