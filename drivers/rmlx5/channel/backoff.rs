// SPDX-License-Identifier: GPL-2.0
//! How long to wait before a QP is brought back once more, and when to give up.

/// First delay, in milliseconds.
pub(crate) const FIRST_MS: u32 = 1;
/// Longest delay, in milliseconds.
pub(crate) const LONGEST_MS: u32 = 1000;
/// Attempts in a row, none of which carried traffic, after which a channel is given up.
pub(crate) const LIMIT: u32 = 16;

/// Attempts since the connection last carried traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// No attempt yet.
    pub(crate) const fn new() -> Self {
        Self { attempts: 0 }
    }

    /// Delay before the next attempt in milliseconds, doubling from [`FIRST_MS`] up to
    /// [`LONGEST_MS`]; `None` after [`LIMIT`] attempts.
    pub(crate) fn next(&mut self) -> Option<u32> {
        if self.attempts >= LIMIT {
            return None;
        }
        let delay = FIRST_MS.checked_shl(self.attempts).unwrap_or(LONGEST_MS);
        self.attempts = self.attempts.saturating_add(1);
        Some(delay.min(LONGEST_MS))
    }

    /// The connection carried traffic: start over.
    pub(crate) fn succeeded(&mut self) {
        self.attempts = 0;
    }

    /// Attempts so far.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }
}
