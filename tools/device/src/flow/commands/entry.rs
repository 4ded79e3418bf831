// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SET, DELETE and QUERY_FLOW_TABLE_ENTRY.

use super::{check_domain, check_type, copy_front, limits};
use crate::{
    cmd::{Command, Refused},
    flow::{
        table::{Action, Destination, Entry},
        tree::{Change, Update, ENTRY_FOOTPRINT},
    },
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
};

/// Bits of `modify_enable_mask`: `MLX5_SET_FTE_MODIFY_ENABLE_MASK_*` are their numbers.
mod change {
    use mlx5_hw::raw;

    pub(super) const ACTION: u32 = 1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_ACTION;
    pub(super) const TAG: u32 = 1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_FLOW_TAG;
    pub(super) const LIST: u32 = 1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_DESTINATION_LIST;
    pub(super) const COUNTERS: u32 = 1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_FLOW_COUNTERS;
    pub(super) const ALL: u32 = ACTION | TAG | LIST | COUNTERS;
}

/// op_mod of SET_FLOW_TABLE_ENTRY that changes an entry; 0 makes one.
const MODIFY: u16 = 1;

/// What a flow context says; `list` is what follows its fixed part: destinations, then counters.
fn parse(context: Ref<'_, ifc::flow_context>, list: &[u8]) -> Result<Update, Refused> {
    for (name, asked) in [
        (
            "extended_destination",
            context.flag(field!(flow_context, extended_destination)),
        ),
        (
            "uplink_hairpin_en",
            context.flag(field!(flow_context, uplink_hairpin_en)),
        ),
        (
            "flow_source",
            context.flag(field!(flow_context, flow_source)),
        ),
        (
            "encrypt_decrypt_type",
            context.flag(field!(flow_context, encrypt_decrypt_type)),
        ),
        (
            "packet_reformat_id",
            context.flag(field!(flow_context, packet_reformat_id)),
        ),
        (
            "modify_header_id",
            context.flag(field!(flow_context, modify_header_id)),
        ),
    ] {
        if asked {
            refuse!(BadParam, 0x7210, "flow entry with {name}");
        }
    }
    let size = context.get32(field!(flow_context, destination_list_size));
    let counters = context.get32(field!(flow_context, flow_counter_list_size));
    let step = bytes_of::<ifc::dest_format>();
    // CAST: 24 bits each.
    if list.len() != (size as usize + counters as usize) * step {
        refuse!(
            BadInputLen,
            0x7211,
            "flow entry with {size} destinations and {counters} counters, {} bytes given",
            list.len()
        );
    }
    let (list, behind) = list.split_at(size as usize * step);
    let code = context.get32(field!(flow_context, action));
    let counts = code & raw::MLX5_FLOW_CONTEXT_ACTION_COUNT != 0;
    if counts != (counters > 0) {
        refuse!(
            BadParam,
            0x7216,
            "flow entry with action {code:#x} and {counters} counters"
        );
    }
    let action = match code & !raw::MLX5_FLOW_CONTEXT_ACTION_COUNT {
        raw::MLX5_FLOW_CONTEXT_ACTION_DROP if size == 0 => Action::Drop,
        raw::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST => list
            .chunks_exact(step)
            .map(destination)
            .collect::<Result<_, _>>()
            .map(Action::Forward)?,
        _ => refuse!(
            BadParam,
            0x7212,
            "flow entry with action {code:#x} and {size} destinations"
        ),
    };
    let counters = behind
        .chunks_exact(step)
        .filter_map(Ref::<ifc::flow_counter_list>::new)
        .map(|counter| counter.get32(field!(flow_counter_list, flow_counter_id)))
        .collect();
    Ok(Update {
        tag: context.get32(field!(flow_context, flow_tag)),
        action,
        counters,
    })
}

fn destination(raw: &[u8]) -> Result<Destination, Refused> {
    let Some(format) = Ref::<ifc::dest_format>::new(raw) else {
        refuse!(BadInputLen, 0x7213, "destination of {} bytes", raw.len());
    };
    if format.flag(field!(dest_format, destination_eswitch_owner_vhca_id_valid))
        || format.flag(field!(dest_format, packet_reformat))
    {
        refuse!(BadParam, 0x7214, "destination with e-switch or reformat");
    }
    let id = format.get32(field!(dest_format, destination_id));
    let kind = format.get32(field!(dest_format, destination_type));
    match kind {
        raw::MLX5_IFC_FLOW_DESTINATION_TYPE_FLOW_TABLE => Ok(Destination::Table(id)),
        raw::MLX5_IFC_FLOW_DESTINATION_TYPE_TIR => Ok(Destination::Tir(id)),
        _ => refuse!(BadParam, 0x7215, "destination of type {kind:#x}"),
    }
}

/// SET_FLOW_TABLE_ENTRY.
pub struct SetFlowTableEntry;

impl Command for SetFlowTableEntry {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY;
    type In = ifc::set_fte_in;
    type Out = ifc::set_fte_out;

