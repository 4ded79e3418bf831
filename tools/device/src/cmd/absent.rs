// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opcodes of the interface that the card does not know, and what keeps the stock drivers from
//! sending each. With [`super::registry`] the table covers the opcode enumeration of the header:
//! a test holds it against the header and against the profiles.
//!
//! "Stock drivers" are mlx5_core with its Ethernet part, mlx5_ib, mlx5_vdpa, mlx5-vfio-pci and the
//! fwctl driver of the kernel. Commands that programs hand through (devx, fwctl) need a user context.

use mlx5_hw::raw::*;

/// What keeps a command away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Each call site asks for one of these capabilities first (`group.field`), and the card has
    /// none of them.
    Capability(&'static [&'static str]),
    /// The capability has another value than the one that leads to the call.
    Value(&'static str, u64),
    /// No stock driver has a call site.
    Uncalled,
    /// There is a call site, but no way to it.
    Unreachable(&'static str),
}

/// One opcode.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// `MLX5_CMD_OP_*`.
    pub opcode: u32,
    /// What keeps it away.
    pub reason: Reason,
}

/// User contexts: `devx_*` in ib/devx.c, drivers/fwctl/mlx5, vdpa/mlx5/core/resources.c.
const USER: &[&str] = &["cmd_hca_cap.log_max_uctx", "cmd_hca_cap.uctx_cap"];
/// Virtual functions and other vports: core/eswitch.c (`mlx5_esw_allowed`), core/esw, core/lib/mpfs.c, core/fs_cmd.c.
const ESWITCH: &[&str] = &[
    "cmd_hca_cap.eswitch_manager",
    "cmd_hca_cap.log_max_uctx",
    "cmd_hca_cap.uctx_cap",
];
/// Sub-functions: core/sf.
const SUBFUNCTION: &[&str] = &["cmd_hca_cap.sf", "cmd_hca_cap.vhca_state"];
/// Live migration: `mlx5vf_cmd_set_migratable` in vfio/pci/mlx5/cmd.c.
const MIGRATION: &[&str] = &["cmd_hca_cap.migration"];
/// Memory on the card: ib/dm.c.
const DEVICE_MEMORY: &[&str] = &["cmd_hca_cap.device_memory"];
/// Dynamically connected transport: `check_qp_type` in ib/qp.c.
const DCT: &[&str] = &["cmd_hca_cap.dct"];
/// Tag matching: ib/srq.c makes an XRQ for that only.
const TAGS: &[&str] = &["cmd_hca_cap.tag_matching"];
/// Shapers: core/rl.c, ib/qos.c; core/qos.c, core/en/htb.c; core/esw/qos.c.
const QOS: &[&str] = &[
    "qos_cap.packet_pacing",
    "qos_cap.nic_sq_scheduling",
    "qos_cap.esw_scheduling",
];
/// Bonds: `mlx5_lag_is_supported` in core/lag/lag.h.
const LAG: &[&str] = &["cmd_hca_cap.lag_master"];
/// Wake on LAN: `mlx5e_get_wol_supported` in core/en_ethtool.c.
const WAKE: &[&str] = &[
    "cmd_hca_cap.wol_a",
    "cmd_hca_cap.wol_b",
    "cmd_hca_cap.wol_g",
    "cmd_hca_cap.wol_m",
    "cmd_hca_cap.wol_p",
    "cmd_hca_cap.wol_s",
    "cmd_hca_cap.wol_u",
];
/// Header rewriting: `mlx5e_tc_attach_mod_hdr` and `offload_pedit_fields` in core/en_tc.c.
const REWRITE: &[&str] =
    &["flow_table_nic_cap.flow_table_properties_nic_receive.max_modify_header_actions"];
/// Tunnel headers: core/en_tc.c for the e-switch, ib/fs.c.
const REFORMAT: &[&str] = &[
    "flow_table_nic_cap.flow_table_properties_nic_receive.reformat",
    "cmd_hca_cap.eswitch_manager",
];
/// Steering by software: `mlx5dr_domain_create`, `mlx5hws_context_open`, ib/fs.c.
const SOFTWARE_STEERING: &[&str] = &[
    "flow_table_nic_cap.flow_table_properties_nic_receive.sw_owner",
    "flow_table_nic_cap.flow_table_properties_nic_receive.sw_owner_v2",
    "cmd_hca_cap.eswitch_manager",
];
/// Objects with a type: core/en_accel, core/lib/crypto.c, vdpa, ib; each looks for its type.
const OBJECTS: &[&str] = &["cmd_hca_cap.general_obj_types"];
const FPGA: &[&str] = &["cmd_hca_cap.fpga"];
const PSP: &[&str] = &["cmd_hca_cap.psp"];
const MONITOR: &[&str] = &["cmd_hca_cap.max_num_of_monitor_counters"];
const VXLAN: &[&str] = &["per_protocol_networking_offload_caps.tunnel_stateless_vxlan"];
const INTEGRITY: &[&str] = &["cmd_hca_cap.sho"];

