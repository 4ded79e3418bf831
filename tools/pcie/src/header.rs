// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The type 0 header: identity, command and status, the base address register.

use crate::space::{Access, Space};

/// Command: answers memory accesses.
pub(crate) const COMMAND_MEMORY: u32 = 1 << 1;
/// Command: may send requests of its own, DMA and MSI-X messages alike.
pub(crate) const COMMAND_MASTER: u32 = 1 << 2;
/// Memory, bus master, parity response, SERR, INTx disable. No I/O decoder exists.
const COMMAND_RW: u32 = COMMAND_MEMORY | COMMAND_MASTER | (1 << 6) | (1 << 8) | (1 << 10);
/// A capability list is present (status is the upper half of the command dword).
const STATUS_CAP_LIST: u32 = 1 << (16 + 4);
/// Parity, target abort, received aborts, SERR, parity detected.
const STATUS_W1C: u32 = 0xf900 << 16;
/// Memory, 64 bits wide, prefetchable.
const BAR_TYPE: u32 = 0xc;

/// Offset of the command and status dword.
pub(crate) const COMMAND: u16 = 0x04;
/// Offset of base address register 0.
const BAR0: u16 = 0x10;

/// Who the function says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Subsystem vendor id.
    pub subsystem_vendor: u16,
    /// Subsystem id.
    pub subsystem: u16,
    /// Revision id.
    pub revision: u8,
    /// Class code: base class, subclass, programming interface (24 bits).
    pub class: u32,
}

/// Lays out the header. `bar0_size` is a power of two in bytes, at least 16; `first_capability` the
/// offset of the head of the list.
pub(crate) fn define(space: &mut Space, id: &Identity, bar0_size: u64, first_capability: u8) {
    let pair = |low: u16, high: u16| u32::from(low) | (u32::from(high) << 16);
    space.define(0x00, pair(id.vendor, id.device), Access::RO);
    space.define(
        COMMAND,
        STATUS_CAP_LIST,
        Access::rw(COMMAND_RW).w1c(STATUS_W1C),
    );
    space.define(0x08, u32::from(id.revision) | (id.class << 8), Access::RO);
    // Cache line size is writable for software's sake; the latency timer is hard-wired to zero.
    space.define(0x0c, 0, Access::rw(0xff));
    let mask = !(bar0_size.wrapping_sub(1));
    // CAST: the two halves of a 64-bit mask.
    space.define(BAR0, BAR_TYPE, Access::rw(mask as u32 & !0xf));
    space.define(BAR0 + 4, 0, Access::rw((mask >> 32) as u32));
    space.define(0x2c, pair(id.subsystem_vendor, id.subsystem), Access::RO);
    space.define(0x34, u32::from(first_capability), Access::RO);
    // No INTx pin: the card signals by MSI-X only. The line byte is scratch for software.
    space.define(0x3c, 0, Access::rw(0xff));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_sizing_reads_back_the_size() {
        let mut space = Space::new();
        let id = Identity {
            vendor: 0x15b3,
            device: 0x101d,
            subsystem_vendor: 0x15b3,
            subsystem: 0x0016,
            revision: 0,
            class: 0x02_0000,
        };
        define(&mut space, &id, 32 << 20, 0x60);
        space.write(0x10, &[0xff; 8]).unwrap();
        let raw = u64::from(space.get(0x10)) | (u64::from(space.get(0x14)) << 32);
        assert_eq!(!(raw & !0xf) + 1, 32 << 20);
        assert_eq!(raw & 0xf, 0xc);
        assert_eq!(space.get(0), 0x101d_15b3);
    }
}
