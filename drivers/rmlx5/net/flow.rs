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

pub(crate) use super::headers::Headers;
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

    fn headers(self) -> Result<Headers> {
        let mut headers = Headers::NOTHING;
        headers.set_outer(|outer| self.fill(outer))?;
        Ok(headers)
    }

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
pub(crate) enum Destination {
    Table(u32),
    Tir(u32),
}

/// What happens to the packets of an entry.
#[derive(Clone, Copy)]
pub(super) enum Action<'a> {
    Drop,
    Forward(&'a [Destination]),
}

impl Action<'_> {
    fn code(self) -> u32 {
        match self {
            Self::Drop => raw::MLX5_FLOW_CONTEXT_ACTION_DROP,
            Self::Forward(_) => raw::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST,
        }
    }

    fn destinations(&self) -> &[Destination] {
        match self {
            Self::Drop => &[],
            Self::Forward(list) => list,
        }
    }
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

/// `table_miss_action`: on to a table. Source: `mlx5_ifc_flow_table_context_bits`.
const MISS_FORWARD: u64 = 1;

/// MODIFY_FLOW_TABLE: where packets go that no entry matches; `None`: nowhere.
struct SetMiss {
    table: u32,
    to: Option<u32>,
}

impl Command for SetMiss {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_FLOW_TABLE;
    type In = ifc::modify_flow_table_in;
    type Out = ifc::modify_flow_table_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(modify_flow_table_in, table_type), NIC_RX.into())
            .set(field!(modify_flow_table_in, table_id), self.table.into())
            .set(
                field!(modify_flow_table_in, modify_field_select),
                raw::MLX5_MODIFY_FLOW_TABLE_MISS_TABLE_ID.into(),
            );
        if let Some(to) = self.to {
            input
                .set(
                    field!(modify_flow_table_in, flow_table_context.table_miss_action),
                    MISS_FORWARD,
                )
                .set(
                    field!(modify_flow_table_in, flow_table_context.table_miss_id),
                    to.into(),
                );
        }
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

plain_command! {
    /// SET_FLOW_TABLE_ROOT: packets come to this table first.
    SetRoot, MLX5_CMD_OP_SET_FLOW_TABLE_ROOT, set_flow_table_root_in, set_flow_table_root_out,
    kind: u32 => table_type, table: u32 => table_id
}

struct CreateGroup<'a> {
    table: u32,
    first: u32,
    last: u32,
    criteria: u8,
    mask: &'a [u8],
}

impl Command for CreateGroup<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_FLOW_GROUP;
    type In = ifc::create_flow_group_in;
    type Out = ifc::create_flow_group_out;
    type Output = u32;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
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
                self.criteria.into(),
            );
        place(
            input.raw(span!(create_flow_group_in, match_criteria)),
            self.mask,
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

/// Writes masks or values from their start on.
fn place(all: &mut [u8], from: &[u8]) {
    for (to, from) in all.iter_mut().zip(from) {
        *to = *from;
    }
}

/// op_mod of SET_FLOW_TABLE_ENTRY that changes an entry; 0 makes one.
const CHANGE: u16 = 1;

struct SetEntry<'a> {
    table: u32,
    group: u32,
    place: u32,
    values: &'a [u8],
    tag: u32,
    action: Action<'a>,
    /// It is there and gets another list of destinations.
    is_change: bool,
}

