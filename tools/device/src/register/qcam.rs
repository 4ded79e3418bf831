// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QCAM: which registers of the 0x4000s exist, and features of theirs.
//!
//! Of the features there is none: QPTS knows no state that trusts both fields, and rates in QETCR have eight bits.

use mlx5_hw::{field, ifc, span};

use super::{view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// Registers that the one group tells of.
const GROUP: u16 = 128;
/// The first of them.
const FIRST: u16 = 0x4000;

/// The register.
pub const QCAM: Register = Register {
    id: 0x4019,
    name: "QCAM",
    len: ifc::qcam_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::qcam_reg::LAYOUT),
    read,
    write: None,
};

fn read(_hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::qcam_reg>(input)?;
    let features = input.get(field!(qcam_reg, feature_group));
    if features != 0 {
        refuse!(BadParam, 0x80, "QCAM: feature group {features}");
    }
    let group = input.get(field!(qcam_reg, access_reg_group));
    if group != 0 {
        refuse!(BadParam, 0x81, "QCAM: register group {group}");
    }
    output.fill(0);
    // The bit of the group's last register is the highest.
    let mask = super::numbers()
        .filter_map(|id| id.checked_sub(FIRST).filter(|bit| *bit < GROUP))
        .fold(0u128, |mask, bit| mask | 1 << bit);
    let mut output = view_mut::<ifc::qcam_reg>(output)?;
    let place = output.raw(span!(qcam_reg, qos_access_reg_cap_mask));
    for (to, from) in place.iter_mut().zip(mask.to_be_bytes()) {
        *to = from;
    }
    Ok(())
}
