// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CREATE, MODIFY, DESTROY and QUERY_FLOW_TABLE, SET_FLOW_TABLE_ROOT.

use super::{check_domain, check_type, limits};
use crate::{
    cmd::{Command, Refused},
    flow::{table::Miss, tree::TABLE_FOOTPRINT},
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

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
