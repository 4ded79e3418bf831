// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! Offsets against the published interface, and what happens to values that do not fit.

use mlx5_hw::{field, field::Mut, field::Ref, ifc_buf, span, wire};
use proptest::prelude::*;

#[test]
fn offsets_are_those_of_the_interface() {
    // CREATE_QP: qpc at byte 0x18, PAS at 0x110; pd is qpc dword 2, low 24 bits.
    assert_eq!(span!(create_qp_in, qpc).offset(), 0x18);
    assert_eq!(span!(create_qp_in, pas).offset(), 0x110);
    let pd = field!(create_qp_in, qpc.pd);
    assert_eq!((pd.offset(), pd.bits()), ((0x18 + 8) * 8 + 8 - 32, 24));
    // EQ number comes back in the low byte of output dword 2.
    let eqn = field!(create_eq_out, eq_number);
    assert_eq!((eqn.offset(), eqn.bits()), (0x8 * 8 + 24, 8));
    assert_eq!(wire!(mlx5_cqe64, op_own).offset(), 0x3f);
    assert_eq!(wire!(mlx5_cqe64, wqe_counter).offset(), 0x3c);
    assert_eq!(wire!(mlx5_eqe, owner).offset(), 0x3f);
}

#[test]
fn a_value_too_wide_changes_nothing_and_is_reported() {
    let mut raw = ifc_buf!(create_qp_in);
    let mut input = Mut::new(&mut raw).unwrap();
    input.set(field!(create_qp_in, qpc.pd), 0xabcdef);
    assert!(!input.overflowed());
    input.set(field!(create_qp_in, qpc.pd), 1 << 24);
    assert!(input.overflowed());
    assert_eq!(input.as_ref().get(field!(create_qp_in, qpc.pd)), 0xabcdef);
}

#[test]
fn short_buffers_are_refused() {
    let raw = [0u8; 15];
    assert!(Ref::<mlx5_hw::ifc::query_issi_in>::new(&raw).is_none());
}

proptest! {
    #[test]
    fn a_field_reads_back_and_leaves_its_neighbours_alone(value in 0u64..1 << 24, fill: u8) {
        let mut raw = [fill; 0x400];
        let before = raw;
        let mut input = Mut::<mlx5_hw::ifc::create_qp_in>::new(&mut raw).unwrap();
        let pd = field!(create_qp_in, qpc.pd);
        input.set(pd, value);
        prop_assert_eq!(input.as_ref().get(pd), value);
        let first = (pd.offset() / 8) as usize;
        for (at, (old, new)) in before.iter().zip(raw.iter()).enumerate() {
            prop_assert!((first..first + 3).contains(&at) || old == new);
        }
    }
}
