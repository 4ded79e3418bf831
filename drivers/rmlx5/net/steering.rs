// SPDX-License-Identifier: GPL-2.0
//! Which packet comes to which ring: by address, then by kind of traffic, then by hash.
//!
//! ```text
//! level 1: own and listed addresses, groups, everything       ->  level 2, or 3 where there is no level 2
//! level 2: VLAN ids, see [`super::vlans`]                     ->  level 3
//! level 3: TCP, UDP over IPv4 and IPv6, IPv4, IPv6, the rest  ->  a TIR  ->  a table of queues
//! ```
//!
//! Users' rules come before, see [`super::entrance`].
//!
//! There are two tables of queues, one that the hash picks from and one with the queue of the rest.
//!
//! Source: core/en_fs.c, core/lib/fs_ttc.c.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    caps::EthCaps,
    entrance::{
        Door,
        Entrance, //
    },
    flow::{
        Destination,
        Entry,
        Group,
        Match,
        Table, //
    },
    hash::Hash,
    rqt::Rqt,
    tir::{
        Target,
        Tir,
        Traffic, //
    },
    vlans::Vlans, //
};
use crate::home::Home;

/// log2 of the places of the table of kinds of traffic: seven are used.
const LOG_KINDS: u8 = 3;

/// An address as a number.
fn number(address: &[u8; 6]) -> u64 {
    address
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// From TIRs to the table that picks one by kind of traffic.
struct Kinds {
    _entries: KVec<Entry>,
    _groups: KVec<Group>,
    table: Table,
    tirs: KVec<Tir>,
}

impl Kinds {
    fn new(home: &Home, domain: u32, spread: &Rqt, rest: &Rqt, hash: &Hash) -> Result<Self> {
        let mut tirs = KVec::with_capacity(Traffic::ALL.len(), GFP_KERNEL)?;
        for traffic in Traffic::ALL {
            let target = match traffic {
                Traffic::Other => Target::First(rest.number()),
                _ => Target::Hash {
                    rqt: spread.number(),
                    key: &hash.key,
                    hashed: hash.hashed(traffic),
                },
            };
            tirs.push(Tir::new(home, domain, target)?, GFP_KERNEL)?;
        }
        let table = Table::new(home, 3, LOG_KINDS)?;
        let protocol = Match {
            ethertype: u16::MAX,
            protocol: u8::MAX,
            ..Match::NOTHING
        };
        let ethertype = Match {
            protocol: 0,
            ..protocol
        };
        let mut groups = KVec::with_capacity(3, GFP_KERNEL)?;
        for (first, last, mask) in [(0, 3, protocol), (4, 5, ethertype), (6, 6, Match::NOTHING)] {
            groups.push(table.group(first, last, mask)?, GFP_KERNEL)?;
        }
        let mut entries = KVec::with_capacity(Traffic::ALL.len(), GFP_KERNEL)?;
        for (place, (traffic, tir)) in (0u32..).zip(Traffic::ALL.iter().zip(tirs.iter())) {
            let group = match place {
                0..=3 => 0,
                4..=5 => 1,
                _ => 2,
            };
            let values = Match {
                ethertype: traffic.ethertype().unwrap_or(0),
                protocol: traffic.protocol().unwrap_or(0),
                ..Match::NOTHING
            };
            let group: &Group = groups.get(group).ok_or(EINVAL)?;
            let entry = group.entry(place, values, Destination::Tir(tir.number()))?;
            entries.push(entry, GFP_KERNEL)?;
        }
        Ok(Self {
            _entries: entries,
            _groups: groups,
            table,
            tirs,
        })
    }
}

/// Which addresses are received.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Addresses of stations, the own one first.
    pub(super) unicast: &'a [[u8; 6]],
    /// Addresses of groups.
    pub(super) multicast: &'a [[u8; 6]],
    /// All groups.
    pub(super) all_multicast: bool,
    /// Everything.
    pub(super) promiscuous: bool,
    /// VLANs; `None` for all.
    pub(super) vlans: Option<&'a [u16]>,
}

/// Steering of an interface. Entries go first, so that nothing comes any more, then the way in; RQs go after it.
pub(super) struct Steering {
    /// Addresses, where they are in the table, and their entries.
    listed: KVVec<(u64, u32, Entry)>,
    /// Places of no address.
    vacant: KVVec<u32>,
    /// All places for addresses.
    room: usize,
    groups_entry: Option<Entry>,
    everything_entry: Option<Entry>,
    addresses: Group,
    groups: Group,
    everything: Group,
    _door: Door,
    _root: Table,
    /// On a card with room for them.
    vlans: Option<Vlans>,
    kinds: Kinds,
    spread: Rqt,
    rest: Rqt,
}

