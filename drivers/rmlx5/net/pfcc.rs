// SPDX-License-Identifier: GPL-2.0
//! Flow control of the port: register PFCC.
//!
//! Pauses of the whole link and of single priorities exclude each other on a link (IEEE 802.1Q, annex O): who
//! switches one on switches the other off first. Source: `mlx5_set_port_pause`, `mlx5_set_port_pfc` in
//! core/port.c.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    ifc,
    raw, //
};

use crate::{
    cmd::Cmd,
    port::register, //
};

/// Pauses of the whole link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pause {
    /// The port obeys them.
    pub(super) rx: bool,
    /// The port sends them.
    pub(super) tx: bool,
}

/// What is in force. Sleeps.
pub(super) fn pause(cmd: &Cmd) -> Result<Pause> {
    let content = register::read::<ifc::pfcc_reg>(cmd, raw::MLX5_REG_PFCC, |register| {
        register.set(field!(pfcc_reg, local_port), 1);
    })?;
    let register = content.fields()?;
    Ok(Pause {
        rx: register.flag(field!(pfcc_reg, pprx)),
        tx: register.flag(field!(pfcc_reg, pptx)),
    })
}

/// Sets pauses of the whole link; those of priorities stay. Sleeps.
pub(super) fn set_pause(cmd: &Cmd, wanted: Pause) -> Result {
    register::write::<ifc::pfcc_reg>(cmd, raw::MLX5_REG_PFCC, |register| {
        register
            .set(field!(pfcc_reg, local_port), 1)
            .set_flag(field!(pfcc_reg, pprx), wanted.rx)
            .set_flag(field!(pfcc_reg, pptx), wanted.tx);
    })
}

/// Which priorities can be paused, a bit each. Sleeps.
pub(super) fn priorities(cmd: &Cmd) -> Result<u8> {
    let content = register::read::<ifc::pfcc_reg>(cmd, raw::MLX5_REG_PFCC, |register| {
        register.set(field!(pfcc_reg, local_port), 1);
    })?;
    // CAST: 8 bits.
    Ok(content.fields()?.get(field!(pfcc_reg, pfctx)) as u8)
}

/// Lets other priorities be paused, both ways. Sleeps.
pub(super) fn set_priorities(cmd: &Cmd, enabled: u8) -> Result {
    register::write::<ifc::pfcc_reg>(cmd, raw::MLX5_REG_PFCC, |register| {
        register
            .set(field!(pfcc_reg, local_port), 1)
            .set(field!(pfcc_reg, pfctx), enabled.into())
            .set(field!(pfcc_reg, pfcrx), enabled.into())
            .set(field!(pfcc_reg, prio_mask_tx), 0xff)
            .set(field!(pfcc_reg, prio_mask_rx), 0xff);
    })
}
