// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PPCNT: counters of the port, in groups.
//!
//! What the cable of the model cannot do (symbol errors) counts zero, and so do pauses sent: the model takes every
//! frame at once.

use mlx5_hw::{
    field,
    field::{Field, Mut},
    ifc, raw, span,
};

use super::{own_port, view, Register};
use crate::{
    cmd::Refused,
    hca::Hca,
    layout::Described,
    refuse,
    vport::{Direction, Traffic},
};

/// The register. Counters cannot be written, only cleared by driver-visible resets.
pub const PPCNT: Register = Register {
    id: 0x5008,
    name: "PPCNT",
    len: ifc::ppcnt_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::ppcnt_reg::LAYOUT),
    read,
    write: None,
};

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::ppcnt_reg>(input)?;
    own_port(input.get(field!(ppcnt_reg, local_port)))?;
    if input.flag(field!(ppcnt_reg, clr)) {
        refuse!(BadParam, 0x50, "PPCNT: clearing is not offered");
    }
    let group = input.get32(field!(ppcnt_reg, grp));
    let start = span!(ppcnt_reg, counter_set).offset();
    let set = output.get_mut(start..).unwrap_or_default();
    let (rx, tx) = (hca.vport.received, hca.vport.sent);
    match group {
        raw::MLX5_IEEE_802_3_COUNTERS_GROUP => ieee(set, &rx, &tx),
        raw::MLX5_RFC_2863_COUNTERS_GROUP => rfc2863(set, &rx, &tx),
        raw::MLX5_RFC_2819_COUNTERS_GROUP => rfc2819(set, &rx),
        raw::MLX5_PER_PRIORITY_COUNTERS_GROUP => {
            let priority = input.get(field!(ppcnt_reg, prio_tc));
            priorities(set, priority, &rx, &tx)?;
        }
        raw::MLX5_RFC_3635_COUNTERS_GROUP
        | raw::MLX5_ETHERNET_EXTENDED_COUNTERS_GROUP
        | raw::MLX5_PER_TRAFFIC_CLASS_COUNTERS_GROUP
        | raw::MLX5_PHYSICAL_LAYER_COUNTERS_GROUP => {}
        other => refuse!(BadParam, 0x51, "PPCNT: group {other:#x} is not offered"),
    }
    Ok(())
}

/// A 64-bit counter in two dwords.
fn wide<L>(set: &mut Mut<'_, L>, high: Field<L>, low: Field<L>, value: u64) {
    set.set(high, value >> 32).set(low, value & 0xffff_ffff);
}

fn group(direction: &Direction) -> (Traffic, Traffic) {
    let multicast = Traffic {
        packets: direction.eth_multicast.packets + direction.ib_multicast.packets,
        octets: direction.eth_multicast.octets + direction.ib_multicast.octets,
    };
    (multicast, direction.eth_broadcast)
}

fn ieee(set: &mut [u8], rx: &Direction, tx: &Direction) {
    let Some(mut set) = Mut::<ifc::eth_802_3_cntrs_grp_data_layout>::new(set) else {
        return;
    };
    macro_rules! put {
        ($high:ident, $low:ident, $value:expr) => {
            wide(
                &mut set,
                field!(eth_802_3_cntrs_grp_data_layout, $high),
                field!(eth_802_3_cntrs_grp_data_layout, $low),
                $value,
            )
        };
    }
    let ((rx_mc, rx_bc), (tx_mc, tx_bc)) = (group(rx), group(tx));
    put!(
        a_frames_transmitted_ok_high,
        a_frames_transmitted_ok_low,
        tx.total().packets
    );
    put!(
        a_frames_received_ok_high,
        a_frames_received_ok_low,
        rx.total().packets
    );
    put!(
        a_octets_transmitted_ok_high,
        a_octets_transmitted_ok_low,
        tx.total().octets
    );
    put!(
        a_octets_received_ok_high,
        a_octets_received_ok_low,
        rx.total().octets
    );
    put!(
        a_multicast_frames_xmitted_ok_high,
        a_multicast_frames_xmitted_ok_low,
        tx_mc.packets
    );
    put!(
        a_broadcast_frames_xmitted_ok_high,
        a_broadcast_frames_xmitted_ok_low,
        tx_bc.packets
    );
    put!(
        a_multicast_frames_received_ok_high,
        a_multicast_frames_received_ok_low,
        rx_mc.packets
    );
    put!(
        a_broadcast_frames_received_ok_high,
        a_broadcast_frames_received_ok_low,
        rx_bc.packets
    );
    put!(
        a_pause_mac_ctrl_frames_received_high,
        a_pause_mac_ctrl_frames_received_low,
        rx.link_pauses
    );
    put!(
        a_frame_too_long_errors_high,
        a_frame_too_long_errors_low,
        rx.too_long
    );
}

