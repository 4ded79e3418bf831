// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MCAM: which management registers (0x9000 and up) exist.

use mlx5_hw::{field, ifc, span};

use super::{view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// Registers that a group tells of.
const GROUP: u16 = 128;
/// The first register of group 0.
const FIRST: u16 = 0x9000;
const GROUPS: u16 = 3;

/// The register.
pub const MCAM: Register = Register {
    id: 0x907f,
    name: "MCAM",
    len: ifc::mcam_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::mcam_reg::LAYOUT),
    read,
    write: None,
};

fn read(_hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::mcam_reg>(input)?;
    let features = input.get(field!(mcam_reg, feature_group));
    if features != 0 {
        refuse!(BadParam, 0x68, "MCAM: feature group {features}");
    }
    let group = input.get(field!(mcam_reg, access_reg_group));
    let Some(group) = u16::try_from(group).ok().filter(|group| *group < GROUPS) else {
        refuse!(BadParam, 0x69, "MCAM: register group {group}");
    };
    let first = FIRST + group * GROUP;
    // The bit of the group's last register is the highest.
    let mask = super::numbers()
        .filter_map(|id| id.checked_sub(first).filter(|bit| *bit < GROUP))
        .fold(0u128, |mask, bit| mask | 1 << bit);
    let mut output = view_mut::<ifc::mcam_reg>(output)?;
    let place = output.raw(span!(mcam_reg, mng_access_reg_cap_mask));
    for (to, from) in place.iter_mut().zip(mask.to_be_bytes()) {
        *to = from;
    }
    Ok(())
}
