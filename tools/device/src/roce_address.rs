// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RoCE address table: the source addresses (GIDs) that QPs name by index.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
};

/// `roce_l3_type`: what is in the address. Source: `enum mlx5_roce_l3_type` (core/lib/gid.c users).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L3 {
    /// IPv4, in the last 4 bytes.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoceAddress {
    /// GID: an IPv6 address; the IPv4 address is in the last 4 bytes (drivers write the mapped form,
    /// `::ffff:a.b.c.d`).
    pub address: [u8; 16],
    /// Which of the two.
    pub l3: L3,
    /// Source MAC.
    pub mac: [u8; 6],
    /// VLAN id, if tagged.
    pub vlan: Option<u16>,
    /// 0: RoCE v1, 2: RoCE v2.
    pub version: u8,
}

/// The table. Entries that were never set, or set to zero, are empty.
#[derive(Debug, Default)]
pub struct RoceTable {
    entries: Vec<Option<RoceAddress>>,
}

impl RoceTable {
    /// An entry, by the index in a QP's address path.
    pub fn get(&self, index: u16) -> Option<&RoceAddress> {
        self.entries.get(usize::from(index))?.as_ref()
    }

    /// All entries that are set.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &RoceAddress)> {
        let all = (0u16..).zip(&self.entries);
        all.filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
    }

    fn set(&mut self, index: u16, entry: Option<RoceAddress>) {
        let index = usize::from(index);
        if self.entries.len() <= index {
            self.entries.resize(index + 1, None);
        }
        if let Some(place) = self.entries.get_mut(index) {
            *place = entry;
        }
    }
}

impl RoceAddress {
    /// Takes an entry apart; `None` when it is all zero.
    fn parse(hca: &Hca, input: Ref<'_, ifc::roce_addr_layout>) -> Result<Option<Self>, Refused> {
        let mut address = [0; 16];
        address.copy_from_slice(input.raw(span!(roce_addr_layout, source_l3_address)));
        let high = input.get(field!(roce_addr_layout, source_mac_47_32));
        let low = input.get(field!(roce_addr_layout, source_mac_31_0));
        let [_, _, mac @ ..] = (high << 32 | low).to_be_bytes();
        if address == [0; 16] && mac == [0; 6] {
            return Ok(None);
        }
        // CAST: 8, 4 and 12 bits.
        let version = input.get(field!(roce_addr_layout, roce_version)) as u8;
        let offered = hca.caps.get(field!(roce_cap, roce_version));
        if version > 7 || offered >> version & 1 == 0 {
            refuse!(BadParam, 2, "RoCE version {version} is not offered");
        }
        let l3 = match input.get(field!(roce_addr_layout, roce_l3_type)) {
            0 => L3::Ipv4,
            1 => L3::Ipv6,
            other => refuse!(BadParam, 3, "L3 type {other} is not known"),
        };
        if mac[0] & 1 == 1 {
            refuse!(BadParam, 4, "source MAC {mac:02x?} is a group address");
        }
        let vlan = input
            .flag(field!(roce_addr_layout, vlan_valid))
            .then(|| input.get(field!(roce_addr_layout, vlan_id)) as u16);
        Ok(Some(Self {
            address,
            l3,
            mac,
            vlan,
            version,
        }))
    }

    fn show(&self, output: &mut Mut<'_, ifc::roce_addr_layout>) {
        output
            .raw(span!(roce_addr_layout, source_l3_address))
            .copy_from_slice(&self.address);
        let mac = self
            .mac
            .iter()
            .fold(0, |mac, byte| mac << 8 | u64::from(*byte));
        let l3 = match self.l3 {
            L3::Ipv4 => 0,
            L3::Ipv6 => 1,
        };
        output
            .set_flag(field!(roce_addr_layout, vlan_valid), self.vlan.is_some())
            .set(
                field!(roce_addr_layout, vlan_id),
                self.vlan.unwrap_or(0).into(),
            )
            .set(field!(roce_addr_layout, source_mac_47_32), mac >> 32)
            .set(field!(roce_addr_layout, source_mac_31_0), mac & 0xffff_ffff)
            .set(field!(roce_addr_layout, roce_l3_type), l3)
            .set(field!(roce_addr_layout, roce_version), self.version.into());
    }
}

fn index(hca: &Hca, index: u64) -> Result<u16, Refused> {
    let size = hca.caps.get(field!(roce_cap, roce_address_table_size));
    match u16::try_from(index) {
        Ok(small) if index < size => Ok(small),
        _ => refuse!(BadIndex, 1, "RoCE address {index} of {size}"),
    }
}

/// SET_ROCE_ADDRESS.
pub struct SetRoceAddress;

impl Command for SetRoceAddress {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_ROCE_ADDRESS;
    type In = ifc::set_roce_address_in;
    type Out = ifc::set_roce_address_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let index = index(
            hca,
            input.get(field!(set_roce_address_in, roce_address_index)),
        )?;
        if input.flag(field!(set_roce_address_in, vhca_port_num)) {
            refuse!(BadParam, 5, "ports of another function are not offered");
        }
        let entry = RoceAddress::parse(hca, input.sub(span!(set_roce_address_in, roce_address)))?;
        if entry.is_some() && !hca.vport.roce_en {
            refuse!(
                BadResState,
                6,
                "RoCE is not enabled in the NIC vport context"
            );
        }
        hca.roce.set(index, entry);
        Ok(())
    }
}

/// QUERY_ROCE_ADDRESS.
pub struct QueryRoceAddress;

impl Command for QueryRoceAddress {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_ROCE_ADDRESS;
    type In = ifc::query_roce_address_in;
    type Out = ifc::query_roce_address_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let index = index(
            hca,
            input.get(field!(query_roce_address_in, roce_address_index)),
        )?;
        if let Some(entry) = hca.roce.get(index) {
            output.with(span!(query_roce_address_out, roce_address), |output| {
                entry.show(output);
            });
        }
        Ok(())
    }
}
