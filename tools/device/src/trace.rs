// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command trace: one line a command, in a ring that outlives resets.

use std::collections::VecDeque;

/// Lines kept unless told otherwise.
const DEFAULT_LINES: usize = 4096;

/// The last commands, oldest first.
#[derive(Debug)]
pub struct Trace {
    lines: VecDeque<Line>,
    capacity: usize,
    next: u64,
}

/// One command.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Line {
    /// Counts all lines ever written, from 0: gaps show what fell out of the ring.
    pub number: u64,
    /// Time of the card's clock, in microseconds.
    pub micros: u64,
    /// `NAME field=0x.. ... -> STATUS syndrome: reason`.
    pub text: String,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            lines: VecDeque::new(),
            capacity: DEFAULT_LINES,
            next: 0,
        }
    }
}

impl Trace {
    /// Adds a line and throws out the oldest when the ring is full.
    pub fn push(&mut self, micros: u64, text: String) {
        tracing::debug!(target: "device::trace", "{text}");
        while self.lines.len() >= self.capacity {
            self.lines.pop_front();
        }
        self.lines.push_back(Line {
            number: self.next,
            micros,
            text,
        });
        self.next += 1;
    }

    /// Lines from number `from` on that are still there.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.number >= from)
    }

    /// The number the next line will get.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Sets how many lines are kept (at least one).
    pub fn set_capacity(&mut self, lines: usize) {
        self.capacity = lines.max(1);
        while self.lines.len() > self.capacity {
            self.lines.pop_front();
        }
    }
}
