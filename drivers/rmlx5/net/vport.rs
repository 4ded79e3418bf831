// SPDX-License-Identifier: GPL-2.0
//! What the virtual port of the card lets in before steering sees it.
//!
//! Source: `mlx5e_vport_context_update` in core/en_fs.c, `mlx5_modify_nic_vport_*` in core/vport.c.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use crate::cmd::{
    Cmd,
    Command, //
};

/// Bytes of an entry of an address list: two of nothing, six of address.
const ENTRY: usize = 8;

/// Which list. Source: `enum mlx5_list_type` in include/linux/mlx5/driver.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Unicast = 0,
    Multicast = 1,
}

struct SetList<'a> {
    list: List,
    addresses: &'a [[u8; 6]],
}

impl Command for SetList<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT;
    type In = ifc::modify_nic_vport_context_in;
    type Out = ifc::modify_nic_vport_context_out;
    type Output = ();

    fn in_tail(&self) -> usize {
        self.addresses.len() * ENTRY
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set_flag(
                field!(modify_nic_vport_context_in, field_select.addresses_list),
                true,
            )
            .with(
                span!(modify_nic_vport_context_in, nic_vport_context),
                |context| {
                    context
                        .set(
                            field!(nic_vport_context, allowed_list_type),
                            self.list as u64,
                        )
                        // CAST: checked by the field.
                        .set(
                            field!(nic_vport_context, allowed_list_size),
                            self.addresses.len() as u64,
                        );
                },
            );
        let entries = input.tail().chunks_exact_mut(ENTRY);
        for (entry, address) in entries.zip(self.addresses) {
            entry.get_mut(2..).ok_or(ERANGE)?.copy_from_slice(address);
        }
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

struct SetPromiscuous {
    all: bool,
    unicast: bool,
    multicast: bool,
}

impl Command for SetPromiscuous {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT;
    type In = ifc::modify_nic_vport_context_in;
    type Out = ifc::modify_nic_vport_context_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set_flag(
                field!(modify_nic_vport_context_in, field_select.promisc),
                true,
            )
            .set_flag(
                field!(modify_nic_vport_context_in, nic_vport_context.promisc_all),
                self.all,
            )
            .set_flag(
                field!(modify_nic_vport_context_in, nic_vport_context.promisc_uc),
                self.unicast,
            )
            .set_flag(
                field!(modify_nic_vport_context_in, nic_vport_context.promisc_mc),
                self.multicast,
            );
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

struct SetMtu(u16);

impl Command for SetMtu {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT;
    type In = ifc::modify_nic_vport_context_in;
    type Out = ifc::modify_nic_vport_context_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set_flag(field!(modify_nic_vport_context_in, field_select.mtu), true)
            .set(
                field!(modify_nic_vport_context_in, nic_vport_context.mtu),
                self.0.into(),
            );
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// Which frames pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Promiscuous {
    /// All.
    pub(super) all: bool,
    /// All that go to one station.
    pub(super) unicast: bool,
    /// All that go to a group.
    pub(super) multicast: bool,
}

/// Sets one of the address lists. Sleeps.
pub(super) fn set_list(cmd: &Cmd, list: List, addresses: &[[u8; 6]]) -> Result {
    Ok(cmd.exec(&SetList { list, addresses })?)
}

/// Sets what passes besides the lists. Sleeps.
pub(super) fn set_promiscuous(cmd: &Cmd, what: Promiscuous) -> Result {
    Ok(cmd.exec(&SetPromiscuous {
        all: what.all,
        unicast: what.unicast,
        multicast: what.multicast,
    })?)
}

/// Tells the vport the MTU, headers included. Sleeps.
pub(super) fn set_mtu(cmd: &Cmd, bytes: u16) -> Result {
    Ok(cmd.exec(&SetMtu(bytes))?)
}
