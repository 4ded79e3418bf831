// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole card: the model, its configuration space and everything it is plugged into.
//!
//! Locks, in the order they are taken: configuration space, combiner, card, then one of vectors,
//! memory, port, alarm, trace file. The last five never call anything that locks.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use device::card::{self, Card};
use device::host::{Clock, Host, Wire};
use device::profile::Profile;
use fabric::Port;
use pcie::{ConfigSpace, Event, Reset};

use crate::alarm::{Alarm, CardClock};
use crate::combine::{Access, Combiner};
use crate::endpoint;
use crate::memory::{CardDma, GuestMemory};
use crate::vectors::{CardIrq, Vectors};

/// The command trace on its way to a file.
struct TraceFile {
    file: BufWriter<File>,
    /// First line not written yet.
    next: u64,
}

/// The cable of the card.
struct Cable(Arc<Port>);

impl Wire for Cable {
    fn send(&self, frame: &[u8]) {
        self.0.send(frame);
    }

    fn link(&self) -> bool {
        self.0.link()
    }
}

/// The card and its surroundings, shared by the thread that serves the client and the thread that
/// waits for everything else.
pub struct Machine {
    config: Mutex<ConfigSpace>,
    card: Mutex<Card>,
    /// Where stores to doorbell registers are gathered, if the profile says so.
    combiner: Option<Mutex<Combiner>>,
    /// When what is gathered goes on at the latest, nanoseconds of the clock; `u64::MAX` for never.
    held_until: AtomicU64,
    clock: CardClock,
    /// Guest memory.
    pub memory: Arc<GuestMemory>,
    /// Interrupts.
    pub vectors: Arc<Vectors>,
    /// The port.
    pub port: Arc<Port>,
    /// Rings at the next deadline of the model.
    pub alarm: Alarm,
    trace: Mutex<Option<TraceFile>>,
    /// Whether BAR0 answers.
    decoding: AtomicBool,
    bar_size: u64,
}

impl Machine {
    /// A card fresh from power-on.
    ///
    /// # Errors
    /// No timer to be had.
    pub fn new(profile: Profile, port: Port, trace: Option<File>) -> std::io::Result<Self> {
        let description = endpoint::describe(&profile);
        let memory = Arc::new(GuestMemory::default());
        let vectors = Arc::new(Vectors::new(description.vectors));
        let port = Arc::new(port);
        let clock = CardClock::start();
        let host = Host {
            dma: Box::new(CardDma(memory.clone())),
            irq: Box::new(CardIrq(vectors.clone())),
            wire: Box::new(Cable(port.clone())),
            clock: Box::new(clock),
        };
        Ok(Self {
            config: Mutex::new(ConfigSpace::new(&description)),
            combiner: profile.pci.write_combining.then(Mutex::default),
            held_until: AtomicU64::new(u64::MAX),
            clock,
            card: Mutex::new(Card::new(profile, host)),
            memory,
            vectors,
            port,
            alarm: Alarm::new(clock)?,
            trace: Mutex::new(trace.map(|file| TraceFile {
                file: BufWriter::new(file),
                next: 0,
            })),
            decoding: AtomicBool::new(false),
            bar_size: description.bar0_size,
        })
    }

    /// Size of BAR0, bytes.
    pub fn bar_size(&self) -> u64 {
        self.bar_size
    }

