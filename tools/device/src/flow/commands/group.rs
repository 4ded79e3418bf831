// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CREATE, DESTROY and QUERY_FLOW_GROUP.

use super::{check_domain, check_type, copy_front};
use crate::{
    cmd::{Command, Refused},
    flow::{key::Mask, tree::GROUP_FOOTPRINT},
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

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
