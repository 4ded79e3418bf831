// SPDX-License-Identifier: GPL-2.0
//! Keeps what a device or a user provokes from flooding the log.

use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};
use kernel_ext::time::now_ns;

/// Lines allowed per window.
const BURST: u32 = 10;
/// Length of a window in nanoseconds, as `DEFAULT_RATELIMIT_INTERVAL`.
const WINDOW: u64 = 5_000_000_000;

/// Ten lines in five seconds. What is swallowed is in the counter of the event. Any context.
pub(crate) struct Limit {
    start: Atomic<u64>,
    lines: Atomic<u32>,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            start: Atomic::new(0),
            lines: Atomic::new(0),
        }
    }
}

impl Limit {
    /// Whether one more line may be printed now.
    pub(crate) fn allows(&self) -> bool {
        let now = now_ns();
        // Two who race here may print a few lines more: harmless.
        if now.wrapping_sub(self.start.load(Relaxed)) > WINDOW {
            self.start.store(now, Relaxed);
            self.lines.store(0, Relaxed);
        }
        self.lines.fetch_add(1, Relaxed) < BURST
    }
}
