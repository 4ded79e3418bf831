// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One flow table: groups of entries under one mask each, and where a miss goes.

use super::key::{Key, Mask, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Where a flow table sends a frame that none of its entries matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The default of the domain; on receive: the frame is dropped.
    Default,
    /// Another table of a higher level.
    Table(u32),
}

/// Where an entry sends a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Another flow table.
    Table(u32),
    /// A TIR.
    Tir(u32),
}

/// What an entry does with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing more happens to it.
    Drop,
    /// It goes to all of these.
    Forward(Vec<Destination>),
}

impl Action {
    /// The TIRs it names.
    pub fn tirs(&self) -> impl Iterator<Item = u32> + '_ {
        let list = match self {
            Self::Drop => &[],
            Self::Forward(list) => list.as_slice(),
        };
        list.iter().filter_map(|destination| match destination {
            Destination::Tir(tirn) => Some(*tirn),
            Destination::Table(_) => None,
        })
    }
}

/// One flow table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The group it belongs to.
    pub group: u32,
    /// What its frames look like.
    pub value: Value,
    /// Shows up in the completions of its frames (24 bits).
    pub tag: u32,
    /// What happens to its frames.
    pub action: Action,
    /// Flow counters that count them.
    pub counters: Vec<u32>,
}

/// A range of entries under one mask.
#[derive(Debug)]
pub struct Group {
    /// First flow index.
    pub start: u32,
    /// Last flow index.
    pub end: u32,
    /// Which fields its entries match.
    pub mask: Mask,
    /// Entries by value: a frame, masked, finds them without a walk.
    by_value: BTreeMap<Value, BTreeSet<u32>>,
}

impl Group {
    /// A group without entries.
    pub fn new(start: u32, end: u32, mask: Mask) -> Self {
        Self {
            start,
            end,
            mask,
            by_value: BTreeMap::new(),
        }
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.by_value.is_empty()
    }
}

/// One flow table.
#[derive(Debug)]
pub struct Table {
    /// Place in the order of tables: a frame only ever moves to higher levels.
    pub level: u8,
    /// log2 of the number of entries.
    pub log_size: u8,
    /// Where misses go.
    pub miss: Miss,
    groups: BTreeMap<u32, Group>,
    entries: BTreeMap<u32, Entry>,
}

impl Table {
    /// A table without groups.
    pub fn new(level: u8, log_size: u8, miss: Miss) -> Self {
        Self {
            level,
            log_size,
            miss,
            groups: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    /// Whether it has no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// A group.
    pub fn group(&self, id: u32) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// An entry.
    pub fn entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(&index)
    }

    /// Number of entries.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// All entries, by flow index.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Number of a group that shares a flow index with `start..=end`.
    pub fn overlap(&self, start: u32, end: u32) -> Option<u32> {
        self.groups
            .iter()
            .find(|(_, group)| group.start <= end && start <= group.end)
            .map(|(id, _)| *id)
    }

    /// Adds a group.
    pub fn add_group(&mut self, id: u32, group: Group) {
        self.groups.insert(id, group);
    }

    /// Removes a group; the caller saw that it is empty.
    pub fn remove_group(&mut self, id: u32) {
        self.groups.remove(&id);
    }

    /// Puts an entry at a flow index; the caller saw that its group is there and holds the index.
    pub fn set_entry(&mut self, index: u32, entry: Entry) {
        self.remove_entry(index);
        if let Some(group) = self.groups.get_mut(&entry.group) {
            group
                .by_value
                .entry(entry.value.clone())
                .or_default()
                .insert(index);
            self.entries.insert(index, entry);
        }
    }

    /// Takes the entry at a flow index out.
    pub fn remove_entry(&mut self, index: u32) -> Option<Entry> {
        let entry = self.entries.remove(&index)?;
        if let Some(group) = self.groups.get_mut(&entry.group) {
            if let Some(indexes) = group.by_value.get_mut(&entry.value) {
                indexes.remove(&index);
                if indexes.is_empty() {
                    group.by_value.remove(&entry.value);
                }
            }
        }
        Some(entry)
    }

    /// One line for each group and entry.
    pub fn describe(&self, table: u32) -> Vec<String> {
        let group = |(id, group): (&u32, &Group)| {
            let (start, end) = (group.start, group.end);
            let mask = group.mask.enable();
            format!("flow group {id:#x}: table {table:#x} {start:#x}..={end:#x} criteria {mask:#x}")
        };
        let entry = |(index, entry): (&u32, &Entry)| {
            let Entry {
                group,
                tag,
                action,
                counters,
                ..
            } = entry;
            format!(
                "flow entry {index:#x}: table {table:#x} group {group:#x} tag {tag:#x} \
                 {action:x?} counters {counters:x?}"
            )
        };
        let groups = self.groups.iter().map(group);
        groups.chain(self.entries.iter().map(entry)).collect()
    }

    /// The entry a frame hits: of all that match, the one with the lowest flow index.
    pub fn lookup(&self, key: &Key) -> Option<&Entry> {
        self.groups
            .values()
            .filter_map(|group| group.by_value.get(&group.mask.of(key))?.first())
            .min()
            .and_then(|index| self.entries.get(index))
    }
}
