// SPDX-License-Identifier: GPL-2.0
//! The WQE of a datagram against bytes laid out by hand from struct mlx5_wqe_datagram_seg.

use crate::{qp::datagram::Datagram, wq::Sge};

const DATAGRAM: Datagram = Datagram {
    qpn: 0x010203,
    qkey: 0x1122_3344,
    gid: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 3, 4, 0xff, 0xfe, 5, 6, 7],
    mac: [0, 3, 4, 5, 6, 7],
    source_index: 5,
    source_port: 0xc123,
    local: Sge {
        addr: 0x1122_3344_5566_7788,
        lkey: 0xa1a2_a3a4,
        len: 64,
    },
};

#[test]
fn address_stands_between_control_and_data() {
    let wqe = DATAGRAM.encode(0x0a0b, 0x040506).unwrap();
    let parts: [&[u8]; 9] = [
        // SEND, block index, QPN, five units of 16 bytes, completion wanted.
        &[0, 0x0a, 0x0b, 0x0a, 4, 5, 6, 5, 0, 0, 0, 8, 0, 0, 0, 0],
        &[0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0],
        // Bit 31: an address vector of this length.
        &[0x80, 1, 2, 3, 0, 0, 0xc1, 0x23, 0, 0, 0, 0],
        &[0, 3, 4, 5, 6, 7],
        // Traffic class, hop limit.
        &[0, 64],
        // GRH, index of the source address.
        &[0x40, 0x50, 0, 0],
        &DATAGRAM.gid,
        &[0, 0, 0, 64, 0xa1, 0xa2, 0xa3, 0xa4],
        &[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88],
    ];
    let mut want = parts.concat();
    assert_eq!(want.len(), 80);
    want.resize(128, 0);
    assert_eq!(wqe.as_slice(), want);
}

#[test]
fn what_does_not_fit_is_refused() {
    let bad = [
        Datagram {
            qpn: 1 << 24,
            ..DATAGRAM
        },
        Datagram {
            qkey: 1 << 31,
            ..DATAGRAM
        },
        Datagram {
            local: Sge {
                len: 0,
                ..DATAGRAM.local
            },
            ..DATAGRAM
        },
    ];
    for datagram in bad {
        assert_eq!(datagram.encode(0, 0), None, "{datagram:?}");
    }
    assert_eq!(DATAGRAM.encode(0, 1 << 24), None);
}
