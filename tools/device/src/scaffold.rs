// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host in memory: what the model runs on when it is tested without a VM.

pub mod driver;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::host::{Clock, Dma, DmaError, Host, Irq, Wire};

#[derive(Debug)]
struct State {
    memory: Vec<u8>,
    /// Bytes handed out so far by [`Machine::alloc`].
    used: u64,
    interrupts: Vec<u16>,
    sent: VecDeque<Vec<u8>>,
    link: bool,
    now: Duration,
}

/// Host memory in a vector, interrupts and frames in lists, a clock that is set by hand. Clones
/// are handles to the same machine.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Mutex<State>>);

impl Machine {
    /// A machine with `bytes` of memory at bus address 0.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            memory: vec![0; bytes],
            used: 0x1000,
            interrupts: Vec::new(),
            sent: VecDeque::new(),
            link: true,
            now: Duration::ZERO,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The four traits.
    pub fn host(&self) -> Host {
        Host {
            dma: Box::new(self.clone()),
            irq: Box::new(self.clone()),
            wire: Box::new(self.clone()),
            clock: Box::new(self.clone()),
        }
    }

    /// Bus address of fresh memory, aligned to 4 KiB. Memory is never handed out twice.
    ///
    /// # Panics
    /// When the machine has no more.
    pub fn alloc(&self, bytes: usize) -> u64 {
        let mut state = self.state();
        let addr = state.used;
        state.used += (bytes as u64).div_ceil(4096) * 4096;
        assert!(state.used <= state.memory.len() as u64, "out of memory");
        addr
    }

    /// Bytes of memory.
    ///
    /// # Panics
    /// Outside of the memory.
    pub fn peek(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut raw = vec![0; len];
        Dma::read(self, addr, &mut raw).expect("inside the memory");
        raw
    }

    /// A big endian dword of memory.
    ///
    /// # Panics
    /// Outside of the memory.
    pub fn peek32(&self, addr: u64) -> u32 {
        let raw = self.peek(addr, 4);
        u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]])
    }

    /// Writes memory.
    ///
    /// # Panics
    /// Outside of the memory.
    pub fn poke(&self, addr: u64, bytes: &[u8]) {
        Dma::write(self, addr, bytes).expect("inside the memory");
    }

    /// Interrupts raised since the last call, in order.
    pub fn take_interrupts(&self) -> Vec<u16> {
        std::mem::take(&mut self.state().interrupts)
    }

    /// The oldest frame on the cable that nobody has taken.
    pub fn take_frame(&self) -> Option<Vec<u8>> {
        self.state().sent.pop_front()
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        self.state().now += by;
    }

    /// Plugs or unplugs the cable (the card is told with `Card::set_link`).
    pub fn set_link(&self, up: bool) {
        self.state().link = up;
    }
}

fn range(memory: usize, addr: u64, len: usize) -> Result<std::ops::Range<usize>, DmaError> {
    let start = usize::try_from(addr).map_err(|_| DmaError { addr, len })?;
    match start.checked_add(len) {
        Some(end) if end <= memory => Ok(start..end),
        _ => Err(DmaError { addr, len }),
    }
}

impl Dma for Machine {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let state = self.state();
        let range = range(state.memory.len(), addr, buf.len())?;
        buf.copy_from_slice(&state.memory[range]);
        Ok(())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let mut state = self.state();
        let range = range(state.memory.len(), addr, buf.len())?;
        state.memory[range].copy_from_slice(buf);
        Ok(())
    }

    fn publish(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        Dma::write(self, addr, buf)
    }

    fn update64(&self, addr: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, DmaError> {
        let mut state = self.state();
        if addr % 8 != 0 {
            return Err(DmaError { addr, len: 8 });
        }
        let range = range(state.memory.len(), addr, 8)?;
        let mut raw = [0; 8];
        raw.copy_from_slice(&state.memory[range.clone()]);
        let old = u64::from_le_bytes(raw);
        state.memory[range].copy_from_slice(&change(old).to_le_bytes());
        Ok(old)
    }
}

impl Irq for Machine {
    fn raise(&self, vector: u16) {
        self.state().interrupts.push(vector);
    }
}

impl Wire for Machine {
    fn send(&self, frame: &[u8]) {
        self.state().sent.push_back(frame.to_vec());
    }

    fn link(&self) -> bool {
        self.state().link
    }
}

impl Clock for Machine {
    fn now(&self) -> Duration {
        self.state().now
    }
}
