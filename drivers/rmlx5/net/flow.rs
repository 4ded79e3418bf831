// SPDX-License-Identifier: GPL-2.0
//! Flow tables, their groups and entries.
//!
//! A table has numbered places. A group says, for a range of them, which fields of a packet count; an
//! entry has values for those fields and a destination. Of all entries that match the one in the
//! lowest place wins. Source: core/fs_cmd.c.

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

use crate::{
    cmd::Command,
    home::Home,
    plain_command, //
};

const NIC_RX: u32 = raw::MLX5_FLOW_TABLE_TYPE_NIC_RX;

/// Fields of outer headers, as a mask or as values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Match {
    /// Destination address.
    pub(super) dmac: u64,
    /// Has a customer tag.
    pub(super) tagged: bool,
    /// VLAN id of the first tag.
    pub(super) vid: u16,
    /// EtherType behind the tags.
    pub(super) ethertype: u16,
    /// IP protocol.
    pub(super) protocol: u8,
}

impl Match {
    /// The mask that selects nothing.
    pub(super) const NOTHING: Self = Self {
        dmac: 0,
        tagged: false,
        vid: 0,
        ethertype: 0,
        protocol: 0,
    };
    /// The mask of a whole address.
    pub(super) const ADDRESS: u64 = 0xffff_ffff_ffff;
    /// The mask of a whole VLAN id.
    pub(super) const VID: u16 = 0xfff;
    /// The bit of an address that says it is one of a group.
    pub(super) const GROUP: u64 = 0x0100_0000_0000;

    fn fill(self, outer: &mut Mut<'_, ifc::fte_match_set_lyr_2_4>) {
        outer
            .set(field!(fte_match_set_lyr_2_4, dmac_47_16), self.dmac >> 16)
            .set(field!(fte_match_set_lyr_2_4, dmac_15_0), self.dmac & 0xffff)
            .set_flag(field!(fte_match_set_lyr_2_4, cvlan_tag), self.tagged)
            .set(field!(fte_match_set_lyr_2_4, first_vid), self.vid.into())
            .set(
                field!(fte_match_set_lyr_2_4, ethertype),
                self.ethertype.into(),
            )
            .set(
                field!(fte_match_set_lyr_2_4, ip_protocol),
                self.protocol.into(),
            );
    }
}

/// Where an entry sends its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Table(u32),
    Tir(u32),
}

struct CreateTable {
    level: u8,
    log: u8,
}

impl Command for CreateTable {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_FLOW_TABLE;
    type In = ifc::create_flow_table_in;
    type Out = ifc::create_flow_table_out;
    type Output = u32;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(create_flow_table_in, table_type), NIC_RX.into())
            .set(
                field!(create_flow_table_in, flow_table_context.level),
                self.level.into(),
            )
            .set(
                field!(create_flow_table_in, flow_table_context.log_size),
                self.log.into(),
            );
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_flow_table_out, table_id)))
    }
}

plain_command! {
    /// DESTROY_FLOW_TABLE.
    DestroyTable, MLX5_CMD_OP_DESTROY_FLOW_TABLE, destroy_flow_table_in, destroy_flow_table_out,
    kind: u32 => table_type, table: u32 => table_id
}

plain_command! {
    /// SET_FLOW_TABLE_ROOT: packets come to this table first.
    SetRoot, MLX5_CMD_OP_SET_FLOW_TABLE_ROOT, set_flow_table_root_in, set_flow_table_root_out,
    kind: u32 => table_type, table: u32 => table_id
}

struct CreateGroup {
    table: u32,
    first: u32,
    last: u32,
    mask: Match,
}

impl Command for CreateGroup {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_FLOW_GROUP;
    type In = ifc::create_flow_group_in;
    type Out = ifc::create_flow_group_out;
    type Output = u32;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let outer = if self.mask == Match::NOTHING {
            0
        } else {
            raw::MLX5_MATCH_OUTER_HEADERS
        };
        input
            .set(field!(create_flow_group_in, table_type), NIC_RX.into())
            .set(field!(create_flow_group_in, table_id), self.table.into())
            .set(
                field!(create_flow_group_in, start_flow_index),
                self.first.into(),
            )
            .set(
                field!(create_flow_group_in, end_flow_index),
                self.last.into(),
            )
            .set(
                field!(create_flow_group_in, match_criteria_enable),
                outer.into(),
            )
            .with(
                span!(create_flow_group_in, match_criteria.outer_headers),
                |outer| self.mask.fill(outer),
            );
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_flow_group_out, group_id)))
    }
}

