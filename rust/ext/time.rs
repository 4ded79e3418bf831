// SPDX-License-Identifier: GPL-2.0
//! Deadlines on the monotonic clock.
//!
//! C headers: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h),
//! [`include/linux/delay.h`](srctree/include/linux/delay.h)

use kernel::time::{Delta, Instant, Jiffies, Monotonic};
use rmlx5_bindings as bindings;

pub use kernel::time::delay::{fsleep, udelay};

/// Nanoseconds on the monotonic clock. Callable in any context.
pub fn now_ns() -> u64 {
    // SAFETY: Always safe to call once timekeeping runs, which is before modules are loaded.
    unsafe { bindings::ktime_get_ns() }
}

/// Nanoseconds since 1970 on the wall clock. Callable in any context but NMIs.
pub fn wall_ns() -> u64 {
    // SAFETY: As above.
    // CAST: never negative.
    unsafe { bindings::ktime_get_real() as u64 }
}

/// `delta` in jiffies, rounded up; negative becomes zero, more than 49 days becomes 49 days.
pub(crate) fn jiffies_of(delta: Delta) -> Jiffies {
    let millis = u32::try_from(delta.as_millis_ceil().max(0)).unwrap_or(u32::MAX);
    kernel::time::msecs_to_jiffies(millis)
}

/// A point in time after which waiting is over.
#[derive(Clone, Copy)]
pub struct Deadline {
    start: Instant<Monotonic>,
    limit: Delta,
}

impl Deadline {
    /// `limit` from now.
    pub fn after(limit: Delta) -> Self {
        Self {
            start: Instant::now(),
            limit,
        }
    }

    /// Time that has passed since the deadline was set.
    pub fn elapsed(&self) -> Delta {
        self.start.elapsed()
    }

    /// Time that is left, zero when the deadline has passed.
    pub fn left(&self) -> Delta {
        let left = self
            .limit
            .as_nanos()
            .saturating_sub(self.elapsed().as_nanos());
        Delta::from_nanos(left.max(0))
    }

    /// Whether the deadline has passed.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}
