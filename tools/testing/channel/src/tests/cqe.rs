// SPDX-License-Identifier: GPL-2.0
//! CQEs from bytes laid out by hand from struct mlx5_cqe64 and struct mlx5_err_cqe.

use crate::{
    cq::cqe::{is_valid, Cqe, Received, CQE_BYTES, OP_OWN, OP_OWN_UNUSED},
    qp::state::{QpState, Step},
};
use proptest::prelude::*;

fn cqe(patches: &[(usize, &[u8])]) -> [u8; CQE_BYTES] {
    let mut bytes = [0; CQE_BYTES];
    for (at, patch) in patches {
        bytes[*at..*at + patch.len()].copy_from_slice(patch);
    }
    bytes
}

#[test]
fn sizes_and_presets() {
    assert_eq!((CQE_BYTES, OP_OWN, OP_OWN_UNUSED), (64, 63, 0xf1));
    assert!(!is_valid(OP_OWN_UNUSED, 0));
    assert!(!is_valid(OP_OWN_UNUSED, 1));
    assert!(is_valid(0x20, 0));
    assert!(!is_valid(0x20, 1));
    assert!(is_valid(0x21, 1));
}

#[test]
fn requester() {
    let bytes = cqe(&[
        (0x2c, &[0, 1, 0, 0]),
        (0x38, &[0x10, 1, 2, 3, 4, 5]),
        (0x3f, &[1]),
    ]);
    let want = Cqe::Requester {
        qpn: 0x010203,
        wqe_counter: 0x0405,
        opcode: 0x10,
        byte_cnt: 0x10000,
    };
    assert_eq!(Cqe::parse(&bytes), want);
}

#[test]
fn receive_with_immediate() {
    let bytes = cqe(&[
        (0x18, &[0x13, 0xaa, 0xbb, 0xcc]),
        (0x24, &[9, 8, 7, 6]),
        (0x2c, &[0, 0, 0, 5]),
        (0x38, &[0, 0, 0, 0x41, 0, 3]),
        (0x3f, &[0x30]),
    ]);
    let kind = Received::SendImm(0x0908_0706);
    assert_eq!(
        Cqe::parse(&bytes),
        Cqe::Responder {
            qpn: 0x41,
            wqe_counter: 3,
            byte_cnt: 5,
            kind,
            source_qpn: 0xaa_bbcc,
        }
    );
}

#[test]
fn errors_carry_syndromes() {
    let bytes = cqe(&[
        (0x36, &[0x88, 0x13]),
        (0x38, &[8, 0, 0, 0x41, 0, 3]),
        (0x3f, &[0xd1]),
    ]);
    let Cqe::RequesterError {
        qpn: 0x41,
        wqe_counter: 3,
        opcode: 8,
        syndrome,
    } = Cqe::parse(&bytes)
    else {
        panic!("{:?}", Cqe::parse(&bytes));
    };
    assert_eq!((syndrome.code, syndrome.vendor), (0x13, 0x88));
    assert!(!syndrome.is_flush());
    let flushed = cqe(&[(0x37, &[5]), (0x3f, &[0xe1])]);
    assert!(
        matches!(Cqe::parse(&flushed), Cqe::ResponderError { syndrome, .. } if syndrome.is_flush())
    );
}

#[test]
fn the_undefined_is_malformed() {
    for opcode in [6u8, 7, 8, 9, 10, 11, 12] {
        let bytes = cqe(&[(0x3f, &[opcode << 4])]);
        assert_eq!(Cqe::parse(&bytes), Cqe::Malformed { opcode, qpn: 0 });
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed(bytes in proptest::array::uniform32(any::<u8>())) {
        let mut all = [0; CQE_BYTES];
        all[32..].copy_from_slice(&bytes);
        let _ = Cqe::parse(&all);
    }
}

#[test]
fn qp_goes_only_where_the_interface_allows() {
    let up = [Step::RstToInit, Step::InitToRtr, Step::RtrToRts];
    let mut state = QpState::Reset;
    for (n, step) in up.iter().enumerate() {
        for (m, other) in up.iter().enumerate() {
            assert_eq!(state.after(*other).is_some(), n == m);
        }
        assert_eq!(state.after(Step::ToError), Some(QpState::Error));
        assert_eq!(state.after(Step::ToReset), Some(QpState::Reset));
        state = state.after(*step).unwrap();
    }
    assert_eq!(state, QpState::Rts);
    assert!(up.iter().all(|step| QpState::Error.after(*step).is_none()));
    for (code, name) in [
        (0, "RESET"),
        (1, "INIT"),
        (2, "RTR"),
        (3, "RTS"),
        (6, "ERROR"),
    ] {
        assert_eq!(QpState::from_context(code).unwrap().name(), name);
    }
    assert_eq!(QpState::from_context(5), None);
}
