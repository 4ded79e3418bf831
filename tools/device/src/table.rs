// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbered objects: allocation, look-up and reference counts, the same for every kind.

use std::collections::BTreeMap;

use mlx5_hw::status::Status;

use crate::cmd::Refused;

/// The kinds of object a function has. The number is part of the syndrome of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Eq = 1,
    Cq,
    Mkey,
    Qp,
    Srq,
    Pd,
    Uar,
    Xrcd,
    TransportDomain,
    Tis,
    Tir,
    Rqt,
    Sq,
    Rq,
    QCounter,
    FlowTable,
    FlowGroup,
    FlowCounter,
}

impl Kind {
    /// What people call it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Eq => "EQ",
            Self::Cq => "CQ",
            Self::Mkey => "MKEY",
            Self::Qp => "QP",
            Self::Srq => "SRQ",
            Self::Pd => "PD",
            Self::Uar => "UAR",
            Self::Xrcd => "XRCD",
            Self::TransportDomain => "transport domain",
            Self::Tis => "TIS",
            Self::Tir => "TIR",
            Self::Rqt => "RQT",
            Self::Sq => "SQ",
            Self::Rq => "RQ",
            Self::QCounter => "Q counter",
            Self::FlowTable => "flow table",
            Self::FlowGroup => "flow group",
            Self::FlowCounter => "flow counter",
        }
    }
}

/// What a [`Table`] needs to know of its objects.
pub trait Object {
    /// Its kind.
    const KIND: Kind;

    /// Bytes of firmware memory (pages the host gave) that the object occupies. Must not change
    /// while the object is in its table.
    fn footprint(&self) -> u64;
}

#[derive(Debug)]
struct Slot<T> {
    references: u32,
    /// Empty while the object is checked out.
    object: Option<T>,
}

/// All objects of one kind.
///
/// Numbers are handed out in turn through the whole range, so that a number just freed comes back
/// as late as possible: a stale handle then meets "no such object" and not a stranger.
#[derive(Debug)]
pub struct Table<T> {
    first: u32,
    span: u32,
    limit: u32,
    next: u32,
    slots: BTreeMap<u32, Slot<T>>,
    footprint: u64,
}

impl<T: Object> Table<T> {
    /// A table that hands out numbers `first..first + span`, at most `limit` at a time.
    pub fn new(first: u32, span: u32, limit: u32) -> Self {
        Self {
            first,
            span,
            limit: limit.min(span),
            next: 0,
            slots: BTreeMap::new(),
            footprint: 0,
        }
    }

    /// Objects alive.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Changes how many objects there may be; those that live stay.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit.min(self.span);
    }

    /// Firmware memory of all of them, in bytes.
    pub fn footprint(&self) -> u64 {
        self.footprint
    }

    /// Puts an object in and returns its number.
    ///
    /// # Errors
    /// [`Status::Limit`] when the table is full.
    pub fn insert(&mut self, object: T) -> Result<u32, Refused> {
        // CAST: never more than `limit`, a u32.
        if self.slots.len() as u32 >= self.limit {
            return Err(Refused::new(
                Status::Limit,
                code(T::KIND, 3),
                format!("no more than {} {}s", self.limit, T::KIND.text()),
            ));
        }
        // Fewer slots are taken than there are numbers, so this ends.
        let number = loop {
            let number = self.first + self.next;
            self.next = (self.next + 1) % self.span;
            if !self.slots.contains_key(&number) {
                break number;
            }
        };
        self.footprint += object.footprint();
        self.slots.insert(
            number,
            Slot {
                references: 0,
                object: Some(object),
            },
        );
        Ok(number)
    }

    /// The object, if there is one (and it is not checked out).
    pub fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(&number)?.object.as_ref()
    }

    /// The object, to change.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(&number)?.object.as_mut()
    }

    /// The object that a command names.
    ///
    /// # Errors
    /// [`Status::BadRes`] when there is none.
    pub fn find(&self, number: u32) -> Result<&T, Refused> {
        self.get(number).ok_or_else(|| missing::<T>(number))
    }

    /// The object that a command names, to change.
    ///
    /// # Errors
    /// [`Status::BadRes`] when there is none.
    pub fn find_mut(&mut self, number: u32) -> Result<&mut T, Refused> {
        self.get_mut(number).ok_or_else(|| missing::<T>(number))
    }

    /// Counts one more object that refers to this one.
    ///
    /// # Errors
    /// [`Status::BadRes`] when there is none.
    pub fn hold(&mut self, number: u32) -> Result<(), Refused> {
        let slot = self
            .slots
            .get_mut(&number)
            .ok_or_else(|| missing::<T>(number))?;
        slot.references += 1;
        Ok(())
    }

    /// Takes back one [`Table::hold`]. A number without object is ignored: a reset of the table
    /// may have been faster.
    pub fn release(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.references = slot.references.saturating_sub(1);
        }
    }

    /// Objects that refer to this one.
    pub fn references(&self, number: u32) -> u32 {
        self.slots.get(&number).map_or(0, |slot| slot.references)
    }

    /// Whether [`Table::remove`] would succeed.
    ///
    /// # Errors
    /// [`Status::BadRes`] when there is none, [`Status::ResBusy`] when others refer to it.
    pub fn removable(&self, number: u32) -> Result<(), Refused> {
        match self.slots.get(&number) {
            None => Err(missing::<T>(number)),
            Some(slot) if slot.references > 0 => Err(Refused::new(
                Status::ResBusy,
                code(T::KIND, 2),
                format!(
                    "{} {number:#x} is used by {} objects",
                    T::KIND.text(),
                    slot.references
                ),
            )),
            Some(_) => Ok(()),
        }
    }

    /// Takes an object out for good.
    ///
    /// # Errors
    /// [`Status::BadRes`] when there is none, [`Status::ResBusy`] when others refer to it.
    pub fn remove(&mut self, number: u32) -> Result<T, Refused> {
        self.removable(number)?;
        let object = self
            .slots
            .remove(&number)
            .and_then(|slot| slot.object)
            .ok_or_else(|| missing::<T>(number))?;
        self.footprint = self.footprint.saturating_sub(object.footprint());
        Ok(object)
    }

    /// Takes an object out for a while, so that the rest of the function can be used with it. Its
    /// number stays taken; [`Table::check_in`] must follow before the next command runs.
    pub fn check_out(&mut self, number: u32) -> Option<T> {
        self.slots.get_mut(&number)?.object.take()
    }

    /// Puts a checked-out object back. If the number was freed meanwhile the object is dropped.
    pub fn check_in(&mut self, number: u32, object: T) {
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.object = Some(object);
        }
    }

    /// All objects, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .filter_map(|(number, slot)| Some((*number, slot.object.as_ref()?)))
    }

    /// All objects, by number, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.slots
            .iter_mut()
            .filter_map(|(number, slot)| Some((*number, slot.object.as_mut()?)))
    }
}

/// Codes of the table's own refusals: 0x8000 + 16 * kind + reason, apart from what commands use.
fn code(kind: Kind, reason: u16) -> u16 {
    0x8000 | (kind as u16) << 4 | reason
}

fn missing<T: Object>(number: u32) -> Refused {
    Refused::new(
        Status::BadRes,
        code(T::KIND, 1),
        format!("no {} {number:#x}", T::KIND.text()),
    )
}
