// SPDX-License-Identifier: GPL-2.0
//! The port: who the card is on the network, and the address that channels use.
//!
//! Channels do not depend on what addresses the network interface has, nor on there being one: the driver
//! programs an address of its own, the IPv6 link local address made of the MAC (RFC 4291, appendix A), for
//! RoCE v2.

pub(crate) mod register;
pub(crate) mod roce;
pub(crate) mod speed;

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

use self::{
    roce::{
        Address,
        Roce,
        Version, //
    },
    speed::Speed, //
};
use crate::cmd::{
    Cmd,
    Command, //
};

/// Largest headers of a RoCE v2 packet over IPv6: IPv6, UDP, BTH, XRCETH, AtomicETH, ICRC. Source:
/// `iboe_get_mtu` in include/rdma/ib_addr.h.
const HEADERS: u32 = 40 + 8 + 12 + 4 + 28 + 4;

/// Who the card is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Permanent Ethernet address.
    pub(crate) mac: [u8; 6],
    /// MTU of the Ethernet port in bytes.
    pub(crate) mtu: u16,
    /// Node GUID.
    pub(crate) node_guid: u64,
    /// System image GUID.
    pub(crate) system_guid: u64,
}

impl Identity {
    /// IPv6 link local address of the MAC.
    pub(crate) fn gid(&self) -> [u8; 16] {
        let [a, b, c, d, e, f] = self.mac;
        [
            0xfe,
            0x80,
            0,
            0,
            0,
            0,
            0,
            0,
            a ^ 2,
            b,
            c,
            0xff,
            0xfe,
            d,
            e,
            f,
        ]
    }

    /// Largest path MTU in bytes that fits the port's MTU.
    pub(crate) fn path_mtu(&self) -> u32 {
        path_mtu(self.mtu.into())
    }
}

/// Largest path MTU in bytes that fits an MTU in bytes.
pub(crate) fn path_mtu(mtu: u32) -> u32 {
    let room = mtu.saturating_sub(HEADERS);
    [4096, 2048, 1024, 512]
        .into_iter()
        .find(|mtu| *mtu <= room)
        .unwrap_or(256)
}

struct QueryNicVport;

impl Command for QueryNicVport {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_NIC_VPORT_CONTEXT;
    type In = ifc::query_nic_vport_context_in;
    type Out = ifc::query_nic_vport_context_out;
    type Output = Identity;

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Identity> {
        let vport = output.sub(span!(query_nic_vport_context_out, nic_vport_context));
        let high = vport.get(field!(nic_vport_context, permanent_address.mac_addr_47_32));
        let low = vport.get(field!(nic_vport_context, permanent_address.mac_addr_31_0));
        let [_, _, mac @ ..] = (high << 32 | low).to_be_bytes();
        // A group address or nothing at all is not an address of a card.
        if mac == [0; 6] || mac[0] & 1 != 0 {
            return None;
        }
        Some(Identity {
            mac,
            // CAST: a 16-bit field.
            mtu: vport.get(field!(nic_vport_context, mtu)) as u16,
            node_guid: vport.get(field!(nic_vport_context, node_guid)),
            system_guid: vport.get(field!(nic_vport_context, system_image_guid)),
        })
    }
}

/// What the port is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    Down,
}

struct QueryVportState;

impl Command for QueryVportState {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_VPORT_STATE;
    type In = ifc::query_vport_state_in;
    type Out = ifc::query_vport_state_out;
    type Output = Link;

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Link> {
        Some(match output.get(field!(query_vport_state_out, state)) {
            1 => Link::Up,
            _ => Link::Down,
        })
    }
}

/// PTYS. Source: `MLX5_REG_PTYS` in include/linux/mlx5/driver.h.
const REG_PTYS: u64 = 0x5004;
/// `proto_mask`: Ethernet. Source: `MLX5_PTYS_EN` in include/linux/mlx5/port.h.
const ETHERNET: u64 = 1 << 2;

/// ACCESS_REG, read of PTYS: the speed in force.
struct QuerySpeed;

impl Command for QuerySpeed {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ACCESS_REG;
    type In = ifc::access_register_in;
    type Out = ifc::access_register_out;
    type Output = Speed;

    fn op_mod(&self) -> u16 {
        // Read.
        1
    }

    fn in_tail(&self) -> usize {
        bytes_of::<ifc::ptys_reg>()
    }

    fn out_tail(&self) -> usize {
        bytes_of::<ifc::ptys_reg>()
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(access_register_in, register_id), REG_PTYS);
        let data = input.raw(span!(access_register_in, register_data));
        let mut ptys = Mut::<ifc::ptys_reg>::new(data).ok_or(EINVAL)?;
        ptys.set(field!(ptys_reg, local_port), 1)
            .set(field!(ptys_reg, proto_mask), ETHERNET);
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Speed> {
        let data = output.raw(span!(access_register_out, register_data));
        let ptys = Ref::<ifc::ptys_reg>::new(data)?;
        let speed = if ptys.get(field!(ptys_reg, ext_eth_proto_capability)) != 0 {
            Speed::of_extended(ptys.get32(field!(ptys_reg, ext_eth_proto_oper)))
        } else {
            Speed::of_legacy(ptys.get32(field!(ptys_reg, eth_proto_oper)))
        };
        Some(speed.unwrap_or(Speed::UNKNOWN))
    }
}

/// Where the driver's own address is, and when.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    /// RoCE of the card.
    pub(crate) roce: &'a Roce,
    /// The device generation.
    pub(crate) generation: u32,
    /// Index in the table of addresses.
    pub(crate) index: u8,
}

/// The port of the current device generation, with the driver's own address programmed.
pub(crate) struct Port {
    identity: Identity,
}

impl Port {
    /// Reads who the card is, enables RoCE and programs the driver's own address. Sleeps.
    pub(crate) fn bring_up(cmd: &Cmd, own: Own<'_>) -> Result<Self> {
        let identity = Self::query(cmd)?;
        own.roce.enable(cmd, own.generation)?;
        let address = Address {
            gid: identity.gid(),
            mac: identity.mac,
            vlan: None,
            version: Version::V2,
        };
        Roce::set_address(cmd, own.index, &address)
            .inspect_err(|_| own.roce.disable(cmd, own.generation))?;
        Ok(Self { identity })
    }

    /// Reads who the card is. Sleeps.
    pub(crate) fn query(cmd: &Cmd) -> Result<Identity> {
        Ok(cmd.exec(&QueryNicVport)?)
    }

    /// Who the card is.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether the port carries traffic. Sleeps.
    pub(crate) fn link(cmd: &Cmd) -> Result<Link> {
        Ok(cmd.exec(&QueryVportState)?)
    }

    /// How fast the port runs; [`Speed::UNKNOWN`] while it does not. Sleeps.
    pub(crate) fn speed(cmd: &Cmd) -> Result<Speed> {
        Ok(cmd.exec(&QuerySpeed)?)
    }

    /// Takes the address away and needs RoCE no more; answers are not needed.
    pub(crate) fn shut_down(self, cmd: &Cmd, own: Own<'_>) {
        let _ = Roce::clear_address(cmd, own.index);
        own.roce.disable(cmd, own.generation);
    }
}