fn rfc2863(set: &mut [u8], rx: &Direction, tx: &Direction) {
    let Some(mut set) = Mut::<ifc::eth_2863_cntrs_grp_data_layout>::new(set) else {
        return;
    };
    macro_rules! put {
        ($high:ident, $low:ident, $value:expr) => {
            wide(
                &mut set,
                field!(eth_2863_cntrs_grp_data_layout, $high),
                field!(eth_2863_cntrs_grp_data_layout, $low),
                $value,
            )
        };
    }
    let ((rx_mc, rx_bc), (tx_mc, tx_bc)) = (group(rx), group(tx));
    let unicast = |one: &Direction| one.eth_unicast.packets + one.ib_unicast.packets;
    put!(if_in_octets_high, if_in_octets_low, rx.total().octets);
    put!(if_in_ucast_pkts_high, if_in_ucast_pkts_low, unicast(rx));
    put!(if_out_octets_high, if_out_octets_low, tx.total().octets);
    put!(if_out_ucast_pkts_high, if_out_ucast_pkts_low, unicast(tx));
    put!(
        if_in_multicast_pkts_high,
        if_in_multicast_pkts_low,
        rx_mc.packets
    );
    put!(
        if_in_broadcast_pkts_high,
        if_in_broadcast_pkts_low,
        rx_bc.packets
    );
    put!(
        if_out_multicast_pkts_high,
        if_out_multicast_pkts_low,
        tx_mc.packets
    );
    put!(
        if_out_broadcast_pkts_high,
        if_out_broadcast_pkts_low,
        tx_bc.packets
    );
}

/// What came in, by size.
fn rfc2819(set: &mut [u8], rx: &Direction) {
    let Some(mut set) = Mut::<ifc::eth_2819_cntrs_grp_data_layout>::new(set) else {
        return;
    };
    macro_rules! put {
        ($high:ident, $low:ident, $value:expr) => {
            wide(
                &mut set,
                field!(eth_2819_cntrs_grp_data_layout, $high),
                field!(eth_2819_cntrs_grp_data_layout, $low),
                $value,
            )
        };
    }
    let (multicast, broadcast) = group(rx);
    put!(
        ether_stats_octets_high,
        ether_stats_octets_low,
        rx.total().octets
    );
    put!(
        ether_stats_pkts_high,
        ether_stats_pkts_low,
        rx.total().packets
    );
    put!(
        ether_stats_broadcast_pkts_high,
        ether_stats_broadcast_pkts_low,
        broadcast.packets
    );
    put!(
        ether_stats_multicast_pkts_high,
        ether_stats_multicast_pkts_low,
        multicast.packets
    );
    let [s64, s127, s255, s511, s1023, s1518, s2047, s4095, s8191, s10239] = rx.sizes;
    put!(
        ether_stats_pkts64octets_high,
        ether_stats_pkts64octets_low,
        s64
    );
    put!(
        ether_stats_pkts65to127octets_high,
        ether_stats_pkts65to127octets_low,
        s127
    );
    put!(
        ether_stats_pkts128to255octets_high,
        ether_stats_pkts128to255octets_low,
        s255
    );
    put!(
        ether_stats_pkts256to511octets_high,
        ether_stats_pkts256to511octets_low,
        s511
    );
    put!(
        ether_stats_pkts512to1023octets_high,
        ether_stats_pkts512to1023octets_low,
        s1023
    );
    put!(
        ether_stats_pkts1024to1518octets_high,
        ether_stats_pkts1024to1518octets_low,
        s1518
    );
    put!(
        ether_stats_pkts1519to2047octets_high,
        ether_stats_pkts1519to2047octets_low,
        s2047
    );
    put!(
        ether_stats_pkts2048to4095octets_high,
        ether_stats_pkts2048to4095octets_low,
        s4095
    );
    put!(
        ether_stats_pkts4096to8191octets_high,
        ether_stats_pkts4096to8191octets_low,
        s8191
    );
    put!(
        ether_stats_pkts8192to10239octets_high,
        ether_stats_pkts8192to10239octets_low,
        s10239
    );
}

/// What passed with one priority.
fn priorities(
    set: &mut [u8],
    priority: u64,
    rx: &Direction,
    tx: &Direction,
) -> Result<(), Refused> {
    // CAST: five bits.
    let index = priority as usize;
    let of = |direction: &Direction| direction.priorities.get(index).copied();
    let pauses = rx.pauses.get(index).copied();
    let (Some(rx), Some(tx), Some(pauses)) = (of(rx), of(tx), pauses) else {
        refuse!(BadParam, 0x52, "PPCNT: priority {priority}");
    };
    let Some(mut set) = Mut::<ifc::eth_per_prio_grp_data_layout>::new(set) else {
        return Ok(());
    };
    macro_rules! put {
        ($high:ident, $low:ident, $value:expr) => {
            wide(
                &mut set,
                field!(eth_per_prio_grp_data_layout, $high),
                field!(eth_per_prio_grp_data_layout, $low),
                $value,
            )
        };
    }
    put!(rx_octets_high, rx_octets_low, rx.octets);
    put!(rx_frames_high, rx_frames_low, rx.packets);
    put!(tx_octets_high, tx_octets_low, tx.octets);
    put!(tx_frames_high, tx_frames_low, tx.packets);
    put!(rx_pause_high, rx_pause_low, pauses);
    Ok(())
}