plain_command! {
    /// DESTROY_FLOW_GROUP.
    DestroyGroup, MLX5_CMD_OP_DESTROY_FLOW_GROUP, destroy_flow_group_in, destroy_flow_group_out,
    kind: u32 => table_type, table: u32 => table_id, group: u32 => group_id
}

struct SetEntry {
    table: u32,
    group: u32,
    place: u32,
    values: Match,
    destination: Destination,
}

impl Command for SetEntry {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY;
    type In = ifc::set_fte_in;
    type Out = ifc::set_fte_out;
    type Output = ();

    fn in_tail(&self) -> usize {
        bytes_of::<ifc::dest_format>()
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(set_fte_in, table_type), NIC_RX.into())
            .set(field!(set_fte_in, table_id), self.table.into())
            .set(field!(set_fte_in, flow_index), self.place.into())
            .with(span!(set_fte_in, flow_context), |context| {
                context
                    .set(field!(flow_context, group_id), self.group.into())
                    .set(
                        field!(flow_context, action),
                        raw::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST.into(),
                    )
                    .set(field!(flow_context, destination_list_size), 1)
                    .with(span!(flow_context, match_value.outer_headers), |outer| {
                        self.values.fill(outer)
                    });
            });
        let (kind, id) = match self.destination {
            Destination::Table(id) => (raw::MLX5_IFC_FLOW_DESTINATION_TYPE_FLOW_TABLE, id),
            Destination::Tir(id) => (raw::MLX5_IFC_FLOW_DESTINATION_TYPE_TIR, id),
        };
        let tail = input.tail();
        let mut destination = Mut::<ifc::dest_format>::new(tail).ok_or(EINVAL)?;
        destination
            .set(field!(dest_format, destination_type), kind.into())
            .set(field!(dest_format, destination_id), id.into());
        if destination.overflowed() {
            return Err(EINVAL);
        }
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

plain_command! {
    /// DELETE_FLOW_TABLE_ENTRY.
    DeleteEntry, MLX5_CMD_OP_DELETE_FLOW_TABLE_ENTRY, delete_fte_in, delete_fte_out,
    kind: u32 => table_type, table: u32 => table_id, place: u32 => flow_index
}

/// An entry; gone when dropped.
pub(super) struct Entry {
    table: u32,
    place: u32,
    home: Home,
    /// It was deleted, or cannot be.
    over: bool,
}

impl Entry {
    /// Deletes it; an error when the card still has it. Sleeps.
    pub(super) fn end(mut self) -> Result {
        match self.delete() {
            true => Ok(()),
            false => Err(EIO),
        }
    }

    fn delete(&mut self) -> bool {
        let ran = self.over
            || self.home.end(&DeleteEntry {
                kind: NIC_RX,
                table: self.table,
                place: self.place,
            });
        self.over = true;
        ran
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.delete();
    }
}

/// A group; its entries go before it.
pub(super) struct Group {
    table: u32,
    number: u32,
    home: Home,
}

impl Group {
    /// Adds an entry. Sleeps.
    pub(super) fn entry(
        &self,
        place: u32,
        values: Match,
        destination: Destination,
    ) -> Result<Entry> {
        self.home.cmd().exec(&SetEntry {
            table: self.table,
            group: self.number,
            place,
            values,
            destination,
        })?;
        Ok(Entry {
            table: self.table,
            place,
            home: self.home.clone(),
            over: false,
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.home.end(&DestroyGroup {
            kind: NIC_RX,
            table: self.table,
            group: self.number,
        });
    }
}

/// A table for received packets; its groups, and entries that lead to it, go before it.
pub(super) struct Table {
    number: u32,
    home: Home,
}

impl Table {
    /// Makes a table of `1 << log` places. Entries lead to tables of higher levels only. Sleeps.
    pub(super) fn new(home: &Home, level: u8, log: u8) -> Result<Self> {
        Ok(Self {
            number: home.cmd().exec(&CreateTable { level, log })?,
            home: home.clone(),
        })
    }

    /// The destination "this table".
    pub(super) fn destination(&self) -> Destination {
        Destination::Table(self.number)
    }

    /// Adds a group for the places `first` to `last`. Sleeps.
    pub(super) fn group(&self, first: u32, last: u32, mask: Match) -> Result<Group> {
        Ok(Group {
            table: self.number,
            number: self.home.cmd().exec(&CreateGroup {
                table: self.number,
                first,
                last,
                mask,
            })?,
            home: self.home.clone(),
        })
    }

    /// All packets come here from now on, as long as the table exists. Sleeps.
    pub(super) fn make_root(&self) -> Result {
        Ok(self.home.cmd().exec(&SetRoot {
            kind: NIC_RX,
            table: self.number,
        })?)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.home.end(&DestroyTable {
            kind: NIC_RX,
            table: self.number,
        });
    }
}