const fn cap(opcode: u32, caps: &'static [&'static str]) -> Absent {
    Absent {
        opcode,
        reason: Reason::Capability(caps),
    }
}

const fn uncalled(opcode: u32) -> Absent {
    Absent {
        opcode,
        reason: Reason::Uncalled,
    }
}

/// `port_type` of InfiniBand: mlx5_ib takes these for such ports only (`mlx5_get_vport_access_method`).
const fn infiniband(opcode: u32) -> Absent {
    Absent {
        opcode,
        reason: Reason::Value("cmd_hca_cap.port_type", 0),
    }
}

const fn unreachable(opcode: u32, why: &'static str) -> Absent {
    Absent {
        opcode,
        reason: Reason::Unreachable(why),
    }
}

/// All of them.
pub const ABSENT: &[Absent] = &[
    cap(MLX5_CMD_OP_QUERY_SF_PARTITION, SUBFUNCTION),
    cap(MLX5_CMD_OP_ALLOC_SF, SUBFUNCTION),
    cap(MLX5_CMD_OP_DEALLOC_SF, SUBFUNCTION),
    cap(MLX5_CMD_OP_QUERY_VHCA_STATE, SUBFUNCTION),
    cap(MLX5_CMD_OP_MODIFY_VHCA_STATE, SUBFUNCTION),
    cap(MLX5_CMD_OP_SUSPEND_VHCA, MIGRATION),
    cap(MLX5_CMD_OP_RESUME_VHCA, MIGRATION),
    cap(MLX5_CMD_OP_QUERY_VHCA_MIGRATION_STATE, MIGRATION),
    cap(MLX5_CMD_OP_SAVE_VHCA_STATE, MIGRATION),
    cap(MLX5_CMD_OP_LOAD_VHCA_STATE, MIGRATION),
    cap(MLX5_CMD_OP_PAGE_FAULT_RESUME, &["cmd_hca_cap.pg"]),
    cap(MLX5_CMD_OP_ALLOC_MEMIC, DEVICE_MEMORY),
    cap(MLX5_CMD_OP_DEALLOC_MEMIC, DEVICE_MEMORY),
    cap(MLX5_CMD_OP_MODIFY_MEMIC, DEVICE_MEMORY),
    uncalled(MLX5_CMD_OP_GEN_EQE),
    unreachable(
        MLX5_CMD_OP_SQD_RTS_QP,
        "ib/qp.c knows no command that takes a QP to SQD",
    ),
    cap(MLX5_CMD_OP_CREATE_PSV, INTEGRITY),
    cap(MLX5_CMD_OP_DESTROY_PSV, INTEGRITY),
    cap(MLX5_CMD_OP_CREATE_DCT, DCT),
    cap(MLX5_CMD_OP_DESTROY_DCT, DCT),
    cap(MLX5_CMD_OP_DRAIN_DCT, DCT),
    cap(MLX5_CMD_OP_QUERY_DCT, DCT),
    cap(MLX5_CMD_OP_ARM_DCT_FOR_KEY_VIOLATION, USER),
    cap(MLX5_CMD_OP_CREATE_XRQ, TAGS),
    cap(MLX5_CMD_OP_DESTROY_XRQ, TAGS),
    cap(MLX5_CMD_OP_QUERY_XRQ, TAGS),
    cap(MLX5_CMD_OP_MODIFY_XRQ, TAGS),
    cap(MLX5_CMD_OP_ARM_XRQ, USER),
    cap(MLX5_CMD_OP_QUERY_XRQ_DC_PARAMS_ENTRY, USER),
    cap(MLX5_CMD_OP_SET_XRQ_DC_PARAMS_ENTRY, USER),
    cap(MLX5_CMD_OP_QUERY_XRQ_ERROR_PARAMS, USER),
    cap(MLX5_CMD_OP_RELEASE_XRQ_ERROR, USER),
    cap(MLX5_CMD_OPCODE_QUERY_DELEGATED_VHCA, ESWITCH),
    cap(MLX5_CMD_OPCODE_CREATE_ESW_VPORT, ESWITCH),
    cap(MLX5_CMD_OPCODE_DESTROY_ESW_VPORT, ESWITCH),
    cap(MLX5_CMD_OP_QUERY_ESW_FUNCTIONS, ESWITCH),
    cap(MLX5_CMD_OP_QUERY_ESW_VPORT_CONTEXT, ESWITCH),
    cap(MLX5_CMD_OP_MODIFY_ESW_VPORT_CONTEXT, ESWITCH),
    cap(MLX5_CMD_OP_SET_L2_TABLE_ENTRY, ESWITCH),
    cap(MLX5_CMD_OP_QUERY_L2_TABLE_ENTRY, ESWITCH),
    cap(MLX5_CMD_OP_DELETE_L2_TABLE_ENTRY, ESWITCH),
    infiniband(MLX5_CMD_OP_QUERY_HCA_VPORT_CONTEXT),
    infiniband(MLX5_CMD_OP_MODIFY_HCA_VPORT_CONTEXT),
    infiniband(MLX5_CMD_OP_QUERY_HCA_VPORT_GID),
    cap(MLX5_CMD_OP_SET_MONITOR_COUNTER, MONITOR),
    cap(MLX5_CMD_OP_ARM_MONITOR_COUNTER, MONITOR),
    cap(MLX5_CMD_OP_SET_PP_RATE_LIMIT, QOS),
    cap(MLX5_CMD_OP_QUERY_RATE_LIMIT, USER),
    cap(MLX5_CMD_OP_CREATE_SCHEDULING_ELEMENT, QOS),
    cap(MLX5_CMD_OP_DESTROY_SCHEDULING_ELEMENT, QOS),
    cap(MLX5_CMD_OP_QUERY_SCHEDULING_ELEMENT, USER),
    cap(MLX5_CMD_OP_MODIFY_SCHEDULING_ELEMENT, QOS),
    uncalled(MLX5_CMD_OP_CREATE_QOS_PARA_VPORT),
    uncalled(MLX5_CMD_OP_DESTROY_QOS_PARA_VPORT),
    uncalled(MLX5_CMD_OP_CONFIG_INT_MODERATION),
    cap(MLX5_CMD_OP_GET_DROPPED_PACKET_LOG, USER),
    cap(MLX5_CMD_OP_QUERY_MAD_DEMUX, USER),
    uncalled(MLX5_CMD_OP_SET_MAD_DEMUX),
    cap(MLX5_CMD_OP_NOP, USER),
    cap(MLX5_CMD_OP_ADD_VXLAN_UDP_DPORT, VXLAN),
    cap(MLX5_CMD_OP_DELETE_VXLAN_UDP_DPORT, VXLAN),
    cap(MLX5_CMD_OP_SET_WOL_ROL, WAKE),
    cap(MLX5_CMD_OP_QUERY_WOL_ROL, WAKE),
    cap(MLX5_CMD_OP_CREATE_LAG, LAG),
    cap(MLX5_CMD_OP_MODIFY_LAG, LAG),
    cap(MLX5_CMD_OP_QUERY_LAG, USER),
    cap(MLX5_CMD_OP_DESTROY_LAG, LAG),
    cap(MLX5_CMD_OP_CREATE_VPORT_LAG, LAG),
    cap(MLX5_CMD_OP_DESTROY_VPORT_LAG, LAG),
    cap(
        MLX5_CMD_OP_SET_DELAY_DROP_PARAMS,
        &["cmd_hca_cap.rq_delay_drop"],
    ),
    cap(MLX5_CMD_OP_ALLOC_PACKET_REFORMAT_CONTEXT, REFORMAT),
    cap(MLX5_CMD_OP_DEALLOC_PACKET_REFORMAT_CONTEXT, REFORMAT),
    cap(MLX5_CMD_OP_QUERY_PACKET_REFORMAT_CONTEXT, USER),
    cap(MLX5_CMD_OP_ALLOC_MODIFY_HEADER_CONTEXT, REWRITE),
    cap(MLX5_CMD_OP_DEALLOC_MODIFY_HEADER_CONTEXT, REWRITE),
    cap(MLX5_CMD_OP_QUERY_MODIFY_HEADER_CONTEXT, USER),
    cap(MLX5_CMD_OP_FPGA_CREATE_QP, FPGA),
    cap(MLX5_CMD_OP_FPGA_MODIFY_QP, FPGA),
    cap(MLX5_CMD_OP_FPGA_QUERY_QP, FPGA),
    cap(MLX5_CMD_OP_FPGA_DESTROY_QP, FPGA),
    cap(MLX5_CMD_OP_FPGA_QUERY_QP_COUNTERS, FPGA),
    cap(MLX5_CMD_OP_CREATE_GENERAL_OBJECT, OBJECTS),
    cap(MLX5_CMD_OP_MODIFY_GENERAL_OBJECT, OBJECTS),
    cap(MLX5_CMD_OP_QUERY_GENERAL_OBJECT, OBJECTS),
    cap(MLX5_CMD_OP_DESTROY_GENERAL_OBJECT, OBJECTS),
    cap(MLX5_CMD_OP_CREATE_UCTX, USER),
    cap(MLX5_CMD_OP_DESTROY_UCTX, USER),
    cap(MLX5_CMD_OP_CREATE_UMEM, USER),
    cap(MLX5_CMD_OP_DESTROY_UMEM, USER),
    cap(MLX5_CMD_OP_SYNC_STEERING, SOFTWARE_STEERING),
    cap(MLX5_CMD_OP_GENERATE_WQE, SOFTWARE_STEERING),
    cap(MLX5_CMD_OP_PSP_GEN_SPI, PSP),
    cap(MLX5_CMD_OP_PSP_ROTATE_KEY, PSP),
    cap(MLX5_CMD_OP_SYNC_CRYPTO, OBJECTS),
    uncalled(MLX5_CMD_OP_ALLOW_OTHER_VHCA_ACCESS),
    cap(
        MLX5_CMD_OPCODE_QUERY_VUID,
        &["cmd_hca_cap.data_direct", "cmd_hca_cap.uctx_cap"],
    ),
];