    fn op_mod(op_mod: u16) -> bool {
        op_mod == 0 || op_mod == MODIFY
    }

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        match input.get32(field!(set_fte_in, op_mod)) {
            0 => ENTRY_FOOTPRINT,
            _ => 0,
        }
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, set_fte_in);
        if input.flag(field!(set_fte_in, ignore_flow_level)) {
            refuse!(BadParam, 1, "flow entry that ignores levels");
        }
        let id = input.get32(field!(set_fte_in, table_id));
        let index = input.get32(field!(set_fte_in, flow_index));
        let context = input.sub(span!(set_fte_in, flow_context));
        let list = input
            .bytes()
            .get(bytes_of::<ifc::set_fte_in>()..)
            .unwrap_or_default();
        let update = parse(context, list)?;
        for tirn in update.action.tirs() {
            hca.tirs.find(tirn)?;
        }
        for id in &update.counters {
            hca.flow_counters.find(*id)?;
        }
        let limits = limits(hca);
        let modify = input.get32(field!(set_fte_in, op_mod)) == u32::from(MODIFY);
        let old = if modify {
            let mask = input.get32(field!(set_fte_in, modify_enable_mask));
            if mask & !change::ALL != 0 {
                refuse!(BadParam, 2, "flow entry modification of fields {mask:#x}");
            }
            let change = Change {
                action: mask & change::ACTION != 0,
                tag: mask & change::TAG != 0,
                destinations: mask & change::LIST != 0,
                counters: mask & change::COUNTERS != 0,
            };
            Some(hca.flow.modify_entry(id, index, change, update, &limits)?)
        } else {
            let group = context.get32(field!(flow_context, group_id));
            let mask = &hca.flow.group(id, group)?.mask;
            let value = mask.value(context.raw(span!(flow_context, match_value)));
            let entry = Entry {
                group,
                value,
                tag: update.tag,
                action: update.action,
                counters: update.counters,
            };
            hca.flow.add_entry(id, index, entry, &limits)?;
            None
        };
        let new = hca.flow.entry(id, index)?.clone();
        for tirn in new.action.tirs() {
            hca.tirs.hold(tirn)?;
        }
        for counter in &new.counters {
            hca.flow_counters.hold(*counter)?;
        }
        release(hca, old.as_ref());
        Ok(())
    }
}

fn release(hca: &mut Hca, entry: Option<&Entry>) {
    for tirn in entry.iter().flat_map(|entry| entry.action.tirs()) {
        hca.tirs.release(tirn);
    }
    for counter in entry.iter().flat_map(|entry| &entry.counters) {
        hca.flow_counters.release(*counter);
    }
}

/// DELETE_FLOW_TABLE_ENTRY.
pub struct DeleteFlowTableEntry;

impl Command for DeleteFlowTableEntry {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DELETE_FLOW_TABLE_ENTRY;
    type In = ifc::delete_fte_in;
    type Out = ifc::delete_fte_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, delete_fte_in);
        let entry = hca.flow.remove_entry(
            input.get32(field!(delete_fte_in, table_id)),
            input.get32(field!(delete_fte_in, flow_index)),
        )?;
        release(hca, Some(&entry));
        Ok(())
    }
}

/// QUERY_FLOW_TABLE_ENTRY. The output has room for the destinations behind its fixed part.
pub struct QueryFlowTableEntry;

impl Command for QueryFlowTableEntry {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_FLOW_TABLE_ENTRY;
    type In = ifc::query_fte_in;
    type Out = ifc::query_fte_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_type(input.get32(field!(query_fte_in, table_type)))?;
        let id = input.get32(field!(query_fte_in, table_id));
        let index = input.get32(field!(query_fte_in, flow_index));
        let entry = hca.flow.entry(id, index)?;
        let (code, list) = match &entry.action {
            Action::Drop => (raw::MLX5_FLOW_CONTEXT_ACTION_DROP, &[][..]),
            Action::Forward(list) => (raw::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST, list.as_slice()),
        };
        let counting = match entry.counters.len() {
            0 => 0,
            _ => raw::MLX5_FLOW_CONTEXT_ACTION_COUNT,
        };
        output.with(span!(query_fte_out, flow_context), |context| {
            context
                .set(field!(flow_context, group_id), entry.group.into())
                .set(field!(flow_context, flow_tag), entry.tag.into())
                .set(field!(flow_context, action), (code | counting).into())
                .set(
                    field!(flow_context, destination_list_size),
                    list.len() as u64,
                )
                .set(
                    field!(flow_context, flow_counter_list_size),
                    entry.counters.len() as u64,
                );
            let value = context.raw(span!(flow_context, match_value));
            copy_front(value, entry.value.bytes());
        });
        let room = output.raw(span!(query_fte_out, flow_context.destination));
        let mut places = room.chunks_exact_mut(bytes_of::<ifc::dest_format>());
        for (destination, raw) in list.iter().zip(places.by_ref()) {
            let (kind, id) = match *destination {
                Destination::Table(id) => (raw::MLX5_IFC_FLOW_DESTINATION_TYPE_FLOW_TABLE, id),
                Destination::Tir(id) => (raw::MLX5_IFC_FLOW_DESTINATION_TYPE_TIR, id),
            };
            if let Some(mut format) = Mut::<ifc::dest_format>::new(raw) {
                format
                    .set(field!(dest_format, destination_type), kind.into())
                    .set(field!(dest_format, destination_id), id.into());
            }
        }
        for (counter, raw) in entry.counters.iter().zip(places) {
            if let Some(mut format) = Mut::<ifc::flow_counter_list>::new(raw) {
                format.set(
                    field!(flow_counter_list, flow_counter_id),
                    (*counter).into(),
                );
            }
        }
        Ok(())
    }
}
