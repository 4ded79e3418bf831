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
enum List {
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

struct SetPromiscuous(Promiscuous);

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
                self.0.all,
            )
            .set_flag(
                field!(modify_nic_vport_context_in, nic_vport_context.promisc_uc),
                self.0.unicast,
            )
            .set_flag(
                field!(modify_nic_vport_context_in, nic_vport_context.promisc_mc),
                self.0.multicast,
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

/// What the vport lets in, as far as it was told; `None` when that is not known.
#[derive(Default)]
pub(super) struct Vport {
    unicast: Option<KVVec<[u8; 6]>>,
    multicast: Option<KVVec<[u8; 6]>>,
    promiscuous: Option<Promiscuous>,
}

impl Vport {
    /// Lets these addresses in, and what is said besides: tells the card what it does not have yet. Sleeps.
    pub(super) fn set(
        &mut self,
        cmd: &Cmd,
        unicast: &[[u8; 6]],
        multicast: &[[u8; 6]],
        promiscuous: Promiscuous,
    ) -> Result {
        set_list(cmd, List::Unicast, unicast, &mut self.unicast)?;
        set_list(cmd, List::Multicast, multicast, &mut self.multicast)?;
        if self.promiscuous != Some(promiscuous) {
            self.promiscuous = None;
            cmd.exec(&SetPromiscuous(promiscuous))?;
            self.promiscuous = Some(promiscuous);
        }
        Ok(())
    }
}

/// Sets one of the address lists, unless it is so already. Sleeps.
fn set_list(
    cmd: &Cmd,
    list: List,
    addresses: &[[u8; 6]],
    known: &mut Option<KVVec<[u8; 6]>>,
) -> Result {
    if known.as_deref() == Some(addresses) {
        return Ok(());
    }
    *known = None;
    let mut now = KVVec::with_capacity(addresses.len(), GFP_KERNEL)?;
    now.extend_from_slice(addresses, GFP_KERNEL)?;
    cmd.exec(&SetList { list, addresses })?;
    *known = Some(now);
    Ok(())
}

/// Tells the vport the MTU, headers included. Sleeps.
pub(super) fn set_mtu(cmd: &Cmd, bytes: u16) -> Result {
    Ok(cmd.exec(&SetMtu(bytes))?)
}
