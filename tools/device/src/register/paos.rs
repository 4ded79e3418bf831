// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PAOS: administrative and operational state of the port.

use mlx5_hw::{field, ifc};

use super::{own_port, view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// `enum mlx5_port_status` in include/linux/mlx5/port.h.
const UP: u64 = 1;
const DOWN: u64 = 2;

/// The register.
pub const PAOS: Register = Register {
    id: 0x5006,
    name: "PAOS",
    len: ifc::paos_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::paos_reg::LAYOUT),
    read,
    write: Some(write),
};

fn status(up: bool) -> u64 {
    if up {
        UP
    } else {
        DOWN
    }
}

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::paos_reg>(input)?;
    own_port(input.get(field!(paos_reg, local_port)))?;
    let (admin, oper) = (hca.vport.admin_up, hca.vport.link_up());
    view_mut::<ifc::paos_reg>(output)?
        .set(field!(paos_reg, admin_status), status(admin))
        .set(field!(paos_reg, oper_status), status(oper));
    Ok(())
}

fn write(hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::paos_reg>(input)?;
    own_port(input.get(field!(paos_reg, local_port)))?;
    // Without "admin state enable" the state is not to be changed.
    if !input.flag(field!(paos_reg, ase)) {
        return Ok(());
    }
    let up = match input.get(field!(paos_reg, admin_status)) {
        UP => true,
        DOWN => false,
        other => refuse!(BadParam, 0x20, "PAOS: admin status {other}"),
    };
    hca.change_link(|vport| vport.admin_up = up);
    Ok(())
}
