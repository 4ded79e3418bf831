// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All flow tables of the receive domain, the rules between them, and the walk of a frame.

mod error;
mod walk;
pub use error::FlowError;
pub use walk::{Hit, Walk};

use super::key::Mask;
use super::table::{Action, Destination, Entry, Group, Miss, Table};
use std::collections::BTreeMap;

/// Firmware memory of a table, a group and an entry, in bytes.
pub(super) const TABLE_FOOTPRINT: u64 = 256;
pub(super) const GROUP_FOOTPRINT: u64 = 256;
pub(super) const ENTRY_FOOTPRINT: u64 = 512;

/// What the flow table capabilities allow. Source: `flow_table_prop_layout` in mlx5_ifc.h.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// log2 of entries a table.
    pub log_max_ft_size: u8,
    /// log2 of tables.
    pub log_max_ft_num: u8,
    /// log2 of destinations an entry.
    pub log_max_destination: u8,
    /// log2 of flow counters an entry.
    pub log_max_flow_counter: u8,
    /// Entries can count.
    pub flow_counter: bool,
    /// Entries can be changed in place.
    pub flow_modify_en: bool,
    /// The root can be moved.
    pub modify_root: bool,
    /// A table can name another table for misses.
    pub identified_miss_table_mode: bool,
    /// The miss table can be changed later.
    pub flow_table_modify: bool,
}

/// Which parts of an entry a modification replaces: `modify_enable_mask` of SET_FLOW_TABLE_ENTRY.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// The action.
    pub action: bool,
    /// The flow tag.
    pub tag: bool,
    /// The destinations.
    pub destinations: bool,
    /// The flow counters.
    pub counters: bool,
}

/// What a modification puts in, as far as its [`Change`] says.
#[derive(Clone, Debug)]
pub struct Update {
    /// The flow tag.
    pub tag: u32,
    /// Action and destinations.
    pub action: Action,
    /// The flow counters.
    pub counters: Vec<u32>,
}

/// All tables of the receive domain.
#[derive(Debug, Default)]
pub struct Tree {
    tables: BTreeMap<u32, Table>,
    root: Option<u32>,
    last_table: u32,
    last_group: u32,
}

impl Tree {
    /// A table.
    ///
    /// # Errors
    /// [`FlowError::NoTable`].
    pub fn table(&self, id: u32) -> Result<&Table, FlowError> {
        self.tables.get(&id).ok_or(FlowError::NoTable(id))
    }

    fn table_mut(&mut self, id: u32) -> Result<&mut Table, FlowError> {
        self.tables.get_mut(&id).ok_or(FlowError::NoTable(id))
    }

    /// Number of tables.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The root table.
    pub fn root(&self) -> Option<u32> {
        self.root
    }

    /// Makes a table and returns its number (24 bits, never 0).
    ///
    /// Any level is taken: the stock driver puts its anchor above the `max_ft_level` that it
    /// demands (`ANCHOR_MIN_LEVEL` in core/fs_core.c).
    ///
    /// # Errors
    /// Size, number of tables, or a miss table that is missing or not behind the new one.
    pub fn create_table(
        &mut self,
        level: u8,
        log_size: u8,
        miss: Miss,
        limits: &Limits,
    ) -> Result<u32, FlowError> {
        if log_size > limits.log_max_ft_size {
            return Err(FlowError::Size {
                asked: log_size,
                max: limits.log_max_ft_size,
            });
        }
        let max = 1usize << limits.log_max_ft_num.min(23);
        if self.tables.len() >= max {
            return Err(FlowError::Tables(max));
        }
        self.check_miss(level, miss, limits)?;
        let id = next_id(&mut self.last_table, |id| self.tables.contains_key(&id));
        self.tables.insert(id, Table::new(level, log_size, miss));
        Ok(id)
    }

    fn check_miss(&self, level: u8, miss: Miss, limits: &Limits) -> Result<(), FlowError> {
        match miss {
            Miss::Default => Ok(()),
            Miss::Table(_) if !limits.identified_miss_table_mode => {
                Err(FlowError::Unsupported("a miss table"))
            }
            Miss::Table(to) => self.check_link(level, to),
        }
    }

