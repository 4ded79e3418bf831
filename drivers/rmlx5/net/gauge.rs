// SPDX-License-Identifier: GPL-2.0
//! How far the two ends of a transmit ring are.

use kernel::sync::atomic::{
    ordering::Acquire,
    Atomic, //
};
use mlx5_hw::ring::Counter;

/// How far both ends are. The counters are blocks and run free.
pub(super) struct Gauge {
    /// Where the next WQE begins; written by the sending end, before its doorbell.
    pub(super) head: Atomic<u32>,
    /// Where the oldest WQE begins that is not finished; written by the other end.
    pub(super) tail: Atomic<u32>,
    /// Blocks of the ring.
    pub(super) blocks: u32,
    /// Blocks of the longest WQE.
    pub(super) longest: u32,
}

impl Gauge {
    /// Where the oldest WQE begins that is not finished. The blocks before are the sending end's again.
    pub(super) fn tail(&self) -> Counter {
        Counter::new(self.tail.load(Acquire))
    }

    /// Free blocks between an end of the ring that is at `head` and one that is at `tail`.
    pub(super) fn free(&self, head: Counter, tail: Counter) -> u32 {
        self.blocks.saturating_sub(head.since(tail))
    }

    /// Whether a queue that was stopped may go on: there is a little more than one packet needs, so that it does not stop at once.
    pub(super) fn has_room(&self, free: u32) -> bool {
        free >= 2 * self.longest
    }
}
