// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steering commands. Source of the layouts and of how a driver fills them: core/fs_cmd.c.

use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
};

use super::{
    key::Mask,
    table::{Action, Destination, Entry, Miss},
    tree::{Change, FlowError, Limits, ENTRY_FOOTPRINT, GROUP_FOOTPRINT, TABLE_FOOTPRINT},
};
use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
};

impl From<FlowError> for Refused {
    fn from(error: FlowError) -> Self {
        Self::new(error.status(), 0x7200, error.to_string())
    }
}

fn limits(hca: &Hca) -> Limits {
    macro_rules! cap {
        ($member:ident) => {
            hca.caps.get(field!(
                flow_table_nic_cap,
                flow_table_properties_nic_receive.$member
            ))
        };
    }
    // CAST: 6 or 8 bits.
    Limits {
        log_max_ft_size: cap!(log_max_ft_size) as u8,
        log_max_ft_num: cap!(log_max_ft_num) as u8,
        log_max_destination: cap!(log_max_destination) as u8,
        flow_modify_en: cap!(flow_modify_en) != 0,
        modify_root: cap!(modify_root) != 0,
        identified_miss_table_mode: cap!(identified_miss_table_mode) != 0,
        flow_table_modify: cap!(flow_table_modify) != 0,
    }
}

/// Refuses tables of other domains and of other functions. All steering commands but queries name
/// both in the same places.
macro_rules! check_domain {
    ($input:expr, $layout:ident) => {
        check_type($input.get32(field!($layout, table_type)))?;
        if $input.flag(field!($layout, other_vport))
            || $input.flag(field!($layout, other_eswitch))
            || $input.flag(field!($layout, vport_number))
            || $input.flag(field!($layout, eswitch_owner_vhca_id))
        {
            refuse!(BadParam, 0x7202, "flow table of another function");
        }
    };
}

fn check_type(table_type: u32) -> Result<(), Refused> {
    if table_type != raw::MLX5_FLOW_TABLE_TYPE_NIC_RX {
        refuse!(BadParam, 0x7201, "flow table of type {table_type:#x}");
    }
    Ok(())
}

/// `enum mlx5_flow_table_miss_action` in mlx5_ifc.h.
mod miss_action {
    pub(super) const DEFAULT: u32 = 0;
    pub(super) const FORWARD: u32 = 1;
}

fn miss(context: Ref<'_, ifc::flow_table_context>) -> Result<Miss, Refused> {
    let action = context.get32(field!(flow_table_context, table_miss_action));
    match action {
        miss_action::DEFAULT => Ok(Miss::Default),
        miss_action::FORWARD => Ok(Miss::Table(
            context.get32(field!(flow_table_context, table_miss_id)),
        )),
        _ => refuse!(BadParam, 0x7203, "miss action {action}"),
    }
}

/// CREATE_FLOW_TABLE.
pub struct CreateFlowTable;

impl Command for CreateFlowTable {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_FLOW_TABLE;
    type In = ifc::create_flow_table_in;
    type Out = ifc::create_flow_table_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        TABLE_FOOTPRINT
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, create_flow_table_in);
        let context = input.sub(span!(create_flow_table_in, flow_table_context));
        for (name, asked) in [
            (
                "reformat_en",
                context.flag(field!(flow_table_context, reformat_en)),
            ),
            (
                "decap_en",
                context.flag(field!(flow_table_context, decap_en)),
            ),
            (
                "sw_owner",
                context.flag(field!(flow_table_context, sw_owner)),
            ),
            (
                "termination_table",
                context.flag(field!(flow_table_context, termination_table)),
            ),
            (
                "rtc_valid",
                context.flag(field!(flow_table_context, rtc_valid)),
            ),
            (
                "lag_master_next_table_id",
                context.flag(field!(flow_table_context, lag_master_next_table_id)),
            ),
        ] {
            if asked {
                refuse!(BadParam, 1, "flow table with {name}");
            }
        }
        let miss = miss(context)?;
        // CAST: 8 bits each.
        let level = context.get(field!(flow_table_context, level)) as u8;
        let log_size = context.get(field!(flow_table_context, log_size)) as u8;
        let limits = limits(hca);
        let id = hca.flow.create_table(level, log_size, miss, &limits)?;
        output.set(field!(create_flow_table_out, table_id), id.into());
        Ok(())
    }
}

/// MODIFY_FLOW_TABLE.
pub struct ModifyFlowTable;

