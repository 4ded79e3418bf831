// SPDX-License-Identifier: Apache-2.0 OR MIT
//! 24-bit sequence numbers.

/// A packet sequence number. Arithmetic wraps at 2^24; order is that of the shorter way round, so
/// two numbers are comparable while they are less than 2^23 apart (the specification's rule for
/// telling a duplicate from a gap).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

const MASK: u32 = 0xff_ffff;

impl Psn {
    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The number, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The number `by` packets later.
    #[must_use]
    pub const fn plus(self, by: u32) -> Self {
        Self(self.0.wrapping_add(by) & MASK)
    }

    /// Signed distance from `other` to `self`: -2^23 to 2^23 - 1.
    pub const fn since(self, other: Self) -> i32 {
        // CAST: sign extension of a 24-bit value is the meaning.
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }

    /// Whether `self` comes before `other`.
    pub const fn before(self, other: Self) -> bool {
        self.since(other) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::Psn;
    use proptest::prelude::*;

    #[test]
    fn the_number_after_the_last_is_zero() {
        assert_eq!(Psn::new(0xff_ffff).plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).since(Psn::new(0xff_ffff)), 1);
        assert!(Psn::new(0xff_fff0).before(Psn::new(5)));
        assert!(!Psn::new(5).before(Psn::new(0xff_fff0)));
    }

    #[test]
    fn half_the_space_away_counts_as_past() {
        assert_eq!(Psn::new(0x80_0000).since(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(0x7f_ffff).since(Psn::new(0)), 0x7f_ffff);
    }

    proptest! {
        #[test]
        fn distance_undoes_addition(start: u32, by in 0u32..0x80_0000) {
            let start = Psn::new(start);
            // CAST: below 2^23.
            prop_assert_eq!(start.plus(by).since(start), by as i32);
            prop_assert_eq!(start.plus(by).before(start), false);
        }
    }
}
