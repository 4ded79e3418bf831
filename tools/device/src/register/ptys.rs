// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PTYS: protocols and speeds of the port.

use mlx5_hw::{field, ifc};

use super::{own_port, view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// `proto_mask`: Ethernet. Source: `MLX5_PTYS_EN` in include/linux/mlx5/port.h.
const ETHERNET: u64 = 1 << 2;
/// `connector_type`: copper cable. Source: `enum mlx5e_connector_type`.
const COPPER: u64 = 5;

/// The register. The cable has one speed, so it can only be read.
pub const PTYS: Register = Register {
    id: 0x5004,
    name: "PTYS",
    len: ifc::ptys_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::ptys_reg::LAYOUT),
    read,
    write: None,
};

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::ptys_reg>(input)?;
    own_port(input.get(field!(ptys_reg, local_port)))?;
    let mask = input.get(field!(ptys_reg, proto_mask));
    if mask & !0x5 != 0 || mask == 0 {
        refuse!(BadParam, 0x40, "PTYS: protocol mask {mask:#x}");
    }
    let mut output = view_mut::<ifc::ptys_reg>(output)?;
    // Asked for InfiniBand, an Ethernet port answers with nothing.
    if mask & ETHERNET == 0 {
        return Ok(());
    }
    let port = &hca.env.profile.port;
    let (legacy, extended) = (u64::from(port.eth_proto), u64::from(port.ext_eth_proto));
    output
        .set(field!(ptys_reg, eth_proto_capability), legacy)
        .set(field!(ptys_reg, eth_proto_admin), legacy)
        .set(field!(ptys_reg, ext_eth_proto_capability), extended)
        .set(field!(ptys_reg, ext_eth_proto_admin), extended)
        .set(field!(ptys_reg, connector_type), COPPER);
    if hca.vport.link_up() {
        output
            .set(field!(ptys_reg, eth_proto_oper), legacy)
            .set(field!(ptys_reg, ext_eth_proto_oper), extended)
            .set(field!(ptys_reg, eth_proto_lp_advertise), legacy);
    }
    Ok(())
}
