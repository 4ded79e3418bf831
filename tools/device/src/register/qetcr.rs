// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QETCR: groups, shares and rates of the traffic classes (enhanced transmission selection).
//!
//! Each entry says which of its parts count. Groups and shares come in two writes
//! (`mlx5e_dcbnl_ieee_setets_core` in core/en_dcbnl.c), so shares are weighed only when shares are written.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use super::{own_port, view, view_mut, Register};
use crate::{
    cmd::Refused,
    hca::Hca,
    layout::Described,
    priority::{Priorities, Rate, COUNT, VENDOR_GROUP},
    refuse,
};

/// The register.
pub const QETCR: Register = Register {
    id: 0x4005,
    name: "QETCR",
    len: ifc::qetc_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::qetc_reg::LAYOUT),
    read,
    write: Some(write),
};

/// Bytes of the entry of a class.
const ENTRY: usize = ifc::ets_tcn_config_reg::LAYOUT.bytes();

/// Whole of the shares, in percent.
const WHOLE: u64 = 100;

/// Traffic classes there are (`mlx5_max_tc` in core/port.c: eight where nothing is said).
pub(super) fn classes(hca: &Hca) -> usize {
    match hca.caps.get(field!(cmd_hca_cap, max_tc)) {
        0 => COUNT,
        // CAST: four bits.
        count => COUNT.min(count as usize),
    }
}

/// The stock driver leaves the port out of most of what it sends (core/port.c).
pub(super) fn port_or_none(port: u64) -> Result<(), Refused> {
    if port == 0 {
        return Ok(());
    }
    own_port(port)
}

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let port = view::<ifc::qetc_reg>(input)?.get(field!(qetc_reg, port_number));
    port_or_none(port)?;
    output.fill(0);
    let all = &hca.priorities;
    let mut output = view_mut::<ifc::qetc_reg>(output)?;
    output.set(field!(qetc_reg, port_number), port).with(
        span!(qetc_reg, global_configuration),
        |global| {
            global
                .set(
                    field!(ets_global_config_reg, max_bw_units),
                    all.rate.unit.into(),
                )
                .set(
                    field!(ets_global_config_reg, max_bw_value),
                    all.rate.value.into(),
                );
        },
    );
    let entries = output.raw(span!(qetc_reg, tc_configuration));
    let there = all.classes.iter().take(classes(hca));
    for (entry, class) in entries.chunks_exact_mut(ENTRY).zip(there) {
        let Some(mut entry) = Mut::<ifc::ets_tcn_config_reg>::new(entry) else {
            continue;
        };
        entry
            .set(field!(ets_tcn_config_reg, group), class.group.into())
            .set(
                field!(ets_tcn_config_reg, bw_allocation),
                class.share.into(),
            )
            .set(
                field!(ets_tcn_config_reg, max_bw_units),
                class.rate.unit.into(),
            )
            .set(
                field!(ets_tcn_config_reg, max_bw_value),
                class.rate.value.into(),
            );
    }
    Ok(())
}

fn rate(unit: u64, value: u64) -> Result<Rate, Refused> {
    // CAST: the unit has four bits, the value eight that count.
    match unit as u32 {
        raw::MLX5_BW_NO_LIMIT => Ok(Rate::default()),
        raw::MLX5_100_MBPS_UNIT | raw::MLX5_GBPS_UNIT => {
            // More needs `qetcr_qshr_max_bw_val_msb` of QCAM.
            if !(1..=u64::from(u8::MAX)).contains(&value) {
                refuse!(BadParam, 0x86, "QETCR: rate of {value} units");
            }
            Ok(Rate {
                unit: unit as u8,
                value: value as u16,
            })
        }
        other => refuse!(BadParam, 0x85, "QETCR: unit {other} of a rate"),
    }
}

fn write(hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::qetc_reg>(input)?;
    port_or_none(input.get(field!(qetc_reg, port_number)))?;
    let (mut now, mut port_rate) = (hca.priorities.classes, hca.priorities.rate);
    let count = classes(hca);
    let mut weigh = false;
    let entries = input.raw(span!(qetc_reg, tc_configuration));
    for (index, (entry, class)) in entries.chunks_exact(ENTRY).zip(&mut now).enumerate() {
        let Some(entry) = Ref::<ifc::ets_tcn_config_reg>::new(entry) else {
            continue;
        };
        let (group, share, limit) = (
            entry.flag(field!(ets_tcn_config_reg, g)),
            entry.flag(field!(ets_tcn_config_reg, b)),
            entry.flag(field!(ets_tcn_config_reg, r)),
        );
        if index >= count && (group || share || limit) {
            refuse!(BadParam, 0x87, "QETCR: class {index} of {count}");
        }
        if group {
            let value = entry.get(field!(ets_tcn_config_reg, group));
            if value > VENDOR_GROUP.into() {
                refuse!(BadParam, 0x88, "QETCR: class {index} in group {value}");
            }
            // CAST: at most 7.
            class.group = value as u8;
        }
        if share {
            let value = entry.get(field!(ets_tcn_config_reg, bw_allocation));
            if !(1..=WHOLE).contains(&value) {
                refuse!(BadParam, 0x89, "QETCR: share of class {index} is {value}");
            }
            // CAST: at most 100.
            class.share = value as u8;
            weigh = true;
        }
        if limit {
            class.rate = rate(
                entry.get(field!(ets_tcn_config_reg, max_bw_units)),
                entry.get(field!(ets_tcn_config_reg, max_bw_value)),
            )?;
        }
    }
    if weigh {
        let there = now.get(..count).unwrap_or_default();
        if let Some(group) = Priorities::unbalanced(there) {
            refuse!(
                BadParam,
                0x8a,
                "QETCR: shares of group {group} are no whole"
            );
        }
    }
    let global = input.sub(span!(qetc_reg, global_configuration));
    if global.flag(field!(ets_global_config_reg, r)) {
        port_rate = rate(
            global.get(field!(ets_global_config_reg, max_bw_units)),
            global.get(field!(ets_global_config_reg, max_bw_value)),
        )?;
    }
    hca.priorities.classes = now;
    hca.priorities.rate = port_rate;
    Ok(())
}
