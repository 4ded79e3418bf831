// SPDX-License-Identifier: GPL-2.0
//! The MTU of the port: register PMTU. Numbers are bytes on the wire, with Ethernet header, tag and
//! check sequence.
//!
//! Source: `mlx5_query_port_mtu`, `mlx5_set_port_mtu` in core/port.c, `MLX5E_ETH_HARD_MTU` in core/en.h.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        bytes_of,
        Mut,
        Ref, //
    },
    ifc,
    raw, //
};

use crate::cmd::{
    Cmd,
    Command, //
};

/// Ethernet header, one tag, check sequence.
const AROUND: u32 = 14 + 4 + 4;

struct AccessPmtu {
    write: Option<u16>,
}

/// What the register says.
struct Pmtu {
    max: u16,
    admin: u16,
    oper: u16,
}

impl Command for AccessPmtu {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ACCESS_REG;
    type In = ifc::access_register_in;
    type Out = ifc::access_register_out;
    type Output = Pmtu;

    fn op_mod(&self) -> u16 {
        // CAST: 0 or 1.
        (match self.write {
            Some(_) => raw::MLX5_ACCESS_REGISTER_IN_OP_MOD_WRITE,
            None => raw::MLX5_ACCESS_REGISTER_IN_OP_MOD_READ,
        }) as u16
    }

    fn in_tail(&self) -> usize {
        bytes_of::<ifc::pmtu_reg>()
    }

    fn out_tail(&self) -> usize {
        bytes_of::<ifc::pmtu_reg>()
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(
            field!(access_register_in, register_id),
            raw::MLX5_REG_PMTU.into(),
        );
        let mut register = Mut::<ifc::pmtu_reg>::new(input.tail()).ok_or(EINVAL)?;
        register.set(field!(pmtu_reg, local_port), 1);
        if let Some(mtu) = self.write {
            register.set(field!(pmtu_reg, admin_mtu), mtu.into());
        }
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Pmtu> {
        let register = output.bytes().get(bytes_of::<Self::Out>()..)?;
        let register = Ref::<ifc::pmtu_reg>::new(register)?;
        // CAST, thrice: 16-bit fields.
        Some(Pmtu {
            max: register.get(field!(pmtu_reg, max_mtu)) as u16,
            admin: register.get(field!(pmtu_reg, admin_mtu)) as u16,
            oper: register.get(field!(pmtu_reg, oper_mtu)) as u16,
        })
    }
}

/// The largest MTU of an interface on this port, without headers. Sleeps.
pub(super) fn max(cmd: &Cmd) -> Result<u32> {
    let pmtu = cmd.exec(&AccessPmtu { write: None })?;
    Ok(u32::from(pmtu.max).saturating_sub(AROUND))
}

/// Whether frames of an interface's MTU pass. Sleeps.
pub(super) fn passes(cmd: &Cmd, mtu: u32) -> Result<bool> {
    let pmtu = cmd.exec(&AccessPmtu { write: None })?;
    Ok(u32::from(pmtu.oper) >= mtu.saturating_add(AROUND))
}

/// Lets frames of an interface's MTU through; a port that does so already is left alone. Sleeps.
///
/// `ERANGE` when the port does not take it.
pub(super) fn set(cmd: &Cmd, mtu: u32) -> Result {
    let wire = u16::try_from(mtu.saturating_add(AROUND)).map_err(|_| ERANGE)?;
    super::vport::set_mtu(cmd, wire)?;
    let before = cmd.exec(&AccessPmtu { write: None })?;
    if before.admin == wire && before.oper == wire {
        return Ok(());
    }
    cmd.exec(&AccessPmtu { write: Some(wire) })?;
    // The port may not have taken it.
    let now = cmd.exec(&AccessPmtu { write: None })?;
    if now.oper < wire {
        return Err(ERANGE);
    }
    Ok(())
}
