// SPDX-License-Identifier: GPL-2.0
//! How the port treats priorities: registers QTCT, QETCR, QPTS and QPDPM.
//!
//! A frame has the priority of its VLAN tag, or of its DSCP when the port trusts that. The priority names a
//! traffic class; classes belong to groups, of which higher ones are served first, and share within a group.
//! Source: core/port.c, core/en_dcbnl.c.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        bytes_of,
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use crate::{
    cmd::Cmd,
    port::register, //
};

/// Priorities, and classes at most.
pub(super) const COUNT: usize = 8;
/// Values of a DSCP.
pub(super) const CODE_POINTS: usize = 64;
/// Bytes of the entry of a DSCP.
const CODE_POINT: usize = 2;
/// Bit of it: the entry is to be changed.
const CHANGE: u16 = 1 << 15;
/// What a port believes: `enum mlx5_qpts_trust_state` in include/linux/mlx5/driver.h.
const TRUST_TAG: u64 = 1;
const TRUST_CODE_POINT: u64 = 2;

/// Which field of a frame the port believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The priority in the tag.
    Tag,
    /// The DSCP of IP packets.
    CodePoint,
}

/// Most that may leave in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rate {
    /// `MLX5_BW_NO_LIMIT`, `MLX5_100_MBPS_UNIT` or `MLX5_GBPS_UNIT`.
    pub(super) unit: u8,
    /// So many units.
    pub(super) value: u16,
}

/// How a class is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Class {
    /// Its group.
    pub(super) group: u8,
    /// Its share of what the group gets, in percent.
    pub(super) share: u8,
    /// Its limit.
    pub(super) rate: Rate,
}

/// What of a class to set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aspect {
    Group,
    Share,
    Rate,
}

/// The class of a priority. Sleeps.
pub(super) fn class_of(cmd: &Cmd, priority: u8) -> Result<u8> {
    let content = register::read::<ifc::qtct_reg>(cmd, raw::MLX5_REG_QTCT, |register| {
        register
            .set(field!(qtct_reg, port_number), 1)
            .set(field!(qtct_reg, prio), priority.into());
    })?;
    // CAST: three bits.
    Ok(content.fields()?.get(field!(qtct_reg, tclass)) as u8)
}

/// Another class for a priority. Sleeps.
pub(super) fn set_class_of(cmd: &Cmd, priority: u8, class: u8) -> Result {
    register::write::<ifc::qtct_reg>(cmd, raw::MLX5_REG_QTCT, |register| {
        register
            .set(field!(qtct_reg, port_number), 1)
            .set(field!(qtct_reg, prio), priority.into())
            .set(field!(qtct_reg, tclass), class.into());
    })
}

/// How all classes are served. Sleeps.
pub(super) fn classes(cmd: &Cmd) -> Result<[Class; COUNT]> {
    let content = register::read::<ifc::qetc_reg>(cmd, raw::MLX5_REG_QETCR, |register| {
        register.set(field!(qetc_reg, port_number), 1);
    })?;
    let fields = content.fields()?;
    let bytes = fields.raw(span!(qetc_reg, tc_configuration));
    let mut classes = [Class::default(); COUNT];
    let entries = bytes.chunks_exact(bytes_of::<ifc::ets_tcn_config_reg>());
    for (class, entry) in classes.iter_mut().zip(entries) {
        let entry = Ref::<ifc::ets_tcn_config_reg>::new(entry).ok_or(EPROTO)?;
        // CAST, four times: 4, 7, 4 and 16 bits.
        *class = Class {
            group: entry.get(field!(ets_tcn_config_reg, group)) as u8,
            share: entry.get(field!(ets_tcn_config_reg, bw_allocation)) as u8,
            rate: Rate {
                unit: entry.get(field!(ets_tcn_config_reg, max_bw_units)) as u8,
                value: entry.get(field!(ets_tcn_config_reg, max_bw_value)) as u16,
            },
        };
    }
    Ok(classes)
}

/// Sets one aspect of all classes; the others stay. Sleeps.
pub(super) fn set_classes(cmd: &Cmd, classes: &[Class; COUNT], aspect: Aspect) -> Result {
    register::write::<ifc::qetc_reg>(cmd, raw::MLX5_REG_QETCR, |register| {
        register.set(field!(qetc_reg, port_number), 1);
        let bytes = register.raw(span!(qetc_reg, tc_configuration));
        let entries = bytes.chunks_exact_mut(bytes_of::<ifc::ets_tcn_config_reg>());
        for (class, entry) in classes.iter().zip(entries) {
            let Some(mut entry) = Mut::<ifc::ets_tcn_config_reg>::new(entry) else {
                continue;
            };
            match aspect {
                Aspect::Group => entry
                    .set_flag(field!(ets_tcn_config_reg, g), true)
                    .set(field!(ets_tcn_config_reg, group), class.group.into()),
                Aspect::Share => entry.set_flag(field!(ets_tcn_config_reg, b), true).set(
                    field!(ets_tcn_config_reg, bw_allocation),
                    class.share.into(),
                ),
                Aspect::Rate => entry
                    .set_flag(field!(ets_tcn_config_reg, r), true)
                    .set(
                        field!(ets_tcn_config_reg, max_bw_units),
                        class.rate.unit.into(),
                    )
                    .set(
                        field!(ets_tcn_config_reg, max_bw_value),
                        class.rate.value.into(),
                    ),
            };
        }
    })
}

/// Makes the port believe something else. Sleeps.
pub(super) fn set_trust(cmd: &Cmd, trust: Trust) -> Result {
    let state = match trust {
        Trust::Tag => TRUST_TAG,
        Trust::CodePoint => TRUST_CODE_POINT,
    };
    register::write::<ifc::qpts_reg>(cmd, raw::MLX5_REG_QPTS, |register| {
        register
            .set(field!(qpts_reg, local_port), 1)
            .set(field!(qpts_reg, trust_state), state);
    })
}

/// Another priority for a DSCP below [`CODE_POINTS`]. Sleeps.
pub(super) fn set_priority_of(cmd: &Cmd, code_point: u8, priority: u8) -> Result {
    let content = register::read::<ifc::qpdpm_reg>(cmd, raw::MLX5_REG_QPDPM, |register| {
        register.set(field!(qpdpm_reg, local_port), 1);
    })?;
    let fields = content.fields()?;
    let before = fields.raw(span!(qpdpm_reg, dscp));
    register::write::<ifc::qpdpm_reg>(cmd, raw::MLX5_REG_QPDPM, |register| {
        register.set(field!(qpdpm_reg, local_port), 1);
        let bytes = register.raw(span!(qpdpm_reg, dscp));
        bytes.copy_from_slice(before);
        let at = usize::from(code_point) * CODE_POINT;
        if let Some(entry) = bytes.get_mut(at..at + CODE_POINT) {
            entry.copy_from_slice(&(CHANGE | u16::from(priority)).to_be_bytes());
        }
    })
}