impl Steering {
    /// Makes it with TIRs of a transport domain. All tables of queues have `queue` alone, and nothing comes before
    /// [`Steering::receive`]. Sleeps.
    pub(super) fn new(
        home: &Home,
        domain: u32,
        queue: u32,
        hash: &Hash,
        caps: &EthCaps,
        entrance: &Arc<Entrance>,
    ) -> Result<Self> {
        let rest = Rqt::new(home, 0, queue)?;
        let spread = Rqt::new(home, caps.log_table(), queue)?;
        let kinds = Kinds::new(home, domain, &spread, &rest, hash)?;
        let vlans = match caps.vlan_filter {
            true => Some(Vlans::new(home, 2, kinds.table.destination())?),
            false => None,
        };
        // Twice the room: addresses have one half, the two other entries are in the other.
        let root = Table::new(home, 1, caps.log_addresses + 1)?;
        let half = 1u32 << caps.log_addresses;
        let address = Match {
            dmac: Match::ADDRESS,
            ..Match::NOTHING
        };
        let group = Match {
            dmac: Match::GROUP,
            ..Match::NOTHING
        };
        let addresses = root.group(0, half - 1, address)?;
        let groups = root.group(half, half, group)?;
        let everything = root.group(half + 1, half + 1, Match::NOTHING)?;
        let door = entrance.lead(home, &root)?;
        // CAST: at most 1024.
        let room = half as usize;
        let mut vacant = KVVec::with_capacity(room, GFP_KERNEL)?;
        for place in (0..half).rev() {
            vacant.push(place, GFP_KERNEL)?;
        }
        Ok(Self {
            listed: KVVec::with_capacity(room, GFP_KERNEL)?,
            vacant,
            room,
            groups_entry: None,
            everything_entry: None,
            addresses,
            groups,
            everything,
            _door: door,
            _root: root,
            vlans,
            kinds,
            spread,
            rest,
        })
    }

    /// What the hash picks from, a power of two of RQs, and the RQ of everything else. Sleeps.
    pub(super) fn aim(&self, table: &[u32], first: u32) -> Result {
        self.spread.set(table)?;
        self.rest.set(&[first])
    }

    /// Whether frames that are neither IPv4 nor IPv6 come back when SQs of the same transport domain send them to an
    /// address that is received. Sleeps.
    pub(super) fn loop_back(&self, on: bool) -> Result {
        self.kinds.tirs.last().ok_or(EINVAL)?.loop_back(on)
    }

    /// Receives nothing. Sleeps. An error leaves some entries.
    pub(super) fn deafen(&mut self) -> Result {
        while let Some((_, place, entry)) = self.listed.pop() {
            self.vacate(place);
            entry.end()?;
        }
        let general = [self.groups_entry.take(), self.everything_entry.take()];
        for entry in general.into_iter().flatten() {
            entry.end()?;
        }
        Ok(())
    }

    /// No address is at `place` any more.
    fn vacate(&mut self, place: u32) {
        // There is room for all places, and each is held once.
        let _ = self.vacant.push_within_capacity(place);
    }

    /// Receives what is wanted from now on, and nothing else. Addresses beyond the room of the table
    /// are made up for by more general entries; the stack drops what it does not want. Sleeps.
    ///
    /// An error leaves some entries as they were; the call can be repeated.
    pub(super) fn receive(&mut self, wanted: &Wanted<'_>) -> Result {
        let to = match &mut self.vlans {
            Some(vlans) => {
                // Who wants everything wants all VLANs.
                vlans.pass(wanted.vlans.filter(|_| !wanted.promiscuous))?;
                vlans.destination()
            }
            None => self.kinds.table.destination(),
        };
        let room = self.room;
        let stations = wanted.unicast.get(..room).unwrap_or(wanted.unicast);
        let left = room.saturating_sub(stations.len());
        let groups = wanted.multicast.get(..left).unwrap_or(wanted.multicast);
        let promiscuous = wanted.promiscuous || stations.len() < wanted.unicast.len();
        let all_groups = wanted.all_multicast || groups.len() < wanted.multicast.len();

        let is_wanted = |address: u64| {
            let same = |other: &[u8; 6]| number(other) == address;
            stations.iter().any(same) || groups.iter().any(same)
        };
        let mut at = 0;
        while let Some((address, place, _)) = self.listed.get(at) {
            if is_wanted(*address) {
                at += 1;
                continue;
            }
            let place = *place;
            drop(self.listed.remove(at));
            self.vacate(place);
        }
        for address in Iterator::chain(stations.iter(), groups).map(number) {
            if self.listed.iter().any(|(other, ..)| *other == address) {
                continue;
            }
            let place = self.vacant.pop().ok_or(ENOSPC)?;
            let values = Match {
                dmac: address,
                ..Match::NOTHING
            };
            let entry = self
                .addresses
                .entry(place, values, to)
                .inspect_err(|_| self.vacate(place))?;
            // There is room for an entry of each place.
            self.listed
                .push_within_capacity((address, place, entry))
                .map_err(|_| ENOSPC)?;
        }

        // CAST: at most 1024.
        let half = room as u32;
        if !all_groups {
            self.groups_entry = None;
        } else if self.groups_entry.is_none() {
            let values = Match {
                dmac: Match::GROUP,
                ..Match::NOTHING
            };
            self.groups_entry = Some(self.groups.entry(half, values, to)?);
        }
        if !promiscuous {
            self.everything_entry = None;
        } else if self.everything_entry.is_none() {
            let entry = self.everything.entry(half + 1, Match::NOTHING, to)?;
            self.everything_entry = Some(entry);
        }
        Ok(())
    }
}
