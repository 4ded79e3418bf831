// SPDX-License-Identifier: GPL-2.0
//! How often an end that hears nothing says the same thing again.
//!
//! A few times in quick succession; then the peer counts as lost, and a message now and then is
//! enough to find out that it is back.

const MS: u64 = 1_000_000;
/// Time after the first message.
const FIRST_MS: u64 = 20;
/// Longest time between two messages, and the time between messages to a lost peer.
pub(crate) const LONGEST_MS: u64 = 2000;
/// Messages without an answer after which the peer counts as lost: two and a half seconds.
pub(crate) const LIMIT: u32 = 8;

/// Waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Messages so far.
    said: u32,
    /// When the next one is due, in nanoseconds.
    due: u64,
}

impl Patience {
    /// A first message has been sent at `now`.
    pub(crate) const fn new(now: u64) -> Self {
        Self {
            said: 1,
            due: now.saturating_add(FIRST_MS * MS),
        }
    }

    /// Nanoseconds until the next message is due; 0: now.
    pub(crate) fn left(&self, now: u64) -> u64 {
        self.due.saturating_sub(now)
    }

    /// Counts another message, sent at `now`. Whether the peer is lost by that, for the first time.
    pub(crate) fn say(&mut self, now: u64) -> bool {
        let delay = FIRST_MS.checked_shl(self.said).unwrap_or(LONGEST_MS);
        self.due = now.saturating_add(delay.min(LONGEST_MS) * MS);
        // Stays at the limit, so that the delay does not grow over it.
        let lost = self.said + 1 == LIMIT;
        self.said = self.said.saturating_add(1).min(LIMIT);
        lost
    }

    /// Whether the peer counts as lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.said >= LIMIT
    }
}
