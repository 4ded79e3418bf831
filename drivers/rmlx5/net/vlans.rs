// SPDX-License-Identifier: GPL-2.0
//! Which VLANs are received: the table between that of addresses and that of kinds of traffic.
//!
//! ```text
//! 0 to 4095: customer tag with this id | 4096: no customer tag | 4097: everything
//! ```
//!
//! Frames with a service tag count as untagged: what is in it the stack sorts out. Source: core/en_fs.c
//! (`mlx5e_create_vlan_table`).

use kernel::prelude::*;

use super::flow::{
    Destination,
    Entry,
    Group,
    Match,
    Table, //
};
use crate::home::Home;

/// Number of VLAN ids; places behind them are for the two other entries.
const IDS: u32 = 4096;
/// log2 of the places of the table.
pub(super) const LOG_PLACES: u8 = 13;

/// The table, with entries for what is wanted. Entries that lead to it go before it.
pub(super) struct Vlans {
    listed: KVVec<(u16, Entry)>,
    untagged_entry: Option<Entry>,
    everything_entry: Option<Entry>,
    ids: Group,
    untagged: Group,
    everything: Group,
    table: Table,
    to: Destination,
}

impl Vlans {
    /// Makes it at a level; what passes goes `to`. Nothing passes yet. Sleeps.
    pub(super) fn new(home: &Home, level: u8, to: Destination) -> Result<Self> {
        let table = Table::new(home, level, LOG_PLACES)?;
        let tagged = Match {
            tagged: true,
            ..Match::NOTHING
        };
        let id = Match {
            vid: Match::VID,
            ..tagged
        };
        Ok(Self {
            listed: KVVec::new(),
            untagged_entry: None,
            everything_entry: None,
            ids: table.group(0, IDS - 1, id)?,
            untagged: table.group(IDS, IDS, tagged)?,
            everything: table.group(IDS + 1, IDS + 1, Match::NOTHING)?,
            table,
            to,
        })
    }

    /// The destination "this table".
    pub(super) fn destination(&self) -> Destination {
        self.table.destination()
    }

    /// Lets pass what is untagged and these ids, or everything. Sleeps.
    ///
    /// An error leaves some entries as they were; the call can be repeated.
    pub(super) fn pass(&mut self, wanted: Option<&[u16]>) -> Result {
        let Some(ids) = wanted else {
            if self.everything_entry.is_none() {
                let entry = self.everything.entry(IDS + 1, Match::NOTHING, self.to)?;
                self.everything_entry = Some(entry);
            }
            self.untagged_entry = None;
            self.listed.clear();
            return Ok(());
        };
        if self.untagged_entry.is_none() {
            let entry = self.untagged.entry(IDS, Match::NOTHING, self.to)?;
            self.untagged_entry = Some(entry);
        }
        self.listed.retain(|(id, _)| ids.contains(id));
        for id in ids {
            if self.listed.iter().any(|(known, _)| known == id) {
                continue;
            }
            let values = Match {
                tagged: true,
                vid: *id,
                ..Match::NOTHING
            };
            let entry = self.ids.entry((*id).into(), values, self.to)?;
            self.listed.push((*id, entry), GFP_KERNEL)?;
        }
        self.everything_entry = None;
        Ok(())
    }
}
