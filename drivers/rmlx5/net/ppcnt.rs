// SPDX-License-Identifier: GPL-2.0
//! What the port has counted: register PPCNT.
//!
//! Counters are 64 bits wide, in two dwords. Source: `ppcnt_reg` of mlx5_ifc.h, core/en_stats.c (which counter is
//! which name).

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        bytes_of,
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

/// What the port has counted of a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Frames that came, and their octets.
    pub(super) rx_packets: u64,
    pub(super) rx_bytes: u64,
    /// Frames that left, and their octets.
    pub(super) tx_packets: u64,
    pub(super) tx_bytes: u64,
    /// Pauses of the priority that came and left.
    pub(super) rx_pause: u64,
    pub(super) tx_pause: u64,
}

/// Reads a group and hands its set of counters, laid out as `L`, to `take`. Sleeps.
fn group<L, T>(
    cmd: &Cmd,
    number: u32,
    priority: u8,
    take: impl FnOnce(Ref<'_, L>) -> T,
) -> Result<T> {
    let content = register::read::<ifc::ppcnt_reg>(cmd, raw::MLX5_REG_PPCNT, |register| {
        register
            .set(field!(ppcnt_reg, local_port), 1)
            .set(field!(ppcnt_reg, grp), number.into())
            .set(field!(ppcnt_reg, prio_tc), priority.into());
    })?;
    let fields = content.fields()?;
    let set = fields.raw(span!(ppcnt_reg, counter_set));
    let set = set.get(..bytes_of::<L>()).ok_or(EPROTO)?;
    Ok(take(Ref::<L>::new(set).ok_or(EPROTO)?))
}

macro_rules! wide {
    ($set:ident: $layout:ident, $high:ident, $low:ident) => {
        $set.get(field!($layout, $high)) << 32 | $set.get(field!($layout, $low))
    };
}

/// Counters of a priority. Sleeps.
pub(super) fn traffic(cmd: &Cmd, priority: u8) -> Result<Traffic> {
    let number = raw::MLX5_PER_PRIORITY_COUNTERS_GROUP;
    group::<ifc::eth_per_prio_grp_data_layout, _>(cmd, number, priority, |set| {
        macro_rules! counter {
            ($high:ident, $low:ident) => {
                wide!(set: eth_per_prio_grp_data_layout, $high, $low)
            };
        }
        Traffic {
            rx_packets: counter!(rx_frames_high, rx_frames_low),
            rx_bytes: counter!(rx_octets_high, rx_octets_low),
            tx_packets: counter!(tx_frames_high, tx_frames_low),
            tx_bytes: counter!(tx_octets_high, tx_octets_low),
            rx_pause: counter!(rx_pause_high, rx_pause_low),
            tx_pause: counter!(tx_pause_high, tx_pause_low),
        }
    })
}

/// What the port has counted of the whole link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// Frames that it dropped because they are longer than its MTU.
    pub(super) too_long: u64,
    /// Pauses of the whole link that came and left.
    pub(super) rx_pause: u64,
    pub(super) tx_pause: u64,
}

/// Counters of the whole link. Sleeps.
pub(super) fn link(cmd: &Cmd) -> Result<Link> {
    let number = raw::MLX5_IEEE_802_3_COUNTERS_GROUP;
    group::<ifc::eth_802_3_cntrs_grp_data_layout, _>(cmd, number, 0, |set| {
        macro_rules! counter {
            ($high:ident, $low:ident) => {
                wide!(set: eth_802_3_cntrs_grp_data_layout, $high, $low)
            };
        }
        Link {
            too_long: counter!(a_frame_too_long_errors_high, a_frame_too_long_errors_low),
            rx_pause: counter!(
                a_pause_mac_ctrl_frames_received_high,
                a_pause_mac_ctrl_frames_received_low
            ),
            tx_pause: counter!(
                a_pause_mac_ctrl_frames_transmitted_high,
                a_pause_mac_ctrl_frames_transmitted_low
            ),
        }
    })
}
