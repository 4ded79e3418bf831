// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the model needs from the world around it: four traits, and nothing else.
//!
//! The binary implements them over vfio-user, sockets and the monotonic clock; [`crate::scaffold`]
//! implements them in memory, so that every behaviour of the card can be tested without a VM.
//!
//! The model is one object used by one thread at a time (the caller holds a lock around it). It
//! calls these traits while it runs, and they never call back into it.

use std::time::Duration;

/// A DMA access the platform refused: no mapping, no permission, or bus mastering is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("DMA of {len} bytes at {addr:#x} failed")]
pub struct DmaError {
    /// First bus address of the access.
    pub addr: u64,
    /// Its length in bytes.
    pub len: usize,
}

/// Access to host memory by bus address. A failed access has moved nothing or a prefix, like a
/// real posted write; the caller must not report it as done.
pub trait Dma: Send {
    /// Reads `buf.len()` bytes from `addr`.
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError>;

    /// Writes `buf` to `addr`.
    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError>;

    /// Writes `buf` so that its last byte becomes visible after all others and after every earlier
    /// write (release order): how entries with an owner bit or a status byte are published.
    fn publish(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError>;

    /// Replaces the 8-byte aligned value at `addr` in one atomic step and returns the old one. Both
    /// are native byte order of the host memory (little endian on x86).
    fn update64(&self, addr: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, DmaError>;
}

/// MSI-X messages.
pub trait Irq: Send {
    /// Raises vector `vector`. Masking and the pending bits are the platform's business.
    fn raise(&self, vector: u16);
}

/// The cable of the port.
pub trait Wire: Send {
    /// Sends one Ethernet frame, from destination MAC to the last byte before the FCS.
    fn send(&self, frame: &[u8]);

    /// Whether the cable carries a signal.
    fn link(&self) -> bool {
        true
    }
}

/// Monotonic time since the model was made.
pub trait Clock: Send {
    /// Now.
    fn now(&self) -> Duration;
}

/// The four, owned by one card.
pub struct Host {
    /// Host memory.
    pub dma: Box<dyn Dma>,
    /// Interrupt messages.
    pub irq: Box<dyn Irq>,
    /// The cable.
    pub wire: Box<dyn Wire>,
    /// Time.
    pub clock: Box<dyn Clock>,
}

impl Host {
    /// A host that is not there: no memory, nobody to hear an interrupt, no cable, no time. Stands
    /// in for the real one while a function is being replaced.
    pub fn detached() -> Self {
        Self {
            dma: Box::new(Nowhere),
            irq: Box::new(Nowhere),
            wire: Box::new(Nowhere),
            clock: Box::new(Nowhere),
        }
    }
}

struct Nowhere;

impl Dma for Nowhere {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let len = buf.len();
        Err(DmaError { addr, len })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let len = buf.len();
        Err(DmaError { addr, len })
    }

    fn publish(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let len = buf.len();
        Err(DmaError { addr, len })
    }

    fn update64(&self, addr: u64, _: &mut dyn FnMut(u64) -> u64) -> Result<u64, DmaError> {
        Err(DmaError { addr, len: 8 })
    }
}

impl Irq for Nowhere {
    fn raise(&self, _vector: u16) {}
}

impl Wire for Nowhere {
    fn send(&self, _frame: &[u8]) {}

    fn link(&self) -> bool {
        false
    }
}

impl Clock for Nowhere {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}