    fn check_link(&self, level: u8, to: u32) -> Result<(), FlowError> {
        let to_level = self.table(to)?.level;
        if to_level <= level {
            return Err(FlowError::Level {
                to,
                to_level,
                level,
            });
        }
        Ok(())
    }

    /// Changes where misses of a table go.
    ///
    /// # Errors
    /// As [`Tree::create_table`].
    pub fn modify_miss(&mut self, id: u32, miss: Miss, limits: &Limits) -> Result<(), FlowError> {
        if !limits.flow_table_modify {
            return Err(FlowError::Unsupported("MODIFY_FLOW_TABLE"));
        }
        let level = self.table(id)?.level;
        self.check_miss(level, miss, limits)?;
        self.table_mut(id)?.miss = miss;
        Ok(())
    }

    /// Removes a table. The root may go: then all frames are dropped until the next root.
    ///
    /// # Errors
    /// [`FlowError::Busy`] while it has groups or another table points to it.
    pub fn destroy_table(&mut self, id: u32) -> Result<(), FlowError> {
        let table = self.table(id)?;
        let pointed_at = self.tables.values().any(|other| {
            other.miss == Miss::Table(id)
                || other.entries().any(|entry| {
                    matches!(&entry.action, Action::Forward(list)
                        if list.contains(&Destination::Table(id)))
                })
        });
        if !table.is_empty() || pointed_at {
            return Err(FlowError::Busy("flow table", id));
        }
        self.tables.remove(&id);
        if self.root == Some(id) {
            self.root = None;
        }
        Ok(())
    }

    /// Makes a table the first one that a frame visits.
    ///
    /// # Errors
    /// No such table, or a root is set and `modify_root` is not offered.
    pub fn set_root(&mut self, id: u32, limits: &Limits) -> Result<(), FlowError> {
        self.table(id)?;
        if self.root.is_some() && !limits.modify_root {
            return Err(FlowError::Unsupported("moving the root"));
        }
        self.root = Some(id);
        Ok(())
    }

    /// Makes a group and returns its number.
    ///
    /// # Errors
    /// [`FlowError::Range`] when the flow indexes are not free.
    pub fn create_group(
        &mut self,
        id: u32,
        start: u32,
        end: u32,
        mask: Mask,
    ) -> Result<u32, FlowError> {
        let table = self.table(id)?;
        let size = 1u64 << table.log_size.min(32);
        if start > end || u64::from(end) >= size || table.overlap(start, end).is_some() {
            return Err(FlowError::Range {
                table: id,
                start,
                end,
            });
        }
        let mut last = self.last_group;
        let group = next_id(&mut last, |group| table.group(group).is_some());
        self.last_group = last;
        self.table_mut(id)?
            .add_group(group, Group::new(start, end, mask));
        Ok(group)
    }

    /// A group of a table.
    ///
    /// # Errors
    /// No such table or group.
    pub fn group(&self, table: u32, group: u32) -> Result<&Group, FlowError> {
        self.table(table)?
            .group(group)
            .ok_or(FlowError::NoGroup { table, group })
    }

    /// Removes a group.
    ///
    /// # Errors
    /// [`FlowError::Busy`] while it has entries.
    pub fn destroy_group(&mut self, table: u32, group: u32) -> Result<(), FlowError> {
        if !self.group(table, group)?.is_empty() {
            return Err(FlowError::Busy("flow group", group));
        }
        self.table_mut(table)?.remove_group(group);
        Ok(())
    }

