// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PFCC: flow control of the port.
//!
//! The model takes every frame at once, so it never has a reason to send a pause, and it does not
//! obey one: flow control is off and cannot be switched on.

use mlx5_hw::{field, ifc};

use super::{own_port, view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// The register.
pub const PFCC: Register = Register {
    id: 0x5007,
    name: "PFCC",
    len: ifc::pfcc_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::pfcc_reg::LAYOUT),
    read,
    write: Some(write),
};

fn read(_hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let port = view::<ifc::pfcc_reg>(input)?.get(field!(pfcc_reg, local_port));
    own_port(port)?;
    output.fill(0);
    view_mut::<ifc::pfcc_reg>(output)?.set(field!(pfcc_reg, local_port), port);
    Ok(())
}

fn write(_hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::pfcc_reg>(input)?;
    own_port(input.get(field!(pfcc_reg, local_port)))?;
    let wanted = [
        (field!(pfcc_reg, pptx), "pptx"),
        (field!(pfcc_reg, aptx), "aptx"),
        (field!(pfcc_reg, pfctx), "pfctx"),
        (field!(pfcc_reg, pprx), "pprx"),
        (field!(pfcc_reg, aprx), "aprx"),
        (field!(pfcc_reg, pfcrx), "pfcrx"),
    ];
    for (switch, name) in wanted {
        if input.flag(switch) {
            refuse!(BadParam, 0x60, "PFCC: {name}: flow control is not offered");
        }
    }
    Ok(())
}