    /// Runs `work` on the model, then does what every visit to it asks for: the alarm and the
    /// trace file follow.
    pub fn with_card<T>(&self, work: impl FnOnce(&mut Card) -> T) -> T {
        let mut card = self.card.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut card);
        self.alarm.set(self.deadline(&card));
        self.write_trace(&card);
        result
    }

    /// When something has to be done by itself.
    fn deadline(&self, card: &Card) -> Option<Duration> {
        let held = match self.held_until.load(Ordering::Relaxed) {
            u64::MAX => None,
            at => Some(Duration::from_nanos(at)),
        };
        [card.next_deadline(), held].into_iter().flatten().min()
    }

    /// Runs `work` on the buffer that gathers stores, and passes on to the card what it gives out.
    fn combine(&self, work: impl FnOnce(&mut Combiner) -> Vec<Access>) {
        let Some(combiner) = &self.combiner else {
            return;
        };
        let mut combiner = combiner.lock().unwrap_or_else(PoisonError::into_inner);
        let out = work(&mut combiner);
        let until = combiner.deadline().map_or(u64::MAX, |at| {
            u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)
        });
        let before = self.held_until.swap(until, Ordering::Relaxed);
        if !out.is_empty() || until != before {
            self.with_card(|card| {
                for access in &out {
                    card.bar_write(access.offset, &access.data);
                }
            });
        }
    }

    /// Passes on what is gathered: an access of another kind follows.
    fn settle(&self) {
        self.combine(|combiner| combiner.flush().into_iter().collect());
    }

    /// Runs `work` on the configuration space, without any effect on the rest of the card.
    pub fn with_config<T>(&self, work: impl FnOnce(&mut ConfigSpace) -> T) -> T {
        work(&mut self.config())
    }

    fn config(&self) -> MutexGuard<'_, ConfigSpace> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads BAR0. Nobody answers while decoding is off or beyond the end: all ones.
    pub fn bar_read(&self, offset: u64, buf: &mut [u8]) {
        if !self.answers(offset, buf.len()) {
            buf.fill(0xff);
            return;
        }
        self.settle();
        match endpoint::window(offset, buf.len()) {
            endpoint::Window::Table(at) => self.vectors.read_table(at, buf),
            endpoint::Window::Pending(at) => self.vectors.read_pending(at, buf),
            endpoint::Window::Card => self.with_card(|card| card.bar_read(offset, buf)),
        }
    }

    /// Writes BAR0. The vector table is the client's; writes to it and to nowhere are dropped.
    pub fn bar_write(&self, offset: u64, data: &[u8]) {
        if !self.answers(offset, data.len()) {
            tracing::debug!(offset, len = data.len(), "write to BAR0 that nobody takes");
            return;
        }
        if let endpoint::Window::Card = endpoint::window(offset, data.len()) {
            if self.combiner.is_some() {
                let now = self.clock.now();
                self.combine(|combiner| combiner.write(offset, data, now));
            } else {
                self.with_card(|card| card.bar_write(offset, data));
            }
        }
    }

    fn answers(&self, offset: u64, len: usize) -> bool {
        let end = offset.checked_add(len as u64);
        self.decoding.load(Ordering::Acquire) && end.is_some_and(|end| end <= self.bar_size)
    }

    /// Reads configuration space; beyond its end all ones.
    pub fn config_read(&self, offset: u64, buf: &mut [u8]) {
        self.settle();
        if let Err(error) = self.config().read(offset, buf) {
            tracing::debug!(%error);
            buf.fill(0xff);
        }
    }

    /// Writes configuration space, with everything that follows from it.
    pub fn config_write(&self, offset: u64, data: &[u8]) {
        tracing::trace!(offset, ?data, "configuration write");
        self.settle();
        let mut config = self.config();
        let events = match config.write(offset, data) {
            Ok(events) => events,
            Err(error) => {
                tracing::debug!(%error);
                return;
            }
        };
        for event in events {
            match event {
                Event::FunctionReset => {
                    tracing::info!("function level reset");
                    self.vectors.reset();
                    self.with_card(|card| card.reset(card::Reset::Flr));
                }
                Event::Msix { enabled, masked } => self.vectors.set_control(enabled, masked),
                Event::Gateway(transfer) => {
                    let space = match transfer.space {
                        pcie::CardSpace::Chip => card::Space::Chip,
                        pcie::CardSpace::Icmd => card::Space::Icmd,
                        pcie::CardSpace::InitSegment => card::Space::InitSegment,
                    };
                    let ask =
                        |card: &mut Card| card.gateway(space, transfer.address, transfer.write);
                    let value = self.with_card(ask);
                    config.answer(transfer, value);
                }
                Event::Master(_) | Event::Awake(_) => {}
            }
        }
        self.follow(&config);
    }

    /// A bus reset: defaults everywhere, sticky bits stay.
    pub fn bus_reset(&self) {
        tracing::info!("bus reset");
        self.wipe(Reset::Bus);
    }

    /// The client is gone: power off and on, no memory, nowhere to signal.
    pub fn power_cycle(&self) {
        self.wipe(Reset::Power);
        self.vectors.disconnect();
        self.memory.clear();
    }

    fn wipe(&self, reset: Reset) {
        self.settle();
        let mut config = self.config();
        config.reset(reset);
        self.follow(&config);
        self.vectors.reset();
        self.with_card(|card| card.reset(card::Reset::Bus));
    }

    /// Brings what depends on the command and power registers in line with them.
    fn follow(&self, config: &ConfigSpace) {
        let master = config.master();
        self.memory.set_master(master);
        self.vectors.set_master(master);
        self.decoding.store(config.memory(), Ordering::Release);
    }

    /// Takes what came over the cable and tells the model about the carrier.
    pub fn serve_port(&self) {
        let changed = self
            .port
            .process(&mut |frame| self.with_card(|card| card.receive(frame)));
        if let Some(up) = changed {
            tracing::info!(up, "carrier");
            self.with_card(|card| card.set_link(up));
        }
    }

    /// The alarm rang.
    pub fn serve_alarm(&self) {
        self.alarm.acknowledge();
        let now = self.clock.now();
        self.combine(|combiner| {
            let due = combiner.deadline().is_some_and(|at| at <= now);
            due.then(|| combiner.flush())
                .flatten()
                .into_iter()
                .collect()
        });
        self.with_card(Card::tick);
    }

    fn write_trace(&self, card: &Card) {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(out) = trace.as_mut() else { return };
        if out.next == card.trace().next() {
            return;
        }
        let mut result = Ok(());
        for line in card.trace().since(out.next) {
            result = result.and_then(|()| writeln!(out.file, "{} {}", line.micros, line.text));
        }
        out.next = card.trace().next();
        if let Err(error) = result.and_then(|()| out.file.flush()) {
            tracing::warn!(%error, "trace file stops");
            *trace = None;
        }
    }
}
