// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time: the clock of the card, and an alarm at its next deadline.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};

/// Time since the card was made.
#[derive(Clone, Copy)]
pub struct CardClock {
    start: Instant,
}

impl CardClock {
    /// Starts now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl device::host::Clock for CardClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A timer whose descriptor becomes readable at the deadline.
pub struct Alarm {
    timer: OwnedFd,
    clock: CardClock,
    /// What the timer is set to, to spare the call when nothing changes.
    set: Mutex<Option<Duration>>,
}

impl Alarm {
    /// An alarm on the time of `clock`, not set.
    ///
    /// # Errors
    /// No timer to be had.
    pub fn new(clock: CardClock) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            timer,
            clock,
            set: Mutex::new(None),
        })
    }

    /// Sets the alarm to a time of the clock (one that has passed rings at once), or off.
    pub fn set(&self, deadline: Option<Duration>) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if *set == deadline {
            return;
        }
        *set = deadline;
        let after = deadline.map_or(Duration::ZERO, |at| {
            at.saturating_sub(self.clock.start.elapsed())
                .max(Duration::from_nanos(1))
        });
        let value = Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: after.subsec_nanos().into(),
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        if let Err(error) = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec) {
            tracing::error!(%error, "cannot set the alarm");
        }
    }

    /// Takes note that it rang; it has to be set again.
    pub fn acknowledge(&self) {
        let mut count = [0; 8];
        // Nothing to read: it was set anew in the meantime.
        let _ = rustix::io::read(&self.timer, &mut count);
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
