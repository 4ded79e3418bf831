// SPDX-License-Identifier: GPL-2.0
//! The table of users' rules.
//!
//! Rules that say the same share an entry: each gets the frame. Rules that look at the same fields share a flow group as
//! far as its places go, see [`super::places`].

use kernel::prelude::*;

use super::{
    flow::{
        Destination,
        Entry,
        Group,
        Headers,
        Table, //
    },
    places::{
        Places,
        Range,
        LOG_BANDS, //
    },
};
use crate::home::Home;

/// What a rule is about: masks, values, and which band it is in.
#[derive(Clone, Copy)]
pub(crate) struct Pattern {
    /// Lower ones win; below 32.
    pub(crate) band: u8,
    pub(crate) mask: Headers,
    pub(crate) values: Headers,
}

/// Rules that say the same.
struct Shared {
    entry: Entry,
    values: Headers,
    /// Ids of the rules, and where each leads to.
    rules: KVec<(u64, Destination)>,
}

impl Shared {
    fn has(&self, id: u64) -> bool {
        self.rules.iter().any(|(other, _)| *other == id)
    }

    /// Where all rules lead to, that with id `without` aside.
    fn destinations(&self, without: Option<u64>) -> Result<KVec<Destination>> {
        let mut list = KVec::with_capacity(self.rules.len() + 1, GFP_KERNEL)?;
        for (id, to) in self.rules.iter() {
            if Some(*id) != without {
                list.push(*to, GFP_KERNEL)?;
            }
        }
        Ok(list)
    }

    /// One more rule. Sleeps.
    fn join(&mut self, group: &Group, id: u64, to: Destination) -> Result {
        self.rules.reserve(1, GFP_KERNEL)?;
        let mut list = self.destinations(None)?;
        list.push(to, GFP_KERNEL)?;
        group.redirect(&self.entry, &self.values, &list)?;
        Ok(self.rules.push((id, to), GFP_KERNEL)?)
    }

    /// One rule less. `false` when that was the last one, or the card does not let go of one: nobody may get anything
    /// then. Sleeps.
    fn leave(&mut self, group: &Group, id: u64) -> bool {
        let stays = self.destinations(Some(id)).is_ok_and(|list| {
            !list.is_empty() && group.redirect(&self.entry, &self.values, &list).is_ok()
        });
        if stays {
            self.rules.retain(|(other, _)| *other != id);
        }
        stays
    }
}

/// Entries that look at the same fields. They go before their group.
struct Span {
    /// From the first place on.
    entries: KVec<Option<Shared>>,
    group: Group,
    mask: Headers,
    range: Range,
}

impl Span {
    fn new(table: &Table, range: Range, mask: &Headers) -> Result<Self> {
        Ok(Self {
            entries: KVec::new(),
            group: table.group_of(range.first, range.last(), mask)?,
            mask: *mask,
            range,
        })
    }

    fn is_empty(&self) -> bool {
        self.entries.iter().all(Option::is_none)
    }

    /// A place without an entry.
    fn vacant(&self) -> Option<usize> {
        match self.entries.iter().position(Option::is_none) {
            Some(at) => Some(at),
            // CAST: a few places.
            None => Some(self.entries.len()).filter(|at| *at < self.range.count as usize),
        }
    }

    /// The entry with these values, and the group.
    fn find(&mut self, values: &Headers) -> Option<(&mut Shared, &Group)> {
        let mut entries = self.entries.iter_mut().flatten();
        let found = entries.find(|shared| shared.values == *values)?;
        Some((found, &self.group))
    }

    /// A rule in a vacant place. Sleeps.
    fn add(&mut self, at: usize, values: &Headers, id: u64, to: Destination) -> Result {
        if at == self.entries.len() {
            self.entries.push(None, GFP_KERNEL)?;
        }
        let slot = self.entries.get_mut(at).ok_or(EINVAL)?;
        let mut rules = KVec::with_capacity(1, GFP_KERNEL)?;
        rules.push((id, to), GFP_KERNEL)?;
        // CAST: a few places.
        let place = self.range.first.saturating_add(at as u32);
        *slot = Some(Shared {
            entry: self.group.entry_of(place, values, &[to])?,
            values: *values,
            rules,
        });
        Ok(())
    }

    /// Takes a rule away if it is here. Sleeps.
    fn remove(&mut self, id: u64) -> bool {
        for slot in self.entries.iter_mut() {
            let Some(shared) = slot.as_mut().filter(|shared| shared.has(id)) else {
                continue;
            };
            if !shared.leave(&self.group, id) {
                *slot = None;
            }
            return true;
        }
        false
    }
}

/// The table of users. Entries go before it.
pub(super) struct Rules {
    /// Spans of each band, from its first place on.
    bands: KVec<KVVec<Option<Span>>>,
    table: Table,
    places: Places,
}

impl Rules {
    /// A table of `1 << log_places` places without a rule. Sleeps.
    pub(super) fn new(home: &Home, level: u8, log_places: u8) -> Result<Self> {
        let mut bands = KVec::with_capacity(1 << LOG_BANDS, GFP_KERNEL)?;
        for _ in 0..1 << LOG_BANDS {
            bands.push(KVVec::new(), GFP_KERNEL)?;
        }
        Ok(Self {
            bands,
            table: Table::new(home, level, log_places)?,
            places: Places::new(log_places),
        })
    }

    /// The table.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether it has no rule.
    pub(super) fn is_empty(&self) -> bool {
        let mut spans = self.bands.iter().flat_map(|band| band.iter());
        spans.all(Option::is_none)
    }

    /// Adds a rule. Sleeps. `ENOSPC` when the band is full.
    pub(super) fn add(&mut self, pattern: &Pattern, id: u64, to: Destination) -> Result {
        let band = self
            .bands
            .get_mut(usize::from(pattern.band))
            .ok_or(EINVAL)?;
        let mut vacant = None;
        for span in band.iter_mut().flatten() {
            if span.mask != pattern.mask {
                continue;
            }
            if let Some((shared, group)) = span.find(&pattern.values) {
                return shared.join(group, id, to);
            }
            vacant = vacant.or_else(|| Some((span.range, span.vacant()?)));
        }
        if let Some((range, at)) = vacant {
            let mut spans = band.iter_mut().flatten();
            let span = spans.find(|span| span.range == range).ok_or(EINVAL)?;
            return span.add(at, &pattern.values, id, to);
        }
        let free = band.iter().position(Option::is_none);
        let at = free.unwrap_or(band.len());
        let range = self.places.span(pattern.band, at).ok_or(ENOSPC)?;
        if free.is_none() {
            band.push(None, GFP_KERNEL)?;
        }
        let slot = band.get_mut(at).ok_or(EINVAL)?;
        let mut span = Span::new(&self.table, range, &pattern.mask)?;
        span.add(0, &pattern.values, id, to)?;
        *slot = Some(span);
        Ok(())
    }

    /// Takes a rule away; its destination gets nothing through it any more. Sleeps.
    pub(super) fn remove(&mut self, band: u8, id: u64) {
        let Some(band) = self.bands.get_mut(usize::from(band)) else {
            return;
        };
        for slot in band.iter_mut() {
            let Some(span) = slot else { continue };
            if !span.remove(id) {
                continue;
            }
            if span.is_empty() {
                *slot = None;
            }
            break;
        }
        while matches!(band.last(), Some(None)) {
            band.pop();
        }
    }
}
