// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fields at any bit offset.

use device::layout::{bits_at, set_bits_at};
use proptest::prelude::*;

/// Bit by bit, bits behind the end as zero.
fn slowly(bytes: &[u8], at: u32, bits: u32) -> u64 {
    (at..at + bits).fold(0, |value, bit| {
        let byte = bytes.get(bit as usize / 8).copied().unwrap_or(0);
        value << 1 | u64::from(byte >> (7 - bit % 8) & 1)
    })
}

proptest! {
    #[test]
    fn reading_is_what_it_is_bit_by_bit(
        bytes in prop::collection::vec(any::<u8>(), 0..24),
        at in 0u32..200,
        bits in 0u32..=64,
    ) {
        prop_assert_eq!(bits_at(&bytes, at, bits), slowly(&bytes, at, bits));
    }

    #[test]
    fn what_is_written_reads_back_and_touches_nothing_else(
        mut bytes in prop::collection::vec(any::<u8>(), 24),
        at in 0u32..100,
        bits in 1u32..=64,
        value in any::<u64>(),
    ) {
        let value = value & u64::MAX >> (64 - bits);
        let before = bytes.clone();
        set_bits_at(&mut bytes, at, bits, value);
        prop_assert_eq!(bits_at(&bytes, at, bits), value);
        let old = bits_at(&before, at, bits);
        set_bits_at(&mut bytes, at, bits, old);
        prop_assert_eq!(bytes, before);
    }
}
