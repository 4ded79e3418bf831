// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X vectors over the event descriptors of the client.
//!
//! The virtual machine monitor owns the vector table, and gives a vector a descriptor while it may
//! fire. So a vector without one is masked, and what is raised then waits in the pending bits.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pcie::{Msix, Raise};

struct Inner {
    msix: Msix,
    lines: Vec<Option<File>>,
    master: bool,
}

/// The vectors of the card, shared by whoever raises and whoever configures.
pub struct Vectors {
    inner: Mutex<Inner>,
}

impl Vectors {
    /// `count` vectors, none of which can fire yet.
    pub fn new(count: u16) -> Self {
        let lines = (0..count).map(|_| None).collect();
        Self {
            inner: Mutex::new(Inner {
                msix: Msix::new(count),
                lines,
                master: false,
            }),
        }
    }

    /// A message is a write to memory: without bus mastering none leaves.
    pub fn set_master(&self, on: bool) {
        self.lock().master = on;
    }

    /// The message control register changed.
    pub fn set_control(&self, enabled: bool, masked: bool) {
        let mut inner = self.lock();
        for message in inner.msix.set_control(enabled, masked) {
            inner.fire(message.vector);
        }
    }

    /// Gives vector `vector` a descriptor to fire, or takes it away.
    pub fn connect(&self, vector: u16, line: Option<File>) {
        let mut inner = self.lock();
        let masked = line.is_none();
        let Some(slot) = inner.lines.get_mut(usize::from(vector)) else {
            return;
        };
        *slot = line;
        if let Some(message) = inner.msix.set_mask(vector, masked) {
            inner.fire(message.vector);
        }
    }

    /// Takes all descriptors away.
    pub fn disconnect(&self) {
        let count = self.lock().lines.len();
        // CAST: there are at most 2048 vectors.
        (0..count as u16).for_each(|vector| self.connect(vector, None));
    }

    /// State after power-on, except for the descriptors: those are the client's.
    pub fn reset(&self) {
        let mut inner = self.lock();
        inner.msix.reset();
        for vector in 0..inner.lines.len() {
            let masked = inner.lines.get(vector).is_none_or(Option::is_none);
            // CAST: there are at most 2048 vectors.
            inner.msix.set_mask(vector as u16, masked);
        }
    }

    /// Raises `vector`.
    pub fn raise(&self, vector: u16) {
        let mut inner = self.lock();
        if !inner.master {
            tracing::debug!(vector, "interrupt without bus mastering");
            return;
        }
        match inner.msix.raise(vector) {
            Raise::Deliver(message) => inner.fire(message.vector),
            Raise::Latched => tracing::trace!(vector, "interrupt pending"),
            Raise::Lost => tracing::debug!(vector, "interrupt while MSI-X is off"),
        }
    }

    /// Reads the pending bits.
    pub fn read_pending(&self, offset: u64, buf: &mut [u8]) {
        self.lock().msix.read_pending(offset, buf);
    }

    /// Reads the vector table.
    pub fn read_table(&self, offset: u64, buf: &mut [u8]) {
        self.lock().msix.read_table(offset, buf);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn fire(&mut self, vector: u16) {
        let line = self
            .lines
            .get_mut(usize::from(vector))
            .and_then(Option::as_mut);
        if let Some(line) = line {
            // An event counter refuses only at 2^64 - 1, and then the client is awake anyway.
            if let Err(error) = line.write_all(&1u64.to_ne_bytes()) {
                tracing::warn!(vector, %error, "interrupt not delivered");
            }
        }
    }
}

/// The card's view of the vectors.
pub struct CardIrq(pub std::sync::Arc<Vectors>);

impl device::host::Irq for CardIrq {
    fn raise(&self, vector: u16) {
        self.0.raise(vector);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{eventfd, EventfdFlags};

    fn line() -> (File, File) {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let file = File::from(eventfd(0, flags).unwrap());
        (file.try_clone().unwrap(), file)
    }

    fn fired(line: &File) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(line, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    fn ready() -> Vectors {
        let vectors = Vectors::new(4);
        vectors.set_master(true);
        vectors.set_control(true, false);
        vectors
    }

    #[test]
    fn a_connected_vector_fires() {
        let (ours, theirs) = line();
        let vectors = ready();
        vectors.connect(2, Some(ours));
        vectors.raise(2);
        assert_eq!(fired(&theirs), 1);
    }

    #[test]
    fn raised_without_a_descriptor_fires_when_it_comes() {
        let (ours, theirs) = line();
        let vectors = ready();
        vectors.raise(2);
        vectors.raise(2);
        let mut bits = [0];
        vectors.read_pending(0, &mut bits);
        assert_eq!(bits, [0b100]);
        vectors.connect(2, Some(ours));
        assert_eq!(fired(&theirs), 1);
        vectors.read_pending(0, &mut bits);
        assert_eq!(bits, [0]);
    }

    #[test]
    fn nothing_fires_without_bus_mastering_or_after_disconnect() {
        let (ours, theirs) = line();
        let vectors = ready();
        vectors.connect(0, Some(ours));
        vectors.set_master(false);
        vectors.raise(0);
        vectors.set_master(true);
        vectors.disconnect();
        vectors.raise(0);
        vectors.raise(9);
        assert_eq!(fired(&theirs), 0);
    }

    #[test]
    fn reset_forgets_pending_and_keeps_the_descriptors() {
        let (ours, theirs) = line();
        let vectors = ready();
        vectors.raise(1);
        vectors.connect(2, Some(ours));
        vectors.reset();
        vectors.set_control(true, false);
        vectors.raise(2);
        assert_eq!(fired(&theirs), 1);
        let mut bits = [0];
        vectors.read_pending(0, &mut bits);
        assert_eq!(bits, [0]);
    }
}