impl Command for ModifyFlowTable {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_FLOW_TABLE;
    type In = ifc::modify_flow_table_in;
    type Out = ifc::modify_flow_table_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, modify_flow_table_in);
        let id = input.get32(field!(modify_flow_table_in, table_id));
        let fields = input.get32(field!(modify_flow_table_in, modify_field_select));
        if fields != raw::MLX5_MODIFY_FLOW_TABLE_MISS_TABLE_ID {
            refuse!(BadParam, 1, "flow table modification of fields {fields:#x}");
        }
        let miss = miss(input.sub(span!(modify_flow_table_in, flow_table_context)))?;
        let limits = limits(hca);
        hca.flow.modify_miss(id, miss, &limits)?;
        Ok(())
    }
}

/// DESTROY_FLOW_TABLE.
pub struct DestroyFlowTable;

impl Command for DestroyFlowTable {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_FLOW_TABLE;
    type In = ifc::destroy_flow_table_in;
    type Out = ifc::destroy_flow_table_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, destroy_flow_table_in);
        let id = input.get32(field!(destroy_flow_table_in, table_id));
        hca.flow.destroy_table(id)?;
        Ok(())
    }
}

/// QUERY_FLOW_TABLE.
pub struct QueryFlowTable;

impl Command for QueryFlowTable {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_FLOW_TABLE;
    type In = ifc::query_flow_table_in;
    type Out = ifc::query_flow_table_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_type(input.get32(field!(query_flow_table_in, table_type)))?;
        let id = input.get32(field!(query_flow_table_in, table_id));
        let table = hca.flow.table(id)?;
        output.with(span!(query_flow_table_out, flow_table_context), |context| {
            context
                .set(field!(flow_table_context, level), table.level.into())
                .set(field!(flow_table_context, log_size), table.log_size.into());
            if let Miss::Table(to) = table.miss {
                context
                    .set(
                        field!(flow_table_context, table_miss_action),
                        miss_action::FORWARD.into(),
                    )
                    .set(field!(flow_table_context, table_miss_id), to.into());
            }
        });
        Ok(())
    }
}

/// SET_FLOW_TABLE_ROOT.
pub struct SetFlowTableRoot;

impl Command for SetFlowTableRoot {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_FLOW_TABLE_ROOT;
    type In = ifc::set_flow_table_root_in;
    type Out = ifc::set_flow_table_root_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, set_flow_table_root_in);
        if input.flag(field!(set_flow_table_root_in, table_of_other_vport))
            || input.flag(field!(
                set_flow_table_root_in,
                table_eswitch_owner_vhca_id_valid
            ))
            || input.flag(field!(set_flow_table_root_in, underlay_qpn))
        {
            refuse!(BadParam, 1, "root table of another function or of a QP");
        }
        let id = input.get32(field!(set_flow_table_root_in, table_id));
        let limits = limits(hca);
        hca.flow.set_root(id, &limits)?;
        Ok(())
    }
}

/// CREATE_FLOW_GROUP.
pub struct CreateFlowGroup;

impl Command for CreateFlowGroup {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_FLOW_GROUP;
    type In = ifc::create_flow_group_in;
    type Out = ifc::create_flow_group_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        GROUP_FOOTPRINT
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, create_flow_group_in);
        if input.flag(field!(create_flow_group_in, group_type))
            || input.flag(field!(create_flow_group_in, match_definer_id))
            || input.flag(field!(
                create_flow_group_in,
                source_eswitch_owner_vhca_id_valid
            ))
        {
            refuse!(BadParam, 1, "flow group with a match definer or e-switch");
        }
        // CAST: 8 bits.
        let enable = input.get(field!(create_flow_group_in, match_criteria_enable)) as u8;
        let mask = match Mask::parse(
            input.raw(span!(create_flow_group_in, match_criteria)),
            enable,
        ) {
            Ok(mask) => mask,
            Err(error) => refuse!(BadParam, 2, "flow group: {error}"),
        };
        let group = hca.flow.create_group(
            input.get32(field!(create_flow_group_in, table_id)),
            input.get32(field!(create_flow_group_in, start_flow_index)),
            input.get32(field!(create_flow_group_in, end_flow_index)),
            mask,
        )?;
        output.set(field!(create_flow_group_out, group_id), group.into());
        Ok(())
    }
}

/// DESTROY_FLOW_GROUP.
pub struct DestroyFlowGroup;

impl Command for DestroyFlowGroup {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_FLOW_GROUP;
    type In = ifc::destroy_flow_group_in;
    type Out = ifc::destroy_flow_group_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_domain!(input, destroy_flow_group_in);
        hca.flow.destroy_group(
            input.get32(field!(destroy_flow_group_in, table_id)),
            input.get32(field!(destroy_flow_group_in, group_id)),
        )?;
        Ok(())
    }
}

/// QUERY_FLOW_GROUP.
pub struct QueryFlowGroup;

