// SPDX-License-Identifier: GPL-2.0
//! Who has which number: a directory of pages, so that a look-up costs the same however many there are.
//!
//! Numbers have 24 bits and come from the device, dense or not. A page is there while one of its
//! numbers is taken, so a device that gives out the worst numbers costs a page a number, and 1 MiB of
//! directory. The table allocates nothing: it is used under locks, and says what it lacks.

#[cfg(MODULE)]
use kernel::prelude::{KBox as Owned, KVVec as List};
#[cfg(not(MODULE))]
use std::{boxed::Box as Owned, vec::Vec as List};

/// Numbers of a page.
pub(crate) const WIDTH: usize = 256;
/// Rows of the largest directory.
const MOST_ROWS: usize = (1 << 24) / WIDTH;

/// The memory of a page.
pub(crate) type Slots<T> = Owned<[Option<T>; WIDTH]>;
/// The memory of a directory.
pub(crate) type Directory<T> = List<Option<Page<T>>>;

/// The owners of [`WIDTH`] numbers.
pub(crate) struct Page<T> {
    slots: Slots<T>,
    /// Numbers that are taken, at least one.
    used: usize,
}

/// Memory that [`Table::insert`] may take; what is left belongs to the caller again, and is dropped
/// after the lock.
pub(crate) struct Spare<T> {
    pub(crate) directory: Directory<T>,
    pub(crate) slots: Option<Slots<T>>,
}

/// Why a number was not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is taken.
    Taken,
    /// It has more than 24 bits.
    TooLarge,
    /// A directory of so many rows, all empty, is needed.
    Directory(usize),
    /// A page is needed.
    Page,
}

/// What has a number, by the number.
pub(crate) struct Table<T> {
    directory: Directory<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            directory: List::new(),
        }
    }
}

impl<T> Table<T> {
    /// Who has `number`.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (row, column) = place(number);
        let page = self.directory.get(row)?.as_ref()?;
        page.slots.get(column)?.as_ref()
    }

    /// Gives `number` to `owner`, or gives `owner` back and says why. When memory is missing the caller puts it in
    /// `spare` and calls again; two times are enough.
    pub(crate) fn insert(
        &mut self,
        number: u32,
        owner: T,
        spare: &mut Spare<T>,
    ) -> Result<(), (Refusal, T)> {
        let (row, column) = place(number);
        let page = match self.page(row, spare) {
            Ok(page) => page,
            Err(refusal) => return Err((refusal, owner)),
        };
        match page.slots.get_mut(column) {
            Some(slot @ None) => *slot = Some(owner),
            _ => return Err((Refusal::Taken, owner)),
        }
        page.used = page.used.wrapping_add(1);
        Ok(())
    }

    /// The page of a row, perhaps a new one.
    fn page(&mut self, row: usize, spare: &mut Spare<T>) -> Result<&mut Page<T>, Refusal> {
        if row >= MOST_ROWS {
            return Err(Refusal::TooLarge);
        }
        if row >= self.directory.len() {
            if row >= spare.directory.len() {
                return Err(Refusal::Directory(row.wrapping_add(1).next_power_of_two()));
            }
            for (new, old) in spare.directory.iter_mut().zip(self.directory.iter_mut()) {
                core::mem::swap(new, old);
            }
            core::mem::swap(&mut self.directory, &mut spare.directory);
        }
        match self.directory.get_mut(row).ok_or(Refusal::TooLarge)? {
            Some(page) => Ok(page),
            missing => {
                let slots = spare.slots.take().ok_or(Refusal::Page)?;
                Ok(missing.insert(Page { slots, used: 0 }))
            }
        }
    }

    /// Nobody has `number` any more. Gives back who had it, and the page when it was the last one there; both are
    /// dropped after the lock.
    pub(crate) fn remove(&mut self, number: u32) -> (Option<T>, Option<Page<T>>) {
        let (row, column) = place(number);
        let Some(held) = self.directory.get_mut(row) else {
            return (None, None);
        };
        let Some(page) = held else {
            return (None, None);
        };
        let owner = page.slots.get_mut(column).and_then(Option::take);
        if owner.is_some() {
            page.used = page.used.saturating_sub(1);
        }
        let empty = if page.used == 0 { held.take() } else { None };
        (owner, empty)
    }
}

/// Row of the directory and slot of the page.
#[inline]
const fn place(number: u32) -> (usize, usize) {
    // CAST: `usize` has 64 bits here.
    let number = number as usize;
    (number / WIDTH, number % WIDTH)
}
