// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The walk of a frame through the tables.

use super::Tree;
use crate::flow::{
    key::Key,
    table::{Action, Destination, Miss},
};
use std::collections::BTreeSet;

/// Tables one frame may visit. Levels only rise, so a single chain is at most 256 tables long; the
/// bound also holds down trees of entries with many destinations.
const MAX_VISITS: usize = 1024;

/// Where the walk of a frame ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The TIR that gets the frame.
    pub tirn: u32,
    /// Flow tag of the entry that named it.
    pub tag: u32,
}

/// What a frame met on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The TIRs it goes to, each once.
    pub hits: Vec<Hit>,
    /// Flow counters that saw it, each once.
    pub counters: BTreeSet<u32>,
    /// An entry dropped it.
    pub dropped: bool,
}

impl Tree {
    /// Sends a frame through the tables.
    pub fn walk(&self, key: &Key) -> Walk {
        let mut walk = Walk::default();
        let mut todo: Vec<u32> = self.root.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = todo.pop() {
            if !seen.insert(id) || seen.len() > MAX_VISITS {
                continue;
            }
            let Some(table) = self.tables.get(&id) else {
                continue;
            };
            let Some(entry) = table.lookup(key) else {
                if let Miss::Table(next) = table.miss {
                    todo.push(next);
                }
                continue;
            };
            walk.counters.extend(&entry.counters);
            let Action::Forward(list) = &entry.action else {
                walk.dropped = true;
                continue;
            };
            for destination in list {
                match *destination {
                    Destination::Table(next) => todo.push(next),
                    Destination::Tir(tirn) => {
                        if !walk.hits.iter().any(|hit| hit.tirn == tirn) {
                            walk.hits.push(Hit {
                                tirn,
                                tag: entry.tag,
                            });
                        }
                    }
                }
            }
        }
        walk
    }
}
