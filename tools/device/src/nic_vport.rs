// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC vport context: what the driver wants to receive, and its identity.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    vport::own_vport,
};

/// `allowed_list_type`. Source: `enum mlx5_list_type` in include/linux/mlx5/driver.h.
const LIST_UC: u64 = 0;
const LIST_MC: u64 = 1;
const LIST_VLAN: u64 = 2;

/// QUERY_NIC_VPORT_CONTEXT.
pub struct QueryNicVport;

impl Command for QueryNicVport {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_NIC_VPORT_CONTEXT;
    type In = ifc::query_nic_vport_context_in;
    type Out = ifc::query_nic_vport_context_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_vport(
            input.flag(field!(query_nic_vport_context_in, other_vport)),
            input.get(field!(query_nic_vport_context_in, vport_number)),
        )?;
        let kind = input.get(field!(query_nic_vport_context_in, allowed_list_type));
        let vport = &hca.vport;
        let list: Vec<u64> = match kind {
            LIST_UC => vport.uc_list.iter().map(number).collect(),
            LIST_MC => vport.mc_list.iter().map(number).collect(),
            // The VLAN id is in the first dword of an entry.
            LIST_VLAN => vport
                .vlan_list
                .iter()
                .map(|id| u64::from(*id) << 32)
                .collect(),
            other => refuse!(BadParam, 1, "list type {other} is not known"),
        };
        let guid = vport.guid();
        let mac = number(&vport.mac);
        let inline = hca.caps.get(field!(
            per_protocol_networking_offload_caps,
            wqe_inline_mode
        ));
        output.with(span!(query_nic_vport_context_out, nic_vport_context), |c| {
            c.set_flag(field!(nic_vport_context, roce_en), vport.roce_en)
                .set(field!(nic_vport_context, mtu), vport.mtu.into())
                .set(field!(nic_vport_context, system_image_guid), guid)
                .set(field!(nic_vport_context, port_guid), guid)
                .set(field!(nic_vport_context, node_guid), guid)
                .set_flag(field!(nic_vport_context, promisc_uc), vport.promisc_uc)
                .set_flag(field!(nic_vport_context, promisc_mc), vport.promisc_mc)
                .set_flag(field!(nic_vport_context, promisc_all), vport.promisc_all)
                .set(field!(nic_vport_context, allowed_list_type), kind)
                .set(
                    field!(nic_vport_context, allowed_list_size),
                    list.len() as u64,
                )
                .set(
                    field!(nic_vport_context, permanent_address.mac_addr_47_32),
                    mac >> 32,
                )
                .set(
                    field!(nic_vport_context, permanent_address.mac_addr_31_0),
                    mac & 0xffff_ffff,
                );
            // Only a vport-dependent inline mode (2) is told here.
            if inline == 2 {
                c.set(field!(nic_vport_context, min_wqe_inline_mode), 1);
            }
        });
        // As much of the list as the driver has made room for: the size says how much there is.
        let tail = output.raw(span!(
            query_nic_vport_context_out,
            nic_vport_context.current_uc_mac_address
        ));
        for (place, entry) in tail.chunks_exact_mut(8).zip(list) {
            place.copy_from_slice(&entry.to_be_bytes());
        }
        Ok(())
    }
}

fn number(mac: &[u8; 6]) -> u64 {
    mac.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte))
}

/// MODIFY_NIC_VPORT_CONTEXT.
pub struct ModifyNicVport;

