// SPDX-License-Identifier: GPL-2.0
//! The set of counters of an interface: what the card had to drop because a receive queue had no WQE.

use kernel::prelude::*;

use crate::{
    home::Home,
    q_counter::{
        self,
        Counts, //
    }, //
};

/// A set with an owner; its queues go before it.
pub(super) struct QCounter {
    set: u8,
    home: Home,
}

impl QCounter {
    /// A set that counts from 0. Sleeps.
    pub(super) fn new(home: &Home) -> Result<Self> {
        Ok(Self {
            set: q_counter::alloc(home.cmd())?,
            home: home.clone(),
        })
    }

    /// Its number.
    pub(super) fn number(&self) -> u8 {
        self.set
    }

    /// What it has counted. Sleeps.
    pub(super) fn read(&self) -> Result<Counts> {
        Ok(q_counter::query(self.home.cmd(), self.set)?)
    }
}

impl Drop for QCounter {
    fn drop(&mut self) {
        if self.home.reaches() {
            // The answer is not needed: the set is no memory of ours.
            let _ = q_counter::dealloc(self.home.cmd(), self.set);
        }
    }
}
