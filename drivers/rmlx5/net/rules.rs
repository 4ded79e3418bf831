// SPDX-License-Identifier: GPL-2.0
//! The table of users' rules.
//!
//! Rules for the same frames share an entry: each gets the frame, or none does. Rules that look at the same fields share a
//! flow group as far as its places go, see [`super::places`].
//!
//! Source of what may share an entry: `check_conflicting_ftes` and `add_rule_fte` in core/fs_core.c.

use kernel::prelude::*;

use super::{
    flow::{
        Action,
        Destination,
        Entry,
        Group,
        Table, //
    },
    headers::Fields,
    places::{
        Places,
        Range,
        LOG_BANDS, //
    },
};
use crate::home::Home;

/// What a rule is about: masks, values, and which band it is in.
pub(crate) struct Pattern {
    /// Lower ones win; below 32.
    pub(crate) band: u8,
    /// The parts of a packet that the card looks at, `MLX5_MATCH_*`.
    pub(crate) criteria: u8,
    pub(crate) mask: Fields,
    pub(crate) values: Fields,
}

/// What happens to frames that match.
#[derive(Clone, Copy)]
pub(crate) struct Effect {
    /// They go to this TIR, or nowhere.
    pub(crate) tir: Option<u32>,
    /// Their completions show this, 24 bits.
    pub(crate) tag: Option<u32>,
}

/// Rules for the same frames.
struct Shared {
    entry: Entry,
    values: Fields,
    tag: u32,
    /// Ids of the rules, and the TIR that each leads to. All lead to one, or none does.
    rules: KVVec<(u64, Option<u32>)>,
}

impl Shared {
    fn has(&self, id: u64) -> bool {
        self.rules.iter().any(|(other, _)| *other == id)
    }

    fn drops(&self) -> bool {
        self.rules.iter().all(|(_, tir)| tir.is_none())
    }

    /// Where all rules lead to, that with id `without` aside and TIR `with` beside: each once, as the card wants it.
    fn destinations(&self, without: Option<u64>, with: Option<u32>) -> Result<KVVec<Destination>> {
        let mut list = KVVec::with_capacity(self.rules.len() + 1, GFP_KERNEL)?;
        let others = self.rules.iter().filter(|(id, _)| Some(*id) != without);
        for tir in Iterator::chain(others.filter_map(|(_, tir)| *tir), with) {
            let to = Destination::Tir(tir);
            if !list.contains(&to) {
                list.push(to, GFP_KERNEL)?;
            }
        }
        Ok(list)
    }

    fn redirect(&self, group: &Group, to: &[Destination]) -> Result {
        group.redirect(&self.entry, self.values.bytes(), self.tag, to)
    }

    /// One more rule. Sleeps. `EEXIST` when it says something else.
    fn join(&mut self, group: &Group, id: u64, effect: Effect) -> Result {
        let differs = effect.tag.is_some_and(|tag| tag != self.tag);
        if self.drops() != effect.tir.is_none() || differs {
            return Err(EEXIST);
        }
        self.rules.reserve(1, GFP_KERNEL)?;
        if let Some(tir) = effect.tir {
            self.redirect(group, &self.destinations(None, Some(tir))?)?;
        }
        Ok(self.rules.push((id, effect.tir), GFP_KERNEL)?)
    }

    /// One rule less. `false` when that was the last one, or the card does not let go of one: nobody may get anything
    /// then. Sleeps.
    fn leave(&mut self, group: &Group, id: u64) -> bool {
        let others = self.rules.iter().any(|(other, _)| *other != id);
        let stays = others
            && (self.drops()
                || self
                    .destinations(Some(id), None)
                    .is_ok_and(|list| self.redirect(group, &list).is_ok()));
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
    criteria: u8,
    mask: Fields,
    range: Range,
}

impl Span {
    fn new(table: &Table, range: Range, criteria: u8, mask: Fields) -> Result<Self> {
        Ok(Self {
            entries: KVec::new(),
            group: table.group_of(range.first, range.last(), criteria, mask.bytes())?,
            criteria,
            mask,
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
    fn find(&mut self, values: &Fields) -> Option<(&mut Shared, &Group)> {
        let mut entries = self.entries.iter_mut().flatten();
        let found = entries.find(|shared| shared.values == *values)?;
        Some((found, &self.group))
    }

    /// A rule in a vacant place. Sleeps.
    fn add(&mut self, at: usize, values: Fields, id: u64, effect: Effect) -> Result {
        if at == self.entries.len() {
            self.entries.push(None, GFP_KERNEL)?;
        }
        let slot = self.entries.get_mut(at).ok_or(EINVAL)?;
        let mut rules = KVVec::with_capacity(1, GFP_KERNEL)?;
        rules.push((id, effect.tir), GFP_KERNEL)?;
        // CAST: a few places.
        let place = self.range.first.saturating_add(at as u32);
        let tag = effect.tag.unwrap_or_default();
        let to = effect.tir.map(Destination::Tir);
        let action = match to.as_slice() {
            [] => Action::Drop,
            list => Action::Forward(list),
        };
        *slot = Some(Shared {
            entry: self.group.entry_of(place, values.bytes(), tag, action)?,
            values,
            tag,
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

    /// Adds a rule. Sleeps. `ENOSPC` when the band is full, `EEXIST` when another one says something else.
    pub(super) fn add(&mut self, pattern: Pattern, id: u64, effect: Effect) -> Result {
        let band = self
            .bands
            .get_mut(usize::from(pattern.band))
            .ok_or(EINVAL)?;
        let mut vacant = None;
        for span in band.iter_mut().flatten() {
            if span.criteria != pattern.criteria || span.mask != pattern.mask {
                continue;
            }
            if let Some((shared, group)) = span.find(&pattern.values) {
                return shared.join(group, id, effect);
            }
            vacant = vacant.or_else(|| Some((span.range, span.vacant()?)));
        }
        if let Some((range, at)) = vacant {
            let mut spans = band.iter_mut().flatten();
            let span = spans.find(|span| span.range == range).ok_or(EINVAL)?;
            return span.add(at, pattern.values, id, effect);
        }
        let free = band.iter().position(Option::is_none);
        let at = free.unwrap_or(band.len());
        let range = self.places.span(pattern.band, at).ok_or(ENOSPC)?;
        if free.is_none() {
            band.push(None, GFP_KERNEL)?;
        }
        let slot = band.get_mut(at).ok_or(EINVAL)?;
        let mut span = Span::new(&self.table, range, pattern.criteria, pattern.mask)?;
        span.add(0, pattern.values, id, effect)?;
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
