// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express capability, version 2, of an endpoint.

use crate::space::{Access, Keep, Space};

/// Bytes of the capability.
pub(crate) const LEN: u16 = 0x3c;
/// Capability id.
const ID: u32 = 0x10;

const DEVCAP: u16 = 0x04;
/// Device control (low half) and status (high half).
const DEVCTL: u16 = 0x08;
const LNKCAP: u16 = 0x0c;
const LNKCTL: u16 = 0x10;
const DEVCAP2: u16 = 0x24;
const DEVCTL2: u16 = 0x28;
const LNKCAP2: u16 = 0x2c;
const LNKCTL2: u16 = 0x30;

/// 512 bytes, as the code of the payload and request size fields (128 << code).
const MPS_SUPPORTED: u32 = 2;
/// Largest request size code with a meaning: 4096 bytes.
const MRRS_LARGEST: u32 = 5;

const MPS_SHIFT: u32 = 5;
const MPS_MASK: u32 = 7 << MPS_SHIFT;
const MRRS_SHIFT: u32 = 12;
const MRRS_MASK: u32 = 7 << MRRS_SHIFT;
/// Initiate function level reset: writing one acts, reads as zero.
const FLR: u32 = 1 << 15;
/// Four error enables, relaxed ordering, payload, extended tags, no snoop, request size.
const DEVCTL_RW: u32 = 0xf | (1 << 4) | MPS_MASK | (1 << 8) | (1 << 11) | MRRS_MASK;
/// After reset: relaxed ordering, no snoop, 512-byte read requests as the specification asks, and
/// the four error reporting enables. The enables are zero on silicon; QEMU's error injection
/// (hw/pci/pcie_aer.c) looks at the copy it took when it connected, and never again.
const DEVCTL_DEFAULT: u32 = 0x281f;
/// Correctable, non-fatal, fatal, unsupported request.
const DEVSTA_W1C: u32 = 0xf << 16;

/// Device status: correctable error detected.
pub(crate) const SEEN_CORRECTABLE: u32 = 1 << 16;
/// Device status: non-fatal error detected.
pub(crate) const SEEN_NONFATAL: u32 = 1 << 17;
/// Device status: fatal error detected.
pub(crate) const SEEN_FATAL: u32 = 1 << 18;

/// Link speed, by the code of the link registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Speed {
    /// 2.5 GT/s.
    Gen1 = 1,
    /// 5 GT/s.
    Gen2 = 2,
    /// 8 GT/s.
    Gen3 = 3,
    /// 16 GT/s.
    Gen4 = 4,
    /// 32 GT/s.
    Gen5 = 5,
}

impl Speed {
    /// The speed of PCI Express generation `generation`, if it is one this card can speak.
    pub fn from_generation(generation: u8) -> Option<Self> {
        [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5]
            .into_iter()
            .find(|speed| *speed as u8 == generation)
    }
}

/// What the card's link can do and what it trained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Fastest speed.
    pub max_speed: Speed,
    /// Widest width, lanes.
    pub max_width: u8,
    /// Speed now.
    pub speed: Speed,
    /// Width now, lanes.
    pub width: u8,
}

/// The capability at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Express {
    at: u16,
}

impl Express {
    /// Lays out the capability.
    pub(crate) fn define(space: &mut Space, at: u16, next: u8, link: &Link) -> Self {
        // Version 2, device type 0 (endpoint), message number 0.
        space.define(at, ID | (u32::from(next) << 8) | (2 << 16), Access::RO);
        // No phantom functions, 8-bit tags, unlimited exit latencies (no ASPM), role based error
        // reporting, 75 W, function level reset.
        let devcap =
            MPS_SUPPORTED | (1 << 5) | (7 << 6) | (7 << 9) | (1 << 15) | (75 << 18) | (1 << 28);
        space.define(at + DEVCAP, devcap, Access::RO);
        let devctl = Access::rw(DEVCTL_RW)
            .w1c(DEVSTA_W1C)
            .kept(MPS_MASK, Keep::Function);
        space.define(at + DEVCTL, DEVCTL_DEFAULT, devctl);

        let width = |lanes: u8| u32::from(lanes & 0x3f) << 4;
        // No ASPM; bit 22 says that this is on purpose.
        let lnkcap = link.max_speed as u32 | width(link.max_width) | (1 << 22);
        space.define(at + LNKCAP, lnkcap, Access::RO);
        // ASPM control, RCB, common clock, extended synch; the status half shows the slot clock.
        let lnkctl = 0b11 | (1 << 3) | (1 << 6) | (1 << 7);
        let lnksta = link.speed as u32 | width(link.width) | (1 << 12);
        let access = Access::rw(lnkctl).kept(lnkctl, Keep::Function);
        space.define(at + LNKCTL, lnksta << 16, access);

        // Completion timeout ranges A, B and C, and switching it off.
        space.define(at + DEVCAP2, 0x7 | (1 << 4), Access::RO);
        space.define(at + DEVCTL2, 0, Access::rw(0x1f));
        // Supported speeds vector, bits 1 to 7.
        let speeds = ((1u32 << (link.max_speed as u32)) - 1) << 1;
        space.define(at + LNKCAP2, speeds, Access::RO);
        // Target speed; the rest of the register belongs to the port above.
        let access = Access::rw(0xf).kept(0xf, Keep::Sticky);
        space.define(at + LNKCTL2, link.max_speed as u32, access);
        Self { at }
    }

    /// Device control as it is now.
    pub(crate) fn control(self, space: &Space) -> u32 {
        space.get(self.at + DEVCTL) & 0xffff
    }

    /// A write touched the capability; `before` is device control before it. Values without a
    /// meaning leave the field as it was.
    pub(crate) fn written(self, space: &mut Space, before: u32) {
        let now = self.control(space);
        if (now & MPS_MASK) >> MPS_SHIFT > MPS_SUPPORTED {
            space.set_bits(self.at + DEVCTL, MPS_MASK, before);
        }
        if (now & MRRS_MASK) >> MRRS_SHIFT > MRRS_LARGEST {
            space.set_bits(self.at + DEVCTL, MRRS_MASK, before);
        }
    }

    /// Whether a write of `data` at `offset` asks for a function level reset.
    pub(crate) fn asks_reset(self, offset: u64, data: &[u8]) -> bool {
        let high_byte = u64::from(self.at + DEVCTL) + 1;
        high_byte
            .checked_sub(offset)
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| data.get(at))
            .is_some_and(|byte| (u32::from(*byte) << 8) & FLR != 0)
    }

    /// Sets bits of device status.
    pub(crate) fn saw(self, space: &mut Space, bits: u32) {
        space.set_bits(self.at + DEVCTL, bits, bits);
    }

    /// Maximum payload in force, bytes.
    pub(crate) fn payload(self, space: &Space) -> u32 {
        128 << ((self.control(space) & MPS_MASK) >> MPS_SHIFT)
    }

    /// Maximum read request in force, bytes.
    pub(crate) fn read_request(self, space: &Space) -> u32 {
        128 << ((self.control(space) & MRRS_MASK) >> MRRS_SHIFT)
    }

    /// Shows another link state, as after retraining.
    pub(crate) fn retrain(self, space: &mut Space, speed: Speed, width: u8) {
        let status = speed as u32 | (u32::from(width & 0x3f) << 4);
        space.set_bits(self.at + LNKCTL, 0x3ff << 16, status << 16);
    }
}