    /// The entry at a flow index.
    ///
    /// # Errors
    /// No such table or entry.
    pub fn entry(&self, table: u32, index: u32) -> Result<&Entry, FlowError> {
        self.table(table)?
            .entry(index)
            .ok_or(FlowError::NoEntry { table, index })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// No such table or group, an index outside of the group or in use, bad destinations.
    pub fn add_entry(
        &mut self,
        id: u32,
        index: u32,
        entry: Entry,
        limits: &Limits,
    ) -> Result<(), FlowError> {
        let group = self.group(id, entry.group)?;
        if index < group.start || index > group.end {
            return Err(FlowError::Index {
                table: id,
                group: entry.group,
                index,
            });
        }
        if self.table(id)?.entry(index).is_some() {
            return Err(FlowError::Taken { table: id, index });
        }
        self.check_entry(self.table(id)?.level, &entry, limits)?;
        self.table_mut(id)?.set_entry(index, entry);
        Ok(())
    }

    /// Changes parts of an entry; its match value stays. Gives back the entry as it was.
    ///
    /// # Errors
    /// As [`Tree::add_entry`]; the entry then is as it was.
    pub fn modify_entry(
        &mut self,
        id: u32,
        index: u32,
        change: Change,
        update: Update,
        limits: &Limits,
    ) -> Result<Entry, FlowError> {
        if !limits.flow_modify_en {
            return Err(FlowError::Unsupported("modifying an entry"));
        }
        let old = self.entry(id, index)?.clone();
        let mut entry = old.clone();
        if change.tag {
            entry.tag = update.tag;
        }
        if change.counters {
            entry.counters = update.counters;
        }
        if change.action || change.destinations {
            entry.action = match (update.action, entry.action) {
                // A new list does not turn a drop into a forward, nor a new action the list.
                (Action::Forward(_), Action::Drop) if !change.action => Action::Drop,
                (Action::Forward(_), Action::Forward(old)) if !change.destinations => {
                    Action::Forward(old)
                }
                (action, _) => action,
            };
        }
        self.check_entry(self.table(id)?.level, &entry, limits)?;
        self.table_mut(id)?.set_entry(index, entry);
        Ok(old)
    }

    fn check_entry(&self, level: u8, entry: &Entry, limits: &Limits) -> Result<(), FlowError> {
        let counters = entry.counters.len();
        if counters > 0 && !limits.flow_counter {
            return Err(FlowError::Unsupported("counting"));
        }
        if counters > 1 << limits.log_max_flow_counter.min(23) {
            return Err(FlowError::Counters(counters));
        }
        let Action::Forward(list) = &entry.action else {
            return Ok(());
        };
        if list.is_empty() || list.len() > 1 << limits.log_max_destination.min(23) {
            return Err(FlowError::Destinations(list.len()));
        }
        for destination in list {
            if let Destination::Table(to) = destination {
                self.check_link(level, *to)?;
            }
        }
        Ok(())
    }

    /// Removes an entry and gives it back.
    ///
    /// # Errors
    /// No such table or entry.
    pub fn remove_entry(&mut self, table: u32, index: u32) -> Result<Entry, FlowError> {
        self.table_mut(table)?
            .remove_entry(index)
            .ok_or(FlowError::NoEntry { table, index })
    }

    /// Number of groups in all tables.
    pub fn groups(&self) -> usize {
        self.tables.values().map(Table::group_count).sum()
    }

    /// Firmware memory of everything, in bytes.
    pub fn footprint(&self) -> u64 {
        let entries: usize = self.tables.values().map(Table::entry_count).sum();
        TABLE_FOOTPRINT * self.tables.len() as u64
            + GROUP_FOOTPRINT * self.groups() as u64
            + ENTRY_FOOTPRINT * entries as u64
    }

    /// One line for each table, group and entry.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (id, table) in &self.tables {
            let root = if self.root == Some(*id) { " root" } else { "" };
            lines.push(format!(
                "flow table {id:#x}: level {:#x} size 2^{} groups {} entries {} miss {:?}{root}",
                table.level,
                table.log_size,
                table.group_count(),
                table.entry_count(),
                table.miss,
            ));
            lines.extend(table.describe(*id));
        }
        lines
    }
}

/// The next number behind `last` that is free: 24 bits, never 0, not reused at once.
fn next_id(last: &mut u32, taken: impl Fn(u32) -> bool) -> u32 {
    loop {
        *last = if *last >= 0xff_ffff { 1 } else { *last + 1 };
        if !taken(*last) {
            return *last;
        }
    }
}
