// SPDX-License-Identifier: GPL-2.0
//! WQEs of the kernel's QPs against bytes laid out by hand from struct mlx5_wqe_*_seg and struct mlx5_mkey_seg.

use crate::{
    kverbs::wqe::{receive, Control, Registration, Wqe, MOST, REGISTER, VECTOR},
    mr::Access,
};

fn bytes(wqe: &mut Wqe, control: &Control) -> Vec<u8> {
    wqe.finish(control, 0x0102, 0x030405)
        .expect("fits")
        .to_vec()
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn write_with_pieces() {
    let mut wqe = Wqe::new();
    wqe.remote(0x1122_3344_5566_7788, 0x99).expect("fits");
    wqe.piece(0x1000, 7, 0xa).expect("fits");
    wqe.piece(0x2000, 0, 0xb).expect("nothing");
    wqe.piece(0x3000, 9, 0xc).expect("fits");
    assert_eq!(wqe.blocks(), 1);
    let control = Control {
        opcode: 0x08,
        signaled: true,
        solicited: true,
        fence: 0x40,
        ..Control::default()
    };
    let got = bytes(&mut wqe, &control);
    assert_eq!(got.len(), 64);
    assert_eq!(be32(&got, 0), 0x0001_0208);
    assert_eq!(be32(&got, 4), 0x0304_0504, "four DS");
    assert_eq!(got[11], 0x40 | 0x08 | 0x02);
    assert_eq!(
        (be64(&got, 16), be32(&got, 24)),
        (0x1122_3344_5566_7788, 0x99)
    );
    assert_eq!(
        (be32(&got, 32), be32(&got, 36), be64(&got, 40)),
        (7, 0xa, 0x1000)
    );
    assert_eq!(
        (be32(&got, 48), be32(&got, 52), be64(&got, 56)),
        (9, 0xc, 0x3000)
    );
}

#[test]
fn datagram() {
    let mut vector = [0; VECTOR];
    vector[20] = 0x5a;
    let mut wqe = Wqe::new();
    wqe.datagram(&vector, 1, 0x8001_0000).expect("fits");
    wqe.piece(0x1000, 256, 3).expect("fits");
    assert_eq!(wqe.blocks(), 2);
    let got = bytes(
        &mut wqe,
        &Control {
            opcode: 0x0a,
            immediate: 0xabcd,
            ..Control::default()
        },
    );
    assert_eq!(got.len(), 128);
    assert_eq!(be32(&got, 12), 0xabcd);
    assert_eq!(be32(&got, 16), 0x8001_0000, "Q_Key");
    assert_eq!(be32(&got, 24), 0x8000_0001, "QP, extended vector");
    assert_eq!(got[36], 0x5a);
    assert_eq!(be32(&got, 64), 256);
}

#[test]
fn registration() {
    let mut wqe = Wqe::new();
    let to = Registration {
        key: 0x1234_5677,
        start: 0xaaaa_0000_0000,
        length: 0x5000,
        log_page: 12,
        pages: 5,
        access: Access {
            local_write: true,
            remote_read: true,
            ..Access::default()
        },
        list: 0xbbbb_0000,
        list_key: 0xcc,
    };
    wqe.register(&to).expect("fits");
    assert_eq!(wqe.blocks() as usize, REGISTER.div_ceil(64));
    let got = bytes(
        &mut wqe,
        &Control {
            opcode: 0x25,
            immediate: to.key,
            ..Control::default()
        },
    );
    assert_eq!(be32(&got, 4) & 0x3f, 9, "nine DS");
    // The UMR segment: only a key that is free, 4 octwords of pages.
    assert_eq!((got[16], &got[20..22]), (0x20, &[0, 4][..]));
    let mask = 1 | 1 << 1 | 1 << 6 | 1 << 8 | 1 << 13 | 0xf << 17 | 1 << 23 | 1 << 29;
    assert_eq!(be64(&got, 24), mask);
    // The key: MTT, local read and write, remote read, by requests.
    assert_eq!(got[66], 0x80 | 0x10 | 0x08 | 0x04 | 0x01);
    assert_eq!(be32(&got, 68), 0xffff_ff77);
    assert_eq!(be32(&got, 76), 1 << 24);
    assert_eq!((be64(&got, 80), be64(&got, 88)), (to.start, to.length));
    assert_eq!(be32(&got, 116), 4, "octwords of eight pages");
    assert_eq!(got[123], 12);
    // The list, in whole 64 bytes.
    assert_eq!(
        (be32(&got, 128), be32(&got, 132), be64(&got, 136)),
        (64, 0xcc, to.list)
    );
}

#[test]
fn invalidation() {
    let mut wqe = Wqe::new();
    wqe.invalidate().expect("fits");
    let got = bytes(
        &mut wqe,
        &Control {
            opcode: 0x25,
            immediate: 9,
            ..Control::default()
        },
    );
    assert_eq!((be32(&got, 4) & 0x3f, got.len()), (8, 128));
    assert_eq!((got[16], be64(&got, 24), got[64]), (0x80, 1 << 29, 0x40));
}

#[test]
fn inline_bytes() {
    let mut wqe = Wqe::new();
    let pieces: [&[u8]; 2] = [&[1; 13], &[2; 3]];
    wqe.inline(pieces.into_iter()).expect("fits");
    let got = bytes(
        &mut wqe,
        &Control {
            opcode: 0x0a,
            ..Control::default()
        },
    );
    assert_eq!(be32(&got, 4) & 0x3f, 3, "20 bytes are two DS");
    assert_eq!(be32(&got, 16), 0x8000_0010);
    assert_eq!(
        (got[20], got[32], got[33], got[35], got[36]),
        (1, 1, 2, 2, 0)
    );
    let mut wqe = Wqe::new();
    assert!(wqe.inline([&[0u8; MOST][..]].into_iter()).is_none());
}

#[test]
fn receives_end_where_their_pieces_end() {
    let mut wqe = [0xee; 64];
    let pieces = [(0x1000, 5, 1), (0x2000, 6, 2)];
    receive(&mut wqe, pieces.into_iter()).expect("fits");
    assert_eq!(
        (be32(&wqe, 16), be32(&wqe, 20), be64(&wqe, 24)),
        (6, 2, 0x2000)
    );
    assert_eq!(
        (be32(&wqe, 32), be32(&wqe, 36), be64(&wqe, 40)),
        (0, 0x100, 0)
    );
    assert_eq!(wqe[48], 0xee, "behind the end nobody looks");
    assert!(receive(&mut wqe[..16], pieces.into_iter()).is_none());
}