impl Command for QueryFlowGroup {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_FLOW_GROUP;
    type In = ifc::query_flow_group_in;
    type Out = ifc::query_flow_group_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        check_type(input.get32(field!(query_flow_group_in, table_type)))?;
        let group = hca.flow.group(
            input.get32(field!(query_flow_group_in, table_id)),
            input.get32(field!(query_flow_group_in, group_id)),
        )?;
        output
            .set(
                field!(query_flow_group_out, start_flow_index),
                group.start.into(),
            )
            .set(
                field!(query_flow_group_out, end_flow_index),
                group.end.into(),
            )
            .set(
                field!(query_flow_group_out, match_criteria_enable),
                group.mask.enable().into(),
            );
        let criteria = output.raw(span!(query_flow_group_out, match_criteria));
        copy_front(criteria, group.mask.bytes());
        Ok(())
    }
}

fn copy_front(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// Bits of `modify_enable_mask`: `MLX5_SET_FTE_MODIFY_ENABLE_MASK_*` are their numbers.
mod change {
    use mlx5_hw::raw;

    pub(super) const ACTION: u32 = 1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_ACTION;
    pub(super) const TAG: u32 = 1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_FLOW_TAG;
    pub(super) const LIST: u32 = 1 << raw::MLX5_SET_FTE_MODIFY_ENABLE_MASK_DESTINATION_LIST;
}

/// op_mod of SET_FLOW_TABLE_ENTRY that changes an entry; 0 makes one.
const MODIFY: u16 = 1;

/// Action and destinations of a flow context; `list` is what follows its fixed part.
fn action(context: Ref<'_, ifc::flow_context>, list: &[u8]) -> Result<Action, Refused> {
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
            "flow counters",
            context.flag(field!(flow_context, flow_counter_list_size)),
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
    let step = bytes_of::<ifc::dest_format>();
    // CAST: 24 bits.
    if list.len() != size as usize * step {
        refuse!(
            BadInputLen,
            0x7211,
            "flow entry with {size} destinations, {} bytes given",
            list.len()
        );
    }
    let code = context.get32(field!(flow_context, action));
    match code {
        raw::MLX5_FLOW_CONTEXT_ACTION_DROP if size == 0 => Ok(Action::Drop),
        raw::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST => list
            .chunks_exact(step)
            .map(destination)
            .collect::<Result<_, _>>()
            .map(Action::Forward),
        _ => refuse!(
            BadParam,
            0x7212,
            "flow entry with action {code:#x} and {size} destinations"
        ),
    }
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
        let action = action(context, list)?;
        let tag = context.get32(field!(flow_context, flow_tag));
        for tirn in action.tirs() {
            hca.tirs.find(tirn)?;
        }
        let limits = limits(hca);
        let modify = input.get32(field!(set_fte_in, op_mod)) == u32::from(MODIFY);
        let old = if modify {
            let mask = input.get32(field!(set_fte_in, modify_enable_mask));
            if mask & !(change::ACTION | change::TAG | change::LIST) != 0 {
                refuse!(BadParam, 2, "flow entry modification of fields {mask:#x}");
            }
            let change = Change {
                action: mask & change::ACTION != 0,
                tag: mask & change::TAG != 0,
                destinations: mask & change::LIST != 0,
            };
            Some(
                hca.flow
                    .modify_entry(id, index, change, tag, action, &limits)?,
            )
        } else {
            let group = context.get32(field!(flow_context, group_id));
            let mask = &hca.flow.group(id, group)?.mask;
            let value = mask.value(context.raw(span!(flow_context, match_value)));
            let entry = Entry {
                group,
                value,
                tag,
                action,
            };
            hca.flow.add_entry(id, index, entry, &limits)?;
            None
        };
        let new = hca.flow.entry(id, index)?.action.clone();
        for tirn in new.tirs() {
            hca.tirs.hold(tirn)?;
        }
        release(hca, old.as_ref());
        Ok(())
    }
}

fn release(hca: &mut Hca, entry: Option<&Entry>) {
    for tirn in entry.iter().flat_map(|entry| entry.action.tirs()) {
        hca.tirs.release(tirn);
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
        output.with(span!(query_fte_out, flow_context), |context| {
            context
                .set(field!(flow_context, group_id), entry.group.into())
                .set(field!(flow_context, flow_tag), entry.tag.into())
                .set(field!(flow_context, action), code.into())
                .set(
                    field!(flow_context, destination_list_size),
                    list.len() as u64,
                );
            let value = context.raw(span!(flow_context, match_value));
            copy_front(value, entry.value.bytes());
        });
        let room = output.raw(span!(query_fte_out, flow_context.destination));
        for (raw, destination) in room
            .chunks_exact_mut(bytes_of::<ifc::dest_format>())
            .zip(list)
        {
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
        Ok(())
    }
}
