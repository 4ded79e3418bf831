// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steering commands. Source of the layouts and of how a driver fills them: core/fs_cmd.c.

mod counter;
mod entry;
mod group;
mod table;

pub use counter::{AllocFlowCounter, DeallocFlowCounter, QueryFlowCounter};
pub use entry::{DeleteFlowTableEntry, QueryFlowTableEntry, SetFlowTableEntry};
pub use group::{CreateFlowGroup, DestroyFlowGroup, QueryFlowGroup};
pub use table::{
    CreateFlowTable, //
    DestroyFlowTable,
    ModifyFlowTable,
    QueryFlowTable,
    SetFlowTableRoot,
};

use super::tree::{FlowError, Limits};
use crate::{cmd::Refused, hca::Hca, refuse};
use mlx5_hw::{field, raw};

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
        log_max_flow_counter: cap!(log_max_flow_counter) as u8,
        flow_counter: cap!(flow_counter) != 0,
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
use check_domain;

fn check_type(table_type: u32) -> Result<(), Refused> {
    if table_type != raw::MLX5_FLOW_TABLE_TYPE_NIC_RX {
        refuse!(BadParam, 0x7201, "flow table of type {table_type:#x}");
    }
    Ok(())
}

fn copy_front(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
