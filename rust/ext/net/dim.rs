// SPDX-License-Identifier: GPL-2.0
//! Interrupt moderation that follows the traffic (net DIM).
//!
//! A poller tells an [`Adaptive`] at the end of each poll how much there has been. From time to time the
//! kernel's algorithm finds that other numbers would serve better; then the driver's [`Target`] gets them in
//! process context. The next measurement begins when it has taken them.
//!
//! C header: [`include/linux/dim.h`](srctree/include/linux/dim.h)

use core::ptr::NonNull;

use kernel::prelude::*;
use rmlx5_bindings as bindings;

/// When an interrupt is to be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moderation {
    /// Microseconds after the first packet.
    pub usecs: u16,
    /// Packets.
    pub frames: u16,
}

/// Which way the packets of a queue go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In.
    Receive,
    /// Out.
    Send,
}

/// Who applies other numbers.
pub trait Target: Send + Sync + 'static {
    /// Other numbers are better from now on. Process context, sleeps.
    fn moderate(&self, moderation: Moderation);
}

/// What the work item needs.
struct Inner<T> {
    target: T,
    way: Way,
}

/// The algorithm of one queue.
///
/// # Invariants
///
/// `dim` was made by `adaptive_new`, and its work finds `inner`, which lives as long.
pub struct Adaptive<T: Target> {
    dim: NonNull<bindings::dim>,
    inner: NonNull<Inner<T>>,
}

// SAFETY: `T` is `Send`; work may be cancelled by any thread.
unsafe impl<T: Target> Send for Adaptive<T> {}
// SAFETY: `&mut` is needed to tell of traffic; everything else is dropping.
unsafe impl<T: Target> Sync for Adaptive<T> {}

impl<T: Target> Adaptive<T> {
    /// Begins to measure. Sleeps. Fails with `ENOMEM`.
    pub fn new(target: T, way: Way) -> Result<Self> {
        let inner = KBox::into_raw(KBox::new(Inner { target, way }, GFP_KERNEL)?);
        // SAFETY: `inner` lives until the work has been cancelled.
        let dim = unsafe { bindings::adaptive_new(inner.cast(), Some(Self::work)) };
        let Some(dim) = NonNull::new(dim) else {
            // SAFETY: From `into_raw`, and nobody else has it.
            drop(unsafe { KBox::from_raw(inner) });
            return Err(ENOMEM);
        };
        // SAFETY: Not null: it comes from a box.
        let inner = unsafe { NonNull::new_unchecked(inner) };
        // INVARIANT: Made above.
        Ok(Self { dim, inner })
    }

    /// Tells of all that there has been so far: events, packets and bytes; numbers wrap around. Any
    /// context.
    pub fn tell(&mut self, events: u16, packets: u64, bytes: u64) {
        // SAFETY: By the type invariant.
        unsafe { bindings::adaptive_tell(self.dim.as_ptr(), events, packets, bytes) };
    }

    extern "C" fn work(owner: *mut c_void, dim: *mut bindings::dim) {
        // SAFETY: By the type invariant `owner` is the `inner` that was given with the function.
        let inner = unsafe { &*owner.cast::<Inner<T>>() };
        let (mut usecs, mut frames) = (0, 0);
        // SAFETY: The work passes its own algorithm, and there is room for both numbers.
        unsafe {
            bindings::adaptive_numbers(dim, inner.way == Way::Send, &mut usecs, &mut frames);
        }
        inner.target.moderate(Moderation { usecs, frames });
        // SAFETY: As above.
        unsafe { bindings::adaptive_applied(dim) };
    }
}

impl<T: Target> Drop for Adaptive<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. It waits for the work; afterwards nobody has `inner`.
        unsafe {
            bindings::adaptive_free(self.dim.as_ptr());
            drop(KBox::from_raw(self.inner.as_ptr()));
        }
    }
}
