// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power management capability, version 3: D0 and D3hot.

use crate::space::{Access, Keep, Space};

/// Capability id.
const ID: u32 = 0x01;
/// Bytes of the capability.
pub(crate) const LEN: u16 = 8;
/// Version 3, PME# from D3cold, 375 mA.
const PMC: u32 = 3 | (7 << 6) | (1 << 15);
/// PMCSR power state field.
const STATE: u32 = 3;
/// D3hot to D0 keeps the configuration (no soft reset).
const NO_SOFT_RESET: u32 = 1 << 3;
/// PME enable.
const PME_ENABLE: u32 = 1 << 8;
/// PME status.
const PME_STATUS: u32 = 1 << 15;

/// The capability at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Power {
    at: u16,
}

impl Power {
    /// Lays out the capability.
    pub(crate) fn define(space: &mut Space, at: u16, next: u8) -> Self {
        space.define(at, ID | (u32::from(next) << 8) | (PMC << 16), Access::RO);
        let kept = PME_ENABLE | PME_STATUS;
        let access = Access::rw(STATE | PME_ENABLE)
            .w1c(PME_STATUS)
            .kept(kept, Keep::Sticky);
        space.define(at + 4, NO_SOFT_RESET, access);
        Self { at }
    }

    /// Whether the function is awake (D0).
    pub(crate) fn awake(self, space: &Space) -> bool {
        space.get(self.at + 4) & STATE == 0
    }

    /// A write touched the capability: D1 and D2 do not exist, writing them changes nothing.
    pub(crate) fn written(self, space: &mut Space, before: u32) {
        if matches!(space.get(self.at + 4) & STATE, 1 | 2) {
            space.set_bits(self.at + 4, STATE, before);
        }
    }

    /// The control and status register as it is now.
    pub(crate) fn control(self, space: &Space) -> u32 {
        space.get(self.at + 4)
    }
}
