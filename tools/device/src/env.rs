// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What outlives a reset: the host behind its traits, the profile, counters, trace and faults.

use std::{sync::Arc, time::Duration};

use crate::{
    counters::Counters,
    fault::Faults,
    host::{DmaError, Host},
    profile::Profile,
    trace::Trace,
};

/// The surroundings of a function. Every access to host memory and every interrupt goes through
/// here, so that it is counted and so that faults can be injected.
pub struct Env {
    host: Host,
    /// What card this is.
    pub profile: Arc<Profile>,
    /// What has been counted.
    pub counters: Counters,
    /// The last commands.
    pub trace: Trace,
    /// What is to go wrong.
    pub faults: Faults,
}

impl Env {
    /// Fresh surroundings.
    pub fn new(profile: Arc<Profile>, host: Host) -> Self {
        Self {
            host,
            profile,
            counters: Counters::default(),
            trace: Trace::default(),
            faults: Faults::default(),
        }
    }

    /// Now.
    pub fn now(&self) -> Duration {
        self.host.clock.now()
    }

    /// Reads host memory.
    pub fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let outcome = self.host.dma.read(addr, buf);
        self.count(&outcome, |counters| {
            counters.dma_read_bytes += buf.len() as u64;
        });
        outcome
    }

    /// Reads a big endian dword of host memory (a doorbell record).
    pub fn read_be32(&mut self, addr: u64) -> Result<u32, DmaError> {
        let mut raw = [0; 4];
        self.read(addr, &mut raw)?;
        Ok(u32::from_be_bytes(raw))
    }

    /// Writes host memory.
    pub fn write(&mut self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let outcome = self.host.dma.write(addr, buf);
        self.count(&outcome, |counters| {
            counters.dma_written_bytes += buf.len() as u64;
        });
        outcome
    }

    /// Writes host memory so that the last byte is seen after everything before it.
    pub fn publish(&mut self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let outcome = self.host.dma.publish(addr, buf);
        self.count(&outcome, |counters| {
            counters.dma_written_bytes += buf.len() as u64;
        });
        outcome
    }

    /// Changes 8 aligned bytes of host memory in one atomic step; native byte order of the host
    /// memory.
    pub fn update64(
        &mut self,
        addr: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, DmaError> {
        let outcome = self.host.dma.update64(addr, change);
        self.count(&outcome, |counters| {
            counters.dma_read_bytes += 8;
            counters.dma_written_bytes += 8;
        });
        outcome
    }

    fn count<T>(&mut self, outcome: &Result<T, DmaError>, add: impl FnOnce(&mut Counters)) {
        match outcome {
            Ok(_) => add(&mut self.counters),
            Err(error) => {
                self.counters.dma_errors += 1;
                tracing::warn!("DMA error: {error}");
            }
        }
    }

    /// Raises an interrupt vector, unless a fault swallows it.
    pub fn raise(&mut self, vector: u16) {
        if self.faults.swallow_interrupt(vector) {
            self.counters.interrupts_swallowed += 1;
            tracing::info!("fault: interrupt of vector {vector} swallowed");
            return;
        }
        self.counters.interrupts += 1;
        *self
            .counters
            .interrupts_by_vector
            .entry(vector)
            .or_default() += 1;
        self.host.irq.raise(vector);
    }

    /// Puts a frame on the cable. Whether it is to be looped back is decided in
    /// [`crate::hca::Hca::transmit`], which is what senders call.
    pub fn send(&mut self, frame: &[u8]) {
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += frame.len() as u64;
        self.host.wire.send(frame);
    }

    /// Whether the cable carries a signal.
    pub fn signal(&self) -> bool {
        self.host.wire.link()
    }
}
