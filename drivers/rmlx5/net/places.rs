// SPDX-License-Identifier: GPL-2.0
//! How the places of the table of users are shared out.
//!
//! A band of places for each priority, in order. Half of a band are spans of several places, for rules that look at the
//! same fields: one flow group serves them all. The others are spans of one place, so that many rules find room that have
//! nothing in common.

/// log2 of the bands of the table.
pub(crate) const LOG_BANDS: u8 = 5;

/// Neighbouring places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first one.
    pub(crate) first: u32,
    /// How many; at least one.
    pub(crate) count: u32,
}

impl Range {
    /// The last one.
    pub(crate) const fn last(self) -> u32 {
        self.first.saturating_add(self.count).saturating_sub(1)
    }
}

/// The places of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// log2 of the places of a band; at most 11.
    log_band: u8,
}

impl Places {
    /// Of a table of `1 << log` places, at least one for each band. A larger one than `1 << 16` is not used up.
    pub(crate) fn new(log: u8) -> Self {
        Self {
            log_band: log.min(16).saturating_sub(LOG_BANDS),
        }
    }

    /// log2 of the places of a wide span, and how many such spans a band has.
    fn wide(self) -> (u8, usize) {
        match self.log_band.checked_sub(1) {
            Some(half) => (half / 2, 1 << (half - half / 2)),
            None => (0, 0),
        }
    }

    /// Span `at` of a band; `None` when the band has fewer.
    pub(crate) fn span(self, band: u8, at: usize) -> Option<Range> {
        let (log_width, wide) = self.wide();
        let (offset, count) = match at.checked_sub(wide) {
            None => (at << log_width, 1 << log_width),
            Some(single) => (single.checked_add(wide << log_width)?, 1),
        };
        if band >> LOG_BANDS != 0 || offset >> self.log_band != 0 {
            return None;
        }
        // CAST: below 2^11.
        let first = (u32::from(band) << self.log_band) + offset as u32;
        Some(Range { first, count })
    }
}
