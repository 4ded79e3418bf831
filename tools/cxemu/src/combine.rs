// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The write combining buffer that a virtual machine monitor does not have.
//!
//! A processor gathers writes to a write combining mapping and sends a line of 64 bytes as one
//! access. A monitor that emulates the processor sends each store by itself, so a card behind it
//! never sees a whole WQE in a doorbell register. With `pci.write_combining` in its profile, the
//! card's side of the bus gathers them as such a processor would: stores that follow each other
//! within a line, until the line is full, until anything else is accessed, or until they have
//! waited [`HOLD`].
//!
//! What mapping the guest used does not show here: every doorbell register is treated as combining,
//! and a plain doorbell waits for its time to be over.

use std::time::Duration;

/// Bytes of a line.
const LINE: u64 = 64;
/// Where doorbell registers begin in a page of BAR0.
const REGISTERS: u64 = 0x800;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// First byte of BAR0 that can be a doorbell page.
const FIRST: u64 = 0x1_0000;

/// How long a line is held while nothing else happens. Stores of one copy come some microseconds
/// apart, more on a busy host.
pub const HOLD: Duration = Duration::from_micros(500);

/// One access to BAR0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Offset in BAR0.
    pub offset: u64,
    /// Bytes.
    pub data: Vec<u8>,
}

/// A buffer of one line.
#[derive(Debug, Default)]
pub struct Combiner {
    line: Option<Access>,
    /// When the line was begun.
    since: Duration,
}

/// Whether a store at this place is one that a processor would combine.
fn combines(offset: u64, len: usize) -> bool {
    offset >= FIRST && offset % PAGE >= REGISTERS && matches!(len, 4 | 8) && offset % 4 == 0
}

impl Combiner {
    /// Takes a store, at `now`; what reaches the card, in order. At most two accesses.
    pub fn write(&mut self, offset: u64, data: &[u8], now: Duration) -> Vec<Access> {
        let mut out = Vec::new();
        let follows = |line: &Access| {
            combines(offset, data.len())
                && offset % LINE != 0
                && line.offset + line.data.len() as u64 == offset
        };
        match &mut self.line {
            Some(line) if follows(line) => line.data.extend_from_slice(data),
            _ => {
                out.extend(self.flush());
                let access = Access {
                    offset,
                    data: data.to_vec(),
                };
                if combines(offset, data.len()) && offset % LINE == 0 {
                    self.since = now;
                    self.line = Some(access);
                } else {
                    out.push(access);
                }
            }
        }
        let full = |line: &Access| line.data.len() as u64 >= LINE;
        if self.line.as_ref().is_some_and(full) {
            out.extend(self.flush());
        }
        out
    }

    /// Gives out what is held.
    pub fn flush(&mut self) -> Option<Access> {
        self.line.take()
    }

    /// When what is held has waited long enough.
    pub fn deadline(&self) -> Option<Duration> {
        self.line.as_ref().map(|_| self.since + HOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1_0000 + 0x900;
    const NOW: Duration = Duration::from_secs(1);

    fn access(offset: u64, data: impl Into<Vec<u8>>) -> Access {
        Access {
            offset,
            data: data.into(),
        }
    }

    /// Writes `count` stores of 8 bytes from `at` on.
    fn copy(combiner: &mut Combiner, at: u64, count: u8) -> Vec<Access> {
        (0..count)
            .flat_map(|n| combiner.write(at + 8 * u64::from(n), &[n; 8], NOW))
            .collect()
    }

    #[test]
    fn a_full_line_is_one_access() {
        let mut combiner = Combiner::default();
        let line: Vec<u8> = (0..8).flat_map(|n| [n; 8]).collect();
        assert_eq!(copy(&mut combiner, AT, 8), [access(AT, line)]);
        assert_eq!(combiner.deadline(), None);
    }

    #[test]
    fn two_lines_are_two_accesses() {
        let mut combiner = Combiner::default();
        let out = copy(&mut combiner, AT, 16);
        let places: Vec<_> = out.iter().map(|a| (a.offset, a.data.len())).collect();
        assert_eq!(places, [(AT, 64), (AT + 64, 64)]);
    }

    #[test]
    fn a_plain_doorbell_waits_its_time() {
        let mut combiner = Combiner::default();
        assert!(copy(&mut combiner, AT, 1).is_empty());
        assert_eq!(combiner.deadline(), Some(NOW + HOLD));
        assert_eq!(combiner.flush(), Some(access(AT, [0; 8])));
    }

    #[test]
    fn what_does_not_follow_comes_behind_what_is_held() {
        let mut combiner = Combiner::default();
        copy(&mut combiner, AT, 3);
        let held = access(AT, [[0u8; 8], [1; 8], [2; 8]].concat());
        // Another register, a gap, an uncached register of the page, another page: order is kept.
        for (offset, waits) in [
            (AT + 0x100, true),
            (AT + 32, false),
            (AT - 0x900 + 0x20, false),
        ] {
            let mut combiner = Combiner {
                line: Some(held.clone()),
                since: NOW,
            };
            let out = combiner.write(offset, &[9; 8], NOW);
            assert_eq!(out.first(), Some(&held));
            assert_eq!(out.len(), if waits { 1 } else { 2 });
            assert_eq!(combiner.flush().is_some(), waits);
        }
    }

    #[test]
    fn the_rest_of_a_torn_line_is_not_gathered() {
        let mut combiner = Combiner::default();
        copy(&mut combiner, AT, 3);
        combiner.flush();
        assert_eq!(
            combiner.write(AT + 24, &[3; 8], NOW),
            [access(AT + 24, [3; 8])]
        );
    }

    #[test]
    fn other_registers_and_sizes_pass() {
        let mut combiner = Combiner::default();
        for (offset, len) in [(0x18, 4), (0x1_0040, 4), (0x1_0020, 8), (AT, 64), (AT, 1)] {
            let data = vec![1; len];
            assert_eq!(combiner.write(offset, &data, NOW), [access(offset, data)]);
        }
    }
}
