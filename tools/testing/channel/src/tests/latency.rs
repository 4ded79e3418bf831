// SPDX-License-Identifier: GPL-2.0
//! Quantiles against sorted values.

use crate::channel::latency::Histogram;
use proptest::prelude::*;

#[test]
fn empty_has_no_values() {
    let histogram = Histogram::new();
    assert_eq!((histogram.min(), histogram.quantile(50)), (None, None));
}

#[test]
fn extremes_do_not_break_it() {
    let mut histogram = Histogram::new();
    histogram.record(0);
    assert_eq!(histogram.quantile(99), Some(0));
    histogram.record(u64::MAX);
    assert_eq!(histogram.min(), Some(0));
    assert!(histogram.quantile(100) > Some(1 << 39));
}

proptest! {
    #[test]
    fn quantiles_are_an_eighth_too_high_at_most(
        mut values in proptest::collection::vec(0u64..1 << 36, 1..300), split in any::<prop::sample::Index>(),
    ) {
        let split = split.index(values.len());
        let (mut one, mut two) = (Histogram::new(), Histogram::new());
        values[..split].iter().for_each(|v| one.record(*v));
        values[split..].iter().for_each(|v| two.record(*v));
        one.merge(&two);
        values.sort_unstable();
        prop_assert_eq!(one.min(), values.first().copied());
        for percent in [50, 99] {
            let rank = (values.len() * percent).div_ceil(100).max(1);
            let exact = values[rank - 1];
            let found = one.quantile(percent as u32).unwrap();
            prop_assert!(found >= exact && found <= exact + exact / 8 + 1, "{} for {}", found, exact);
        }
    }
}
