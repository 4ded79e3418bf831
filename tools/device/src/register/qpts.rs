// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QPTS: which field of a frame says its priority.

use mlx5_hw::{field, ifc};

use super::{own_port, view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, priority::Trust, refuse};

/// The register.
pub const QPTS: Register = Register {
    id: 0x4002,
    name: "QPTS",
    len: ifc::qpts_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::qpts_reg::LAYOUT),
    read,
    write: Some(write),
};

/// `MLX5_QPTS_TRUST_PCP` and `MLX5_QPTS_TRUST_DSCP` of include/linux/mlx5/driver.h.
const TRUST_PCP: u32 = 1;
const TRUST_DSCP: u32 = 2;

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    own_port(view::<ifc::qpts_reg>(input)?.get(field!(qpts_reg, local_port)))?;
    let state = match hca.priorities.trust {
        Trust::Pcp => TRUST_PCP,
        Trust::Dscp => TRUST_DSCP,
    };
    view_mut::<ifc::qpts_reg>(output)?.set(field!(qpts_reg, trust_state), state.into());
    Ok(())
}

fn write(hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::qpts_reg>(input)?;
    own_port(input.get(field!(qpts_reg, local_port)))?;
    hca.priorities.trust = match input.get32(field!(qpts_reg, trust_state)) {
        TRUST_PCP => Trust::Pcp,
        TRUST_DSCP => Trust::Dscp,
        other => refuse!(BadParam, 0x82, "QPTS: trust state {other}"),
    };
    Ok(())
}
