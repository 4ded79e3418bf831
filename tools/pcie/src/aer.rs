// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Advanced error reporting extended capability.

use crate::express::{Express, SEEN_CORRECTABLE, SEEN_FATAL, SEEN_NONFATAL};
use crate::space::{Access, Keep, Space};

/// Bytes of the capability (without root port registers).
pub(crate) const LEN: u16 = 0x2c;

const UNCOR_STATUS: u16 = 0x04;
const UNCOR_MASK: u16 = 0x08;
const UNCOR_SEVERITY: u16 = 0x0c;
const COR_STATUS: u16 = 0x10;
const COR_MASK: u16 = 0x14;
const CONTROL: u16 = 0x18;
const HEADER_LOG: u16 = 0x1c;

/// Uncorrectable errors this function can report: data link protocol, surprise down, poisoned TLP,
/// flow control, completion timeout, completer abort, unexpected completion, receiver overflow,
/// malformed TLP, ECRC, unsupported request, internal.
const UNCORRECTABLE: u32 = 0x005f_f030;
/// Fatal by default (PCI Express base specification 5.0, 7.8.4.4).
const SEVERITY_DEFAULT: u32 = 0x0046_2030;
/// Internal errors start masked (7.8.4.3).
const UNCOR_MASK_DEFAULT: u32 = 0x0040_0000;
/// Correctable errors: receiver, bad TLP, bad DLLP, replay rollover and timeout, advisory.
const CORRECTABLE: u32 = 0x0000_31c1;
/// Advisory non-fatal errors start masked (7.8.4.6).
const COR_MASK_DEFAULT: u32 = 0x0000_2000;
/// ECRC generation and check: able, and off.
const ECRC_ABLE: u32 = (1 << 5) | (1 << 7);
const ECRC_ENABLE: u32 = (1 << 6) | (1 << 8);
/// Bit number of the first error.
const FIRST_ERROR: u32 = 0x1f;

/// An error to show in the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Bits of the uncorrectable status register.
    Uncorrectable(u32),
    /// Bits of the correctable status register.
    Correctable(u32),
}

/// The capability at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aer {
    at: u16,
}

impl Aer {
    /// Lays out the capability; `next` is the offset of the following one or 0.
    pub(crate) fn define(space: &mut Space, at: u16, next: u16) -> Self {
        space.define(at, 0x0001 | (1 << 16) | (u32::from(next) << 20), Access::RO);
        let sticky = |rw: u32, w1c: u32| Access::rw(rw).w1c(w1c).kept(!0, Keep::Sticky);
        space.define(at + UNCOR_STATUS, 0, sticky(0, UNCORRECTABLE));
        space.define(
            at + UNCOR_MASK,
            UNCOR_MASK_DEFAULT,
            sticky(UNCORRECTABLE, 0),
        );
        space.define(
            at + UNCOR_SEVERITY,
            SEVERITY_DEFAULT,
            sticky(UNCORRECTABLE, 0),
        );
        space.define(at + COR_STATUS, 0, sticky(0, CORRECTABLE));
        space.define(at + COR_MASK, COR_MASK_DEFAULT, sticky(CORRECTABLE, 0));
        space.define(at + CONTROL, ECRC_ABLE, sticky(ECRC_ENABLE, 0));
        for word in 0..4 {
            space.define(at + HEADER_LOG + 4 * word, 0, sticky(0, 0));
        }
        Self { at }
    }

    /// Records a fault as the function itself would: status bits, the first error pointer and
    /// header log while no unmasked error is pending, and the summary in device status. Bits
    /// that do not exist here are ignored; the bits recorded are returned.
    pub(crate) fn record(
        self,
        space: &mut Space,
        express: Express,
        fault: Fault,
        header: [u32; 4],
    ) -> u32 {
        match fault {
            Fault::Correctable(bits) => {
                let bits = bits & CORRECTABLE;
                space.set_bits(self.at + COR_STATUS, bits, bits);
                if bits != 0 {
                    express.saw(space, SEEN_CORRECTABLE);
                }
                bits
            }
            Fault::Uncorrectable(bits) => {
                let bits = bits & UNCORRECTABLE;
                let unmasked = bits & !space.get(self.at + UNCOR_MASK);
                let pending = space.get(self.at + UNCOR_STATUS) & !space.get(self.at + UNCOR_MASK);
                space.set_bits(self.at + UNCOR_STATUS, bits, bits);
                if pending == 0 && unmasked != 0 {
                    let first = unmasked.trailing_zeros();
                    space.set_bits(self.at + CONTROL, FIRST_ERROR, first);
                    for (word, at) in header.into_iter().zip((self.at + HEADER_LOG..).step_by(4)) {
                        space.put(at, word);
                    }
                }
                let severity = space.get(self.at + UNCOR_SEVERITY);
                if bits & severity != 0 {
                    express.saw(space, SEEN_FATAL);
                }
                if bits & !severity != 0 {
                    express.saw(space, SEEN_NONFATAL);
                }
                bits
            }
        }
    }
}