impl Command for ModifyNicVport {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT;
    type In = ifc::modify_nic_vport_context_in;
    type Out = ifc::modify_nic_vport_context_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_vport(
            input.flag(field!(modify_nic_vport_context_in, other_vport)),
            input.get(field!(modify_nic_vport_context_in, vport_number)),
        )?;
        let select = input.sub(span!(modify_nic_vport_context_in, field_select));
        let context = input.sub(span!(modify_nic_vport_context_in, nic_vport_context));
        unsupported(select)?;
        let mtu = context.get(field!(nic_vport_context, mtu));
        if select.flag(field!(modify_nic_vport_field_select, mtu)) {
            let max = hca.env.profile.port.max_mtu;
            if mtu == 0 || mtu > max.into() {
                refuse!(BadParam, 3, "MTU {mtu}, the port allows {max}");
            }
        }
        // Last of the checks, because it changes the lists.
        if select.flag(field!(modify_nic_vport_field_select, addresses_list)) {
            set_list(hca, context)?;
        }
        let vport = &mut hca.vport;
        if select.flag(field!(modify_nic_vport_field_select, mtu)) {
            // CAST: 16 bits.
            vport.mtu = mtu as u16;
        }
        if select.flag(field!(modify_nic_vport_field_select, promisc)) {
            vport.promisc_uc = context.flag(field!(nic_vport_context, promisc_uc));
            vport.promisc_mc = context.flag(field!(nic_vport_context, promisc_mc));
            vport.promisc_all = context.flag(field!(nic_vport_context, promisc_all));
        }
        if select.flag(field!(modify_nic_vport_field_select, roce_en)) {
            vport.roce_en = context.flag(field!(nic_vport_context, roce_en));
        }
        Ok(())
    }
}

fn unsupported(select: Ref<'_, ifc::modify_nic_vport_field_select>) -> Result<(), Refused> {
    let others = [
        (
            field!(modify_nic_vport_field_select, affiliation),
            "affiliation",
        ),
        (
            field!(modify_nic_vport_field_select, node_guid),
            "node_guid",
        ),
        (
            field!(modify_nic_vport_field_select, port_guid),
            "port_guid",
        ),
        (
            field!(modify_nic_vport_field_select, min_inline),
            "min_inline",
        ),
        (
            field!(modify_nic_vport_field_select, change_event),
            "change_event",
        ),
        (
            field!(modify_nic_vport_field_select, permanent_address),
            "permanent_address",
        ),
        (
            field!(modify_nic_vport_field_select, disable_uc_local_lb),
            "disable_uc_local_lb",
        ),
        (
            field!(modify_nic_vport_field_select, disable_mc_local_lb),
            "disable_mc_local_lb",
        ),
    ];
    for (selector, name) in others {
        if select.flag(selector) {
            refuse!(BadParam, 2, "{name} cannot be changed");
        }
    }
    Ok(())
}

fn set_list(hca: &mut Hca, context: Ref<'_, ifc::nic_vport_context>) -> Result<(), Refused> {
    let kind = context.get(field!(nic_vport_context, allowed_list_type));
    let size = context.get(field!(nic_vport_context, allowed_list_size));
    let list = context.raw(span!(nic_vport_context, current_uc_mac_address));
    if list.len() as u64 != 8 * size {
        refuse!(
            BadInputLen,
            4,
            "a list of {size} entries and {} bytes",
            list.len()
        );
    }
    let limit = match kind {
        LIST_UC => hca.caps.pow(field!(cmd_hca_cap, log_max_current_uc_list)),
        LIST_MC => hca.caps.pow(field!(cmd_hca_cap, log_max_current_mc_list)),
        LIST_VLAN => hca.caps.pow(field!(cmd_hca_cap, log_max_vlan_list)),
        other => refuse!(BadParam, 5, "list type {other} is not known"),
    };
    if size > limit {
        refuse!(BadParam, 6, "{size} entries, the limit is {limit}");
    }
    if kind == LIST_VLAN {
        let ids = list.chunks_exact(8).map(|raw| {
            let id = raw.iter().skip(2).take(2);
            id.fold(0u16, |id, byte| id << 8 | u16::from(*byte))
        });
        hca.vport.vlan_list = ids.collect();
        return Ok(());
    }
    let macs: Vec<[u8; 6]> = list
        .chunks_exact(8)
        .filter_map(|raw| raw.last_chunk().copied())
        .collect();
    let group = kind == LIST_MC;
    if let Some(bad) = macs.iter().find(|mac| (mac[0] & 1 == 1) != group) {
        refuse!(BadParam, 7, "{bad:02x?} in list {kind}");
    }
    if group {
        hca.vport.mc_list = macs;
    } else {
        hca.vport.uc_list = macs;
    }
    Ok(())
}
