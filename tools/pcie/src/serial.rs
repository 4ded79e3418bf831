// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device serial number extended capability.

use crate::space::{Access, Space};

/// Lays out the capability at `at`; `next` is the offset of the following one or 0.
pub(crate) fn define(space: &mut Space, at: u16, next: u16, serial: u64) {
    space.define(at, 0x0003 | (1 << 16) | (u32::from(next) << 20), Access::RO);
    // CAST: the two halves of the number.
    space.define(at + 4, serial as u32, Access::RO);
    space.define(at + 8, (serial >> 32) as u32, Access::RO);
}
