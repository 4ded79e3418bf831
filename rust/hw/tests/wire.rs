// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! Members of byte structures: each width, against a loop over its bytes.

use mlx5_hw::{
    raw, wire,
    wire::{get, put, Member},
};
use proptest::prelude::*;

const BYTES: usize = core::mem::size_of::<raw::mlx5_cqe64>();

fn naive<S>(bytes: &[u8], member: Member<S>) -> u64 {
    bytes[member.offset()..member.offset() + member.width()]
        .iter()
        .fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn check<S: Copy>(mut bytes: [u8; BYTES], member: Member<S>, value: u64) {
    assert_eq!(get(&bytes, member), Some(naive(&bytes, member)));
    let before = bytes;
    let fits = member.width() == 8 || value >> (8 * member.width()) == 0;
    assert_eq!(put(&mut bytes, member, value), fits);
    let end = member.offset() + member.width();
    if fits {
        assert_eq!(naive(&bytes, member), value);
    } else {
        assert_eq!(bytes, before);
    }
    assert_eq!(bytes[..member.offset()], before[..member.offset()]);
    assert_eq!(bytes[end..], before[end..]);
    // One byte too few.
    assert_eq!(get(&bytes[..end - 1], member), None);
    let after = bytes;
    assert!(!put(&mut bytes[..end - 1], member, 0));
    assert_eq!(bytes, after);
}

proptest! {
    #[test]
    fn members_of_each_width(bytes in any::<[u8; 32]>(), value: u64, shift in 0u32..64) {
        let mut all = [0; BYTES];
        all[..32].copy_from_slice(&bytes);
        all[32..].copy_from_slice(&bytes);
        let value = value >> shift;
        check(all, wire!(mlx5_cqe64, op_own), value);
        check(all, wire!(mlx5_cqe64, wqe_counter), value);
        check(all, wire!(mlx5_cqe64, byte_cnt), value);
        check(all, wire!(mlx5_wqe_data_seg, addr), value);
    }
}
