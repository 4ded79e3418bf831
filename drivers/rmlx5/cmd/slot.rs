// SPDX-License-Identifier: GPL-2.0
//! The state of each command slot.
//!
//! ```text
//! Free -> Held -> Issued -> Done -> Free
//!                   |                ^
//!                   +-> Abandoned ---+   only by an answer of the device or its reset
//! ```
//!
//! Completion is idempotent: only an issued or abandoned slot reacts, once. Everything else that a
//! completion EQE may name is counted and ignored.

use super::mailbox::Chain;

/// Slots the interface can have at most: one bit each in the doorbell.
pub(super) const MAX: usize = 32;

/// Tells one use of a slot from the next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u32);

/// See the picture above.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody uses it.
    Free,
    /// Somebody prepares a command.
    Held(Ticket),
    /// The device has it, somebody waits.
    Issued(Ticket),
    /// The device answered, the waiter has not read it yet.
    Done(Ticket),
    /// The device has it, nobody waits any more.
    Abandoned,
}

/// What a completion meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The waiter can be woken.
    Wake,
    /// A late answer: the slot is free again.
    Late,
    /// Nobody asked for it.
    Spurious,
}

/// One slot. The chains belong to it while the device may use them.
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) input: Chain,
    pub(super) output: Chain,
}

/// All slots. The last one in use is kept for page management.
pub(super) struct Table {
    slots: [Slot; MAX],
    used: usize,
    tickets: u32,
}

impl Table {
    /// No slot is usable before [`Table::resize`].
    pub(super) fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    state: State::Free,
                    input: Chain::EMPTY,
                    output: Chain::EMPTY,
                }
            }; MAX],
            used: 0,
            tickets: 0,
        }
    }

    /// Sets the number of slots; the caller has made sure that all are free.
    pub(super) fn resize(&mut self, slots: usize) {
        self.used = slots.min(MAX);
    }

    /// Number of slots.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Takes a free slot: the last one for page commands, any other for the rest.
    pub(super) fn hold(&mut self, pages: bool) -> Option<(usize, Ticket)> {
        let last = self.used.checked_sub(1)?;
        let range = if pages { last..self.used } else { 0..last };
        let start = range.start;
        let found = self
            .slots
            .get(range)?
            .iter()
            .position(|slot| slot.state == State::Free)?;
        self.tickets = self.tickets.wrapping_add(1);
        let ticket = Ticket(self.tickets);
        let index = start + found;
        self.slots.get_mut(index)?.state = State::Held(ticket);
        Some((index, ticket))
    }

    /// The slot at `index`.
    pub(super) fn get(&mut self, index: usize) -> Option<&mut Slot> {
        let used = self.used;
        self.slots.get_mut(index).filter(|_| index < used)
    }

    /// Records that the device cleared the ownership bit of `index`. Chains of a late answer are
    /// handed to `free`.
    pub(super) fn finish(&mut self, index: usize, mut free: impl FnMut(Chain)) -> Finish {
        let Some(slot) = self.get(index) else {
            return Finish::Spurious;
        };
        match slot.state {
            State::Issued(ticket) => {
                slot.state = State::Done(ticket);
                Finish::Wake
            }
            State::Abandoned => {
                slot.state = State::Free;
                free(core::mem::take(&mut slot.input));
                free(core::mem::take(&mut slot.output));
                Finish::Late
            }
            State::Free | State::Held(_) | State::Done(_) => Finish::Spurious,
        }
    }

    /// Whether the device has the slot.
    pub(super) fn with_device(&self, index: usize) -> bool {
        self.slots
            .get(index)
            .is_some_and(|slot| matches!(slot.state, State::Issued(_) | State::Abandoned))
    }
}
