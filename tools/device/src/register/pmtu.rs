// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PMTU: the longest frame the port passes, with Ethernet header and FCS.

use mlx5_hw::{field, ifc};

use super::{own_port, view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// Shortest MTU that makes sense: a 64-byte frame.
const MIN: u64 = 64;

/// The register.
pub const PMTU: Register = Register {
    id: 0x5003,
    name: "PMTU",
    len: ifc::pmtu_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::pmtu_reg::LAYOUT),
    read,
    write: Some(write),
};

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::pmtu_reg>(input)?;
    own_port(input.get(field!(pmtu_reg, local_port)))?;
    let mtu = u64::from(hca.vport.port_mtu);
    view_mut::<ifc::pmtu_reg>(output)?
        .set(
            field!(pmtu_reg, max_mtu),
            hca.env.profile.port.max_mtu.into(),
        )
        .set(field!(pmtu_reg, admin_mtu), mtu)
        .set(field!(pmtu_reg, oper_mtu), mtu);
    Ok(())
}

fn write(hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::pmtu_reg>(input)?;
    own_port(input.get(field!(pmtu_reg, local_port)))?;
    let mtu = input.get(field!(pmtu_reg, admin_mtu));
    let max = hca.env.profile.port.max_mtu;
    if !(MIN..=u64::from(max)).contains(&mtu) {
        refuse!(BadParam, 0x30, "PMTU: {mtu} is not between {MIN} and {max}");
    }
    // CAST: 16 bits.
    hca.vport.port_mtu = mtu as u16;
    Ok(())
}
