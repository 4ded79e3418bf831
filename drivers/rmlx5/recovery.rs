// SPDX-License-Identifier: GPL-2.0
//! What happens to a device generation: Up, Draining, Resetting, Dead.
//!
//! ```text
//!        error / reset announced          reset done             all participants back
//!   Up ------------------------> Draining ----------> Resetting ---------------------> Up
//!                                   |                     |
//!                                   +--- channel lost ----+-- a step failed ---------> Dead
//! ```
//!
//! `Dead` ends with unbind only. Everything that has something on the device joins as a
//! [`Participant`]; participants are stopped last to first and started first to last.
//!
//! Lock order: 1. the PCI core's device lock (held by it around every callback), 2. the list of
//! participants, 3. what a participant locks.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        Arc,
        Mutex, //
    },
    time::Delta, //
};

use crate::cmd::queue::Counter;

/// Where a device generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In use.
    Up,
    /// Over; nothing is sent any more, a reset is expected.
    Draining,
    /// The device was reset and is being brought up.
    Resetting,
    /// Given up.
    Dead,
}

impl State {
    const fn code(self) -> u32 {
        match self {
            Self::Up => 0,
            Self::Draining => 1,
            Self::Resetting => 2,
            Self::Dead => 3,
        }
    }

    const fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Up,
            1 => Self::Draining,
            2 => Self::Resetting,
            _ => Self::Dead,
        }
    }

    /// As sysfs `state` shows it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Resetting => "resetting",
            Self::Dead => "dead",
        }
    }

    /// Whether the machine may go from `self` to `to`.
    const fn may_become(self, to: Self) -> bool {
        matches!(
            (self, to),
            (Self::Up, Self::Draining)
                | (Self::Draining, Self::Resetting)
                | (Self::Resetting, Self::Up)
                | (Self::Resetting, Self::Draining)
                | (Self::Up | Self::Draining | Self::Resetting, Self::Dead)
        )
    }
}

/// A part of the driver that has something on the device.
pub(crate) trait Participant: Send + Sync {
    /// For the log.
    fn name(&self) -> &'static str;

    /// The generation is over. Must not wait for the device or for user space: commands fail at
    /// once already, doorbells go nowhere. Called in PCI callbacks, sleeps for locks only.
    fn stop(&self);

    /// A new generation is up: commands work in event mode, EQs are armed. Recreates on the device
    /// what belongs to the participant. An error makes the device `Dead`.
    fn start(&self) -> Result;

    /// The device is `Up`, at the end of each recovery. Work that came between `start` and this,
    /// and went away because the device was not up, is woken here: nobody else does. Sleeps for
    /// locks only.
    fn resume(&self);

    /// The driver lets go of a device that still works: take everything away in order. Commands
    /// work, or fail at once; never wait for their success.
    fn close(&self);
}

/// How long each callback of the PCI core took last time, in microseconds; 0 before the first.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) error_detected: Micros,
    pub(crate) slot_reset: Micros,
    pub(crate) resume: Micros,
    pub(crate) reset_prepare: Micros,
    pub(crate) reset_done: Micros,
}

/// A duration in microseconds, last and largest.
pub(crate) struct Micros {
    last: Atomic<u64>,
    max: Atomic<u64>,
}

impl Default for Micros {
    fn default() -> Self {
        Self {
            last: Atomic::new(0),
            max: Atomic::new(0),
        }
    }
}

impl Micros {
    /// Records `time`.
    pub(crate) fn record(&self, time: Delta) {
        // CAST: not negative; at least 1, so that 0 says "never".
        let micros = time.as_micros_ceil().max(1) as u64;
        self.last.store(micros, Relaxed);
        // Callbacks run one at a time.
        if micros > self.max.load(Relaxed) {
            self.max.store(micros, Relaxed);
        }
    }

    /// The last one.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }

    /// The largest one.
    pub(crate) fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }
}

/// The machine of one device.
#[pin_data]
pub(crate) struct Recovery {
    state: Atomic<u32>,
    #[pin]
    participants: Mutex<KVec<Arc<dyn Participant>>>,
    /// Resets that the device came back from.
    pub(crate) resets: Counter,
    /// Errors that needed no reset.
    pub(crate) nonfatal: Counter,
    /// Correctable errors that the PCI core told us of.
    pub(crate) correctable: Counter,
    pub(crate) times: Times,
}

impl Recovery {
    /// An initialiser. The first bring-up goes the way of all others: it starts in `Resetting`.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(State::Resetting.code()),
            participants <- new_mutex!(KVec::new()),
            resets: Counter::default(),
            nonfatal: Counter::default(),
            correctable: Counter::default(),
            times: Times::default(),
        })
    }

    /// Where the device is. Any context.
    pub(crate) fn state(&self) -> State {
        State::from_code(self.state.load(Acquire))
    }

    /// Goes to `to` if the machine allows it; whether it did. Any context.
    pub(crate) fn go(&self, to: State) -> bool {
        // Each failed exchange means that somebody else moved; there are four states.
        for _ in 0..8 {
            let from = self.state();
            if !from.may_become(to) {
                return false;
            }
            if self.state.cmpxchg(from.code(), to.code(), Full).is_ok() {
                return true;
            }
        }
        false
    }

    /// Adds a participant behind those that are there; it is started if the device is up.
    pub(crate) fn join(&self, participant: Arc<dyn Participant>) -> Result {
        let mut participants = self.participants.lock();
        participants.reserve(1, GFP_KERNEL)?;
        if self.state() == State::Up {
            participant.start()?;
        }
        participants
            .push_within_capacity(participant)
            .map_err(|_| ENOMEM)
    }

    /// Stops everybody, last to first.
    pub(crate) fn stop_all(&self) {
        for participant in self.participants.lock().iter().rev() {
            participant.stop();
        }
    }

    /// Starts everybody, first to last. The error names who could not.
    pub(crate) fn start_all(&self) -> Result<(), (&'static str, Error)> {
        for participant in self.participants.lock().iter() {
            participant
                .start()
                .map_err(|error| (participant.name(), error))?;
        }
        Ok(())
    }

    /// Wakes everybody, first to last.
    pub(crate) fn resume_all(&self) {
        for participant in self.participants.lock().iter() {
            participant.resume();
        }
    }

    /// Closes and forgets everybody, last to first. At unbind.
    pub(crate) fn close_all(&self) {
        loop {
            let participant = self.participants.lock().pop();
            match participant {
                Some(participant) => participant.close(),
                None => return,
            }
        }
    }
}
