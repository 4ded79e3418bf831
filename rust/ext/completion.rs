// SPDX-License-Identifier: GPL-2.0
//! Completions with a deadline, which `kernel::sync::Completion` lacks.
//!
//! C header: [`include/linux/completion.h`](srctree/include/linux/completion.h)

use kernel::{
    prelude::*,
    time::{Delta, Jiffies},
    types::Opaque,
};
use rmlx5_bindings as bindings;

use crate::time::jiffies_of;

/// The wait ended without the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout;

impl From<Timeout> for Error {
    fn from(_: Timeout) -> Self {
        ETIMEDOUT
    }
}

/// Lets tasks sleep until something has happened.
///
/// Completing may be done in any context, hard interrupts included; waiting sleeps.
#[pin_data]
pub struct Completion {
    #[pin]
    inner: Opaque<bindings::completion>,
}

// SAFETY: A `struct completion` is not bound to a thread.
unsafe impl Send for Completion {}
// SAFETY: `struct completion` has its own lock.
unsafe impl Sync for Completion {}

impl Completion {
    /// An initialiser of a completion that is not done.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- Opaque::ffi_init(|slot: *mut bindings::completion| {
                // SAFETY: `slot` is valid for writing a `struct completion`.
                unsafe { bindings::init_completion(slot) }
            }),
        })
    }

    /// Lets one waiter go on, the next one to come if nobody waits.
    pub fn complete(&self) {
        // SAFETY: Initialised in `new`.
        unsafe { bindings::complete(self.inner.get()) }
    }

    /// Lets all waiters go on, also those that come later, until [`Completion::reinit`].
    pub fn complete_all(&self) {
        // SAFETY: Initialised in `new`.
        unsafe { bindings::complete_all(self.inner.get()) }
    }

    /// Makes the completion not done. The caller makes sure that nobody waits or completes
    /// meanwhile, otherwise a wakeup may be lost (it is memory safe all the same).
    pub fn reinit(&self) {
        // SAFETY: Initialised in `new`. The function stores zero to `done`.
        unsafe { bindings::reinit_completion(self.inner.get()) }
    }

    /// Whether a wait would return at once.
    pub fn is_done(&self) -> bool {
        // SAFETY: Initialised in `new`.
        unsafe { bindings::completion_done(self.inner.get()) }
    }

    /// Takes one completion if there is one; never sleeps.
    pub fn try_wait(&self) -> bool {
        // SAFETY: Initialised in `new`.
        unsafe { bindings::try_wait_for_completion(self.inner.get()) }
    }

    /// Sleeps, not interruptible, until the completion is done or `timeout` has passed.
    ///
    /// The timeout is rounded up to whole jiffies; zero or less looks once. Returns what is left of
    /// the timeout, in jiffies, at least 1.
    pub fn wait_timeout(&self, timeout: Delta) -> Result<Jiffies, Timeout> {
        // SAFETY: Initialised in `new`.
        match unsafe {
            bindings::wait_for_completion_timeout(self.inner.get(), jiffies_of(timeout))
        } {
            0 => Err(Timeout),
            left => Ok(left),
        }
    }

    /// Like [`Completion::wait_timeout`], but a fatal signal ends the wait with `EINTR`.
    /// A timeout is `ETIMEDOUT`.
    pub fn wait_killable_timeout(&self, timeout: Delta) -> Result<Jiffies> {
        // SAFETY: Initialised in `new`.
        let left = unsafe {
            bindings::wait_for_completion_killable_timeout(self.inner.get(), jiffies_of(timeout))
        };
        match left {
            0 => Err(ETIMEDOUT),
            // CAST: The remaining time is positive here.
            left if left > 0 => Ok(left as Jiffies),
            _ => Err(EINTR),
        }
    }
}
