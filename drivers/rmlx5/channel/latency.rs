// SPDX-License-Identifier: GPL-2.0
//! Distribution of latencies in constant memory and without floating point.
//!
//! Values fall into buckets of an eighth of an octave, so that a quantile is at most 12.5 % above
//! the true value. Minimum and count are exact.

const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
/// Octaves above the linear part: up to 2^40 ns, some 18 minutes.
const OCTAVES: usize = 37;
const BUCKETS: usize = SUB + OCTAVES * SUB;

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: [u32; BUCKETS],
    count: u64,
    min: u64,
}

impl Histogram {
    /// An empty distribution.
    pub(crate) const fn new() -> Self {
        Self {
            buckets: [0; BUCKETS],
            count: 0,
            min: u64::MAX,
        }
    }

    /// Forgets everything, in place.
    pub(crate) fn clear(&mut self) {
        for bucket in &mut self.buckets {
            *bucket = 0;
        }
        self.count = 0;
        self.min = u64::MAX;
    }

    /// Counts one value.
    pub(crate) fn record(&mut self, ns: u64) {
        if let Some(bucket) = self.buckets.get_mut(index(ns)) {
            *bucket = bucket.saturating_add(1);
        }
        self.count = self.count.saturating_add(1);
        self.min = self.min.min(ns);
    }

    /// Adds what `other` has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to = to.saturating_add(*from);
        }
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
    }

    /// The smallest value; `None` without values.
    pub(crate) fn min(&self) -> Option<u64> {
        (self.count != 0).then_some(self.min)
    }

    /// A value that `percent` of all values do not exceed: the upper bound of its bucket.
    /// `None` without values.
    pub(crate) fn quantile(&self, percent: u32) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = self
            .count
            .saturating_mul(percent.min(100).into())
            .div_ceil(100)
            .max(1);
        let mut seen = 0u64;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen = seen.saturating_add((*bucket).into());
            if seen >= rank {
                return Some(upper(index).max(self.min));
            }
        }
        Some(upper(BUCKETS - 1))
    }
}

fn index(ns: u64) -> usize {
    if ns < SUB as u64 {
        // CAST: below 8.
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros();
    let shift = octave - SUB_BITS;
    // CAST: three bits.
    let sub = (ns >> shift) as usize & (SUB - 1);
    (SUB + shift as usize * SUB + sub).min(BUCKETS - 1)
}

/// Largest value of a bucket.
fn upper(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = (index - SUB) / SUB;
    let sub = (index - SUB) % SUB;
    ((SUB + sub + 1) as u64)
        .wrapping_shl(shift as u32)
        .wrapping_sub(1)
}
