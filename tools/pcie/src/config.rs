// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole configuration space: which capability is where, and what a write sets off.

use crate::aer::{Aer, Fault};
use crate::express::{Express, Link, Speed};
use crate::header::{self, Identity};
use crate::msix;
use crate::power::Power;
use crate::serial;
use crate::space::{OutOfRange, Reset, Space};
use crate::vendor::{self, Transfer, Vendor};
use crate::vpd::Vpd;
use crate::{aer, express, power, vpd};

/// Offsets of the capabilities, as on the reference card, in the order of its list.
const EXPRESS: u16 = 0x60;
const VPD: u16 = 0x48;
const MSIX: u16 = 0x9c;
const VENDOR: u16 = 0xc0;
const POWER: u16 = 0x40;
/// Extended capabilities.
const AER: u16 = 0x100;
const SERIAL: u16 = 0x148;

/// What the function is made of.
#[derive(Clone, Debug)]
pub struct Description {
    /// Ids and class.
    pub identity: Identity,
    /// What the link can do and does.
    pub link: Link,
    /// Size of BAR0 in bytes, a power of two.
    pub bar0_size: u64,
    /// MSI-X vectors, 1 to 2048.
    pub vectors: u16,
    /// Byte offset of the vector table in BAR0, a multiple of 8.
    pub msix_table: u32,
    /// Byte offset of the pending bits in BAR0, a multiple of 8.
    pub msix_pending: u32,
    /// Device serial number.
    pub serial: u64,
    /// Product name, the identifier string of the vital product data.
    pub name: String,
    /// Read-only fields of the vital product data: keyword and text.
    pub product: Vec<([u8; 2], String)>,
}

/// What a write to the configuration space set off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A function level reset was asked for; the space is at its defaults already, the owner wipes
    /// the rest of the function.
    FunctionReset,
    /// The function may (or may no longer) send requests.
    Master(bool),
    /// MSI-X message control changed.
    Msix {
        /// MSI-X is enabled.
        enabled: bool,
        /// All vectors are masked.
        masked: bool,
    },
    /// The power state changed: true is D0.
    Awake(bool),
    /// The card has to answer an access through the vendor gateway: [`ConfigSpace::answer`].
    Gateway(Transfer),
}

/// The configuration space of the card.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    space: Space,
    express: Express,
    vpd: Vpd,
    msix: msix::Capability,
    vendor: Vendor,
    power: Power,
    aer: Aer,
}

impl ConfigSpace {
    /// A function as it is after power-on.
    pub fn new(card: &Description) -> Self {
        const {
            assert!(POWER + power::LEN <= VPD);
            assert!(VPD + vpd::LEN <= EXPRESS);
            assert!(EXPRESS + express::LEN <= MSIX);
            assert!(MSIX + msix::LEN <= VENDOR);
            assert!(VENDOR + vendor::LEN <= 0x100);
            assert!(AER + aer::LEN <= SERIAL);
        }
        let mut space = Space::new();
        // CAST: every offset of the first 256 bytes fits a byte.
        header::define(&mut space, &card.identity, card.bar0_size, EXPRESS as u8);
        let express = Express::define(&mut space, EXPRESS, VPD as u8, &card.link);
        let vpd = Vpd::define(&mut space, VPD, MSIX as u8, &card.name, &card.product);
        let (table, pending) = (card.msix_table, card.msix_pending);
        let next = VENDOR as u8;
        let msix = msix::Capability::define(&mut space, MSIX, next, card.vectors, table, pending);
        let vendor = Vendor::define(&mut space, VENDOR, POWER as u8);
        let power = Power::define(&mut space, POWER, 0);
        let aer = Aer::define(&mut space, AER, SERIAL);
        serial::define(&mut space, SERIAL, 0, card.serial);
        Self {
            space,
            express,
            vpd,
            msix,
            vendor,
            power,
            aer,
        }
    }

    /// Reads `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`]; `buf` is unchanged then.
    pub fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), OutOfRange> {
        self.vendor.reading(&mut self.space, offset);
        self.space.read(offset, buf)
    }

    /// Writes `data` at `offset` as software does, and says what that set off, in order.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing changed then.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<Vec<Event>, OutOfRange> {
        let devctl = self.express.control(&self.space);
        let pmcsr = self.power.control(&self.space);
        let (master, awake) = (self.master(), self.awake());
        let msix = self.msix.control(&self.space);

        self.space.write(offset, data)?;
        self.express.written(&mut self.space, devctl);
        if self.express.asks_reset(offset, data) {
            self.reset(Reset::Function);
            return Ok(vec![Event::FunctionReset]);
        }
        self.power.written(&mut self.space, pmcsr);
        self.vpd.written(&mut self.space, offset, data.len());
        let asked = self.vendor.written(&mut self.space, offset, data);

        let mut events: Vec<Event> = asked.map(Event::Gateway).into_iter().collect();
        if self.master() != master {
            events.push(Event::Master(!master));
        }
        if self.awake() != awake {
            events.push(Event::Awake(!awake));
        }
        let (enabled, masked) = self.msix.control(&self.space);
        if (enabled, masked) != msix {
            events.push(Event::Msix { enabled, masked });
        }
        Ok(events)
    }

    /// The card's answer to [`Event::Gateway`]: the value, or `None` where there is nothing.
    pub fn answer(&mut self, transfer: Transfer, value: Option<u32>) {
        self.vendor.answered(&mut self.space, transfer, value);
    }

    /// Restores defaults as far as `reset` reaches.
    pub fn reset(&mut self, reset: Reset) {
        self.space.reset(reset);
        self.vendor.reset();
    }

    /// Whether the function may send requests (DMA, MSI-X): bus mastering on, and in D0.
    pub fn master(&self) -> bool {
        self.space.get(header::COMMAND) & header::COMMAND_MASTER != 0 && self.awake()
    }

    /// Whether the function answers memory accesses: decoding on, and in D0.
    pub fn memory(&self) -> bool {
        self.space.get(header::COMMAND) & header::COMMAND_MEMORY != 0 && self.awake()
    }

    /// Whether the function is in D0.
    pub fn awake(&self) -> bool {
        self.power.awake(&self.space)
    }

    /// Maximum payload in force, bytes.
    pub fn payload(&self) -> u32 {
        self.express.payload(&self.space)
    }

    /// Maximum read request in force, bytes.
    pub fn read_request(&self) -> u32 {
        self.express.read_request(&self.space)
    }

    /// Records a fault in the AER registers and device status; `header` is the TLP header to log.
    /// Returns the status bits that exist and were set.
    pub fn record(&mut self, fault: Fault, header: [u32; 4]) -> u32 {
        self.aer
            .record(&mut self.space, self.express, fault, header)
    }

    /// Shows another link speed and width, as after retraining.
    pub fn retrain(&mut self, speed: Speed, width: u8) {
        self.express.retrain(&mut self.space, speed, width);
    }
}
