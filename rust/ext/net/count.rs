// SPDX-License-Identifier: GPL-2.0
//! Counters of the fast path.

use core::cell::UnsafeCell;

/// A counter with one writer at a time, who holds the lock of what it counts, and any number of readers. It runs free. Costs
/// its writer no locked access, as `u64_stats_t` in [`include/linux/u64_stats_sync.h`](srctree/include/linux/u64_stats_sync.h)
/// on machines whose words have 64 bits.
#[derive(Default)]
pub struct Count(UnsafeCell<u64>);

// SAFETY: Each access is one volatile access of an aligned word, which is whole in the kernel's memory model. Two writers at a
// time would lose a count, and nothing else.
unsafe impl Send for Count {}
// SAFETY: As above.
unsafe impl Sync for Count {}

impl Count {
    /// Counts one.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        let at = self.0.get();
        // SAFETY: The word is there as long as `self`; see above.
        unsafe { at.write_volatile(at.read_volatile().wrapping_add(n)) }
    }

    /// The count.
    #[inline]
    pub fn get(&self) -> u64 {
        // SAFETY: The word is there as long as `self`; see above.
        unsafe { self.0.get().read_volatile() }
    }
}
