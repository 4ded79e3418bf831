// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the adapter says of itself, and what a driver says of itself.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Needs, Refused},
    hca::Hca,
    mkey, refuse,
};

/// IEEE vendor id that RDMA tools show.
const IEEE_VENDOR: u64 = 0x2c9;
/// PCI vendor id, in front of the vendor specific data.
const VSD_VENDOR: u64 = 0x15b3;

/// QUERY_ADAPTER.
pub struct QueryAdapter;

impl Command for QueryAdapter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_ADAPTER;
    type In = ifc::query_adapter_in;
    type Out = ifc::query_adapter_out;
    const NEEDS: Needs = Needs::Enabled;

    fn run(
        hca: &mut Hca,
        _input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        output
            .set(
                field!(query_adapter_out, query_adapter_struct.ieee_vendor_id),
                IEEE_VENDOR,
            )
            .set(
                field!(query_adapter_out, query_adapter_struct.vsd_vendor_id),
                VSD_VENDOR,
            );
        let psid = hca.env.profile.firmware.psid.as_bytes();
        let place = output.raw(span!(
            query_adapter_out,
            query_adapter_struct.vsd_contd_psid
        ));
        for (to, from) in place.iter_mut().zip(psid) {
            *to = *from;
        }
        Ok(())
    }
}

/// SET_DRIVER_VERSION: a line of text for whoever looks after the card.
pub struct SetDriverVersion;

impl Command for SetDriverVersion {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_DRIVER_VERSION;
    type In = ifc::set_driver_version_in;
    type Out = ifc::set_driver_version_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let raw = input.raw(span!(set_driver_version_in, driver_version));
        let text: Vec<u8> = raw.iter().copied().take_while(|byte| *byte != 0).collect();
        if text
            .iter()
            .any(|byte| !byte.is_ascii_graphic() && *byte != b' ')
        {
            refuse!(BadParam, 1, "the driver version is not printable");
        }
        hca.driver_version = String::from_utf8_lossy(&text).into_owned();
        tracing::info!("driver {}", hca.driver_version);
        Ok(())
    }
}

/// QUERY_SPECIAL_CONTEXTS.
pub struct QuerySpecialContexts;

impl Command for QuerySpecialContexts {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_SPECIAL_CONTEXTS;
    type In = ifc::query_special_contexts_in;
    type Out = ifc::query_special_contexts_out;

    fn run(
        _hca: &mut Hca,
        _input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        output
            .set(
                field!(query_special_contexts_out, resd_lkey),
                mkey::RESERVED_LKEY.into(),
            )
            .set(
                field!(query_special_contexts_out, terminate_scatter_list_mkey),
                mkey::TERMINATE_LKEY.into(),
            );
        Ok(())
    }
}

/// MAD_IFC: an Ethernet port has no subnet management agent, so every packet is discarded.
pub struct MadIfc;

impl Command for MadIfc {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MAD_IFC;
    type In = ifc::mad_ifc_in;
    type Out = ifc::mad_ifc_out;

    fn op_mod(op_mod: u16) -> bool {
        // Bits 0 and 1: do not check M_Key, B_Key.
        op_mod < 4
    }

    fn run(
        _hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let class = input.raw(span!(mad_ifc_in, mad)).get(1).copied();
        refuse!(
            BadPacket,
            1,
            "management class {:#x} on an Ethernet port",
            class.unwrap_or(0)
        );
    }
}

/// QUERY_HCA_VPORT_PKEY: RoCE has one partition, the default one.
pub struct QueryPkey;

impl Command for QueryPkey {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_HCA_VPORT_PKEY;
    type In = ifc::query_hca_vport_pkey_in;
    type Out = ifc::query_hca_vport_pkey_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        /// All entries at once.
        const ALL: u64 = 0xffff;
        /// The default partition, full member.
        const DEFAULT: u32 = 0xffff;
        if input.flag(field!(query_hca_vport_pkey_in, other_vport)) {
            refuse!(BadParam, 1, "P_Keys of another vport");
        }
        let entries = 128u64 << hca.caps.get(field!(cmd_hca_cap, pkey_table_size)).min(8);
        let index = input.get(field!(query_hca_vport_pkey_in, pkey_index));
        let wanted = match index {
            ALL => entries,
            index if index < entries => 1,
            _ => refuse!(BadIndex, 2, "P_Key {index} of {entries}"),
        };
        let list = output.raw(span!(query_hca_vport_pkey_out, pkey));
        if (list.len() as u64) < 4 * wanted {
            refuse!(BadOutputLen, 3, "no room for {wanted} P_Keys");
        }
        if let (ALL | 0, Some(first)) = (index, list.get_mut(..4)) {
            first.copy_from_slice(&DEFAULT.to_be_bytes());
        }
        Ok(())
    }
}
