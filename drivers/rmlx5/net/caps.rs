// SPDX-License-Identifier: GPL-2.0
//! What the card offers an Ethernet interface, read once a generation when the interface needs it.
//!
//! Source: `mlx5_ifc_per_protocol_networking_offload_caps_bits`, `mlx5_ifc_flow_table_nic_cap_bits`.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::Ref,
    ifc, //
};

use super::vlans;
use crate::{
    caps::{
        Caps,
        Group,
        QueryHcaCap,
        Which, //
    },
    cmd::Cmd,
};

/// Addresses that the address table holds at most, as a log.
const LOG_MAX_ADDRESSES: u8 = 10;

/// Validated capabilities of the Ethernet interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EthCaps {
    /// Checksums both ways.
    pub(super) checksum: bool,
    /// Customer tags can be stripped.
    pub(super) vlan: bool,
    /// Bytes of the largest packet that is cut into segments; 0 when there is no such thing.
    pub(super) max_lso: u32,
    /// Send queues state their inline mode.
    pub(super) vport_inline_mode: bool,
    /// log2 of the entries of the largest work queue.
    pub(super) log_max_wq: u8,
    /// log2 of the entries of the largest RQT.
    pub(super) log_max_rqt: u8,
    /// log2 of the entries of the address table.
    pub(super) log_addresses: u8,
    /// Tables for VLANs fit in.
    pub(super) vlan_filter: bool,
    /// Classes of traffic; 0 where they are not this function's to set.
    pub(super) classes: u8,
    /// Unicast addresses that the vport keeps.
    pub(super) max_unicast: u32,
    /// Groups that the vport keeps.
    pub(super) max_multicast: u32,
}

/// Levels of tables: rules of users, addresses, VLANs, kinds of traffic.
const LEVELS: u64 = 4;
/// Entries of the table that a hash picks from, as the C driver has them, if the card allows as many.
const LOG_TABLE: u8 = 7;

/// `MLX5_CAP_INLINE_MODE_VPORT_CONTEXT` in include/linux/mlx5/driver.h.
const INLINE_MODE_VPORT: u64 = 2;

fn query(cmd: &Cmd, group: Group) -> Result<KVVec<u8>> {
    Ok(cmd.exec(&QueryHcaCap {
        group,
        which: Which::Current,
    })?)
}

/// The smaller of a value and a limit of at most 8 bits.
fn clamp8(value: u64, max: u8) -> u8 {
    // CAST: clamped.
    value.min(max.into()) as u8
}

impl EthCaps {
    /// log2 of the entries of the table that a hash picks from.
    pub(super) fn log_table(&self) -> u8 {
        self.log_max_rqt.min(LOG_TABLE)
    }

    /// Reads them. `EOPNOTSUPP` when the card is not a network card. Sleeps.
    pub(super) fn read(cmd: &Cmd, general: &Caps) -> Result<Self> {
        if !general.ethernet {
            return Err(EOPNOTSUPP);
        }
        let eth = query(cmd, Group::Ethernet)?;
        let eth = Ref::<ifc::per_protocol_networking_offload_caps>::new(&eth).ok_or(EPROTO)?;
        let flow = query(cmd, Group::NicFlowTable)?;
        let flow = Ref::<ifc::flow_table_nic_cap>::new(&flow).ok_or(EPROTO)?;
        let log_table = flow.get(field!(
            flow_table_nic_cap,
            flow_table_properties_nic_receive.log_max_ft_size
        ));
        if !flow.flag(field!(
            flow_table_nic_cap,
            flow_table_properties_nic_receive.ft_support
        )) || log_table < 4
        {
            return Err(EOPNOTSUPP);
        }
        macro_rules! offload {
            ($member:ident) => {
                eth.get(field!(per_protocol_networking_offload_caps, $member))
            };
        }
        let max_lso = offload!(max_lso_cap);
        Ok(Self {
            checksum: offload!(csum_cap) != 0,
            vlan: offload!(vlan_cap) != 0,
            // The length of a packet has 16 bits or a little more; 5 bits are a log.
            max_lso: if max_lso == 0 {
                0
            } else {
                1 << max_lso.min(18)
            },
            vport_inline_mode: offload!(wqe_inline_mode) == INLINE_MODE_VPORT,
            log_max_wq: general.log_max_wq,
            log_max_rqt: general.log_max_rqt,
            // Room is left for the two entries that match groups and everything.
            log_addresses: clamp8(log_table - 1, LOG_MAX_ADDRESSES),
            vlan_filter: log_table >= u64::from(vlans::LOG_PLACES)
                && flow.get(field!(
                    flow_table_nic_cap,
                    flow_table_properties_nic_receive.max_ft_level
                )) >= LEVELS,
            classes: general.classes,
            max_unicast: general.max_unicast,
            max_multicast: general.max_multicast,
        })
    }
}