impl Command for SetEntry<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY;
    type In = ifc::set_fte_in;
    type Out = ifc::set_fte_out;
    type Output = ();

    fn op_mod(&self) -> u16 {
        match self.is_change {
            true => CHANGE,
            false => 0,
        }
    }

    fn in_tail(&self) -> usize {
        bytes_of::<ifc::dest_format>().saturating_mul(self.action.destinations().len())
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        if self.is_change {
            input.set(
                field!(set_fte_in, modify_enable_mask),
                1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_DESTINATION_LIST,
            );
        }
        // CAST: a list is as long as users have QPs, at most 24 bits.
        let count = self.action.destinations().len() as u64;
        input
            .set(field!(set_fte_in, table_type), NIC_RX.into())
            .set(field!(set_fte_in, table_id), self.table.into())
            .set(field!(set_fte_in, flow_index), self.place.into())
            .with(span!(set_fte_in, flow_context), |context| {
                context
                    .set(field!(flow_context, group_id), self.group.into())
                    .set(field!(flow_context, flow_tag), self.tag.into())
                    .set(field!(flow_context, action), self.action.code().into())
                    .set(field!(flow_context, destination_list_size), count);
                place(context.raw(span!(flow_context, match_value)), self.values);
            });
        let places = input
            .tail()
            .chunks_exact_mut(bytes_of::<ifc::dest_format>());
        for (place, destination) in places.zip(self.action.destinations()) {
            let (kind, id) = match *destination {
                Destination::Table(id) => (raw::MLX5_IFC_FLOW_DESTINATION_TYPE_FLOW_TABLE, id),
                Destination::Tir(id) => (raw::MLX5_IFC_FLOW_DESTINATION_TYPE_TIR, id),
            };
            let mut format = Mut::<ifc::dest_format>::new(place).ok_or(EINVAL)?;
            format
                .set(field!(dest_format, destination_type), kind.into())
                .set(field!(dest_format, destination_id), id.into());
            if format.overflowed() {
                return Err(EINVAL);
            }
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
        let values = values.headers()?;
        self.entry_of(place, values.bytes(), 0, Action::Forward(&[destination]))
    }

    /// Adds an entry for values of any fields. Completions of its packets show `tag`, 24 bits. Sleeps.
    pub(super) fn entry_of(
        &self,
        place: u32,
        values: &[u8],
        tag: u32,
        action: Action<'_>,
    ) -> Result<Entry> {
        self.set(place, values, tag, action, false)?;
        Ok(Entry {
            table: self.table,
            place,
            home: self.home.clone(),
            over: false,
        })
    }

    /// Sends the packets of an entry elsewhere. Sleeps. An error leaves it as it was.
    pub(super) fn redirect(
        &self,
        entry: &Entry,
        values: &[u8],
        tag: u32,
        destinations: &[Destination],
    ) -> Result {
        let action = Action::Forward(destinations);
        self.set(entry.place, values, tag, action, true)
    }

    fn set(
        &self,
        place: u32,
        values: &[u8],
        tag: u32,
        action: Action<'_>,
        is_change: bool,
    ) -> Result {
        Ok(self.home.cmd().exec(&SetEntry {
            table: self.table,
            group: self.number,
            place,
            values,
            tag,
            action,
            is_change,
        })?)
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
        let mask = mask.headers()?;
        self.group_of(first, last, mask.criteria(), mask.bytes())
    }

    /// Adds a group that looks at any fields, of the parts that `criteria` names (`MLX5_MATCH_*`). Sleeps.
    pub(super) fn group_of(
        &self,
        first: u32,
        last: u32,
        criteria: u8,
        mask: &[u8],
    ) -> Result<Group> {
        Ok(Group {
            table: self.number,
            number: self.home.cmd().exec(&CreateGroup {
                table: self.number,
                first,
                last,
                criteria,
                mask,
            })?,
            home: self.home.clone(),
        })
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Packets that match no entry go on to a table of a higher level from now on, or are dropped. Sleeps.
    pub(super) fn set_miss(&self, to: Option<u32>) -> Result {
        Ok(self.home.cmd().exec(&SetMiss {
            table: self.number,
            to,
        })?)
    }

    /// All packets come here from now on, as long as the table exists. Sleeps.
    pub(super) fn make_root(&self) -> Result {
        set_root(&self.home, self.number)
    }
}

/// All packets come to a table from now on, as long as it exists. Sleeps.
pub(super) fn set_root(home: &Home, table: u32) -> Result {
    Ok(home.cmd().exec(&SetRoot {
        kind: NIC_RX,
        table,
    })?)
}

impl Drop for Table {
    fn drop(&mut self) {
        self.home.end(&DestroyTable {
            kind: NIC_RX,
            table: self.number,
        });
    }
}
