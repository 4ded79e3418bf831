// SPDX-License-Identifier: GPL-2.0
//! RoCE on the port: whether it is on, and the table of source addresses.
//!
//! RoCE must be enabled in the vport before the card takes an address (`mlx5_nic_vport_enable_roce` in
//! core/vport.c). The RDMA device and the channels need it independently of each other, so it stays on
//! while anybody does.
//!
//! The last entry of the table is the driver's own. The table that the RDMA core sees ends before it;
//! the stock driver reserves entries from that end too (`mlx5_core_reserve_gids` in core/lib/gid.c).

use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};
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

/// Which RoCE packets of an address are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// A GRH behind the Ethernet header.
    V1,
    /// UDP over IPv4 or IPv6.
    V2,
}

/// A source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The GID in the order of the wire; an IPv4 address is `::ffff:a.b.c.d`.
    pub(crate) gid: [u8; 16],
    /// Source address of its frames.
    pub(crate) mac: [u8; 6],
    /// Tag of its frames.
    pub(crate) vlan: Option<u16>,
    /// How its packets are wrapped.
    pub(crate) version: Version,
}

impl Address {
    /// `roce_l3_type`. Version 1 knows no such thing; 0, as `set_roce_addr` in ib/main.c has it.
    fn l3_type(&self) -> u32 {
        let mapped = matches!(self.gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..]);
        match self.version {
            Version::V1 => 0,
            Version::V2 if mapped => raw::MLX5_ROCE_L3_TYPE_IPV4,
            Version::V2 => raw::MLX5_ROCE_L3_TYPE_IPV6,
        }
    }

    const fn version_code(&self) -> u32 {
        match self.version {
            Version::V1 => raw::MLX5_ROCE_VERSION_1,
            Version::V2 => raw::MLX5_ROCE_VERSION_2,
        }
    }
}

struct EnableRoce(bool);

impl Command for EnableRoce {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT;
    type In = ifc::modify_nic_vport_context_in;
    type Out = ifc::modify_nic_vport_context_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set_flag(
                field!(modify_nic_vport_context_in, field_select.roce_en),
                true,
            )
            .set_flag(
                field!(modify_nic_vport_context_in, nic_vport_context.roce_en),
                self.0,
            );
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

struct SetRoceAddress<'a> {
    index: u8,
    /// `None` takes the address away.
    address: Option<&'a Address>,
}

impl Command for SetRoceAddress<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_ROCE_ADDRESS;
    type In = ifc::set_roce_address_in;
    type Out = ifc::set_roce_address_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(
            field!(set_roce_address_in, roce_address_index),
            self.index.into(),
        );
        let Some(address) = self.address else {
            return Ok(());
        };
        let [m0, m1, m2, m3, m4, m5] = address.mac;
        input.with(span!(set_roce_address_in, roce_address), |entry| {
            entry
                .set(
                    field!(roce_addr_layout, source_mac_47_32),
                    u16::from_be_bytes([m0, m1]).into(),
                )
                .set(
                    field!(roce_addr_layout, source_mac_31_0),
                    u32::from_be_bytes([m2, m3, m4, m5]).into(),
                )
                .set(
                    field!(roce_addr_layout, roce_l3_type),
                    address.l3_type().into(),
                )
                .set(
                    field!(roce_addr_layout, roce_version),
                    address.version_code().into(),
                );
            if let Some(vlan) = address.vlan {
                entry
                    .set_flag(field!(roce_addr_layout, vlan_valid), true)
                    .set(field!(roce_addr_layout, vlan_id), vlan.into());
            }
            entry
                .raw(span!(roce_addr_layout, source_l3_address))
                .copy_from_slice(&address.gid);
        });
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// Who needs RoCE, in one device generation: a reset switches it off.
struct Users {
    generation: u32,
    count: u32,
}

/// RoCE on the port of a card.
#[pin_data]
pub(crate) struct Roce {
    #[pin]
    users: Mutex<Users>,
}

impl Roce {
    /// An initialiser; RoCE is off.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            users <- new_mutex!(Users { generation: 0, count: 0 }),
        })
    }

    /// Needs RoCE in `generation`, until [`Roce::disable`] or the end of the generation. Sleeps.
    pub(crate) fn enable(&self, cmd: &Cmd, generation: u32) -> Result {
        let mut users = self.users.lock();
        if users.generation != generation {
            *users = Users {
                generation,
                count: 0,
            };
        }
        if users.count == 0 {
            cmd.exec(&EnableRoce(true))?;
        }
        users.count = users.count.saturating_add(1);
        Ok(())
    }

    /// Ends [`Roce::enable`]; the answer of the card is not needed. Sleeps.
    pub(crate) fn disable(&self, cmd: &Cmd, generation: u32) {
        let mut users = self.users.lock();
        if users.generation != generation || users.count == 0 {
            return;
        }
        users.count = users.count.saturating_sub(1);
        if users.count == 0 {
            let _ = cmd.exec(&EnableRoce(false));
        }
    }

    /// Fills an entry of the table. Somebody has RoCE enabled. Sleeps.
    pub(crate) fn set_address(cmd: &Cmd, index: u8, address: &Address) -> Result {
        Ok(cmd.exec(&SetRoceAddress {
            index,
            address: Some(address),
        })?)
    }

    /// Empties an entry of the table. Sleeps.
    pub(crate) fn clear_address(cmd: &Cmd, index: u8) -> Result {
        Ok(cmd.exec(&SetRoceAddress {
            index,
            address: None,
        })?)
    }
}
