// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QTCT: the traffic class of a priority.

use mlx5_hw::{field, ifc};

use super::{
    qetcr::{classes, port_or_none},
    view, view_mut, Register,
};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// The register.
pub const QTCT: Register = Register {
    id: 0x400a,
    name: "QTCT",
    len: ifc::qtct_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::qtct_reg::LAYOUT),
    read,
    write: Some(write),
};

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::qtct_reg>(input)?;
    port_or_none(input.get(field!(qtct_reg, port_number)))?;
    // CAST: three bits.
    let priority = input.get(field!(qtct_reg, prio)) as usize;
    let class = hca.priorities.class_of.get(priority).copied();
    view_mut::<ifc::qtct_reg>(output)?.set(field!(qtct_reg, tclass), class.unwrap_or(0).into());
    Ok(())
}

fn write(hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::qtct_reg>(input)?;
    port_or_none(input.get(field!(qtct_reg, port_number)))?;
    // CAST, twice: three bits.
    let priority = input.get(field!(qtct_reg, prio)) as usize;
    let class = input.get(field!(qtct_reg, tclass)) as u8;
    let count = classes(hca);
    if usize::from(class) >= count {
        refuse!(BadParam, 0x84, "QTCT: class {class} of {count}");
    }
    if let Some(place) = hca.priorities.class_of.get_mut(priority) {
        *place = class;
    }
    Ok(())
}
