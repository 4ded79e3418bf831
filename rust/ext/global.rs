// SPDX-License-Identifier: GPL-2.0
//! A value that belongs to a module and is reached from its callbacks.
//!
//! The kernel crate's global locks need an unsafe call at initialisation and are never dropped; a
//! [`Global`] is usable at once, and [`Owner`] empties it when the module goes.

use core::cell::UnsafeCell;

use kernel::{
    sync::atomic::{Acquire, AtomicFlag, Release},
    time::Delta,
};

use crate::time::fsleep;

/// A place for a value that many read and few set. Process context; access is exclusive and short,
/// so a waiter polls.
///
/// # Invariants
///
/// `value` is touched only by who has set `busy`.
pub struct Global<T> {
    busy: AtomicFlag,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: By the type invariant access is exclusive.
unsafe impl<T: Send> Sync for Global<T> {}

impl<T> Default for Global<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Global<T> {
    /// An empty place, for a `static`.
    pub const fn new() -> Self {
        Self {
            busy: AtomicFlag::new(false),
            value: UnsafeCell::new(None),
        }
    }

    /// Runs `f` on the value. Sleeps while somebody else does; `f` must not come back here.
    pub fn with<R>(&self, f: impl FnOnce(&mut Option<T>) -> R) -> R {
        while self.busy.xchg(true, Acquire) {
            fsleep(Delta::from_micros(20));
        }
        // SAFETY: `busy` was clear and is set by us.
        let result = f(unsafe { &mut *self.value.get() });
        self.busy.store(false, Release);
        result
    }

    /// A copy of the value, if there is one.
    pub fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        self.with(|value| value.clone())
    }
}

/// Fills a [`Global`] as long as it exists.
pub struct Owner<T: 'static>(&'static Global<T>);

impl<T> Owner<T> {
    /// Puts `value` into `place`.
    pub fn new(place: &'static Global<T>, value: T) -> Self {
        let old = place.with(|slot| slot.replace(value));
        drop(old);
        Self(place)
    }
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        let value = self.0.with(Option::take);
        drop(value);
    }
}
