// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers of the header that the card does not have, and what keeps the stock drivers from asking for each. An access
//! ends with BAD_PARAM. With the registers that are there the table covers the enumeration of the header: a test holds it
//! against the header and against the profiles.
//!
//! "Stock drivers" as in [`crate::cmd::absent`]. The features of MCAM and PCAM are read only where `mcam_reg` and
//! `pcam_reg` say that these are there.

use mlx5_hw::raw::*;

/// What becomes of the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Each call site asks for one of these capabilities first (`group.field`), and the card has none of them.
    Capability(&'static [&'static str]),
    /// No stock driver has a call site.
    Uncalled,
    /// There is a call site, but no way to it.
    Unreachable(&'static str),
    /// It is asked for, and this is what the refusal means.
    Asked(&'static str),
}

/// One register.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// `MLX5_REG_*`.
    pub id: u32,
    /// What becomes of an access.
    pub reason: Reason,
}

/// Management: core/fw.c, core/fw_reset.c, core/health.c, core/hwmon.c, core/dpll.c, core/events.c, core/en_stats.c,
/// core/diag/fw_tracer.c, core/lib/clock.c, core/lib/sd.c.
const MANAGEMENT: &[&str] = &["cmd_hca_cap.mcam_reg"];
/// Ports: core/en/port.c, core/en/port_buffer.h, core/en_stats.c.
const PORTS: &[&str] = &["cmd_hca_cap.pcam_reg"];
/// `MLX5_CAP_DEBUG`: core/diag.
const DEBUG: &[&str] = &["cmd_hca_cap.debug"];
const FPGA: &[&str] = &["cmd_hca_cap.fpga"];
/// `MLX5_PPS_CAP` in core/mlx5_core.h.
const PULSES: &[&str] = &["cmd_hca_cap.pps"];

const fn absent(id: u32, reason: Reason) -> Absent {
    Absent { id, reason }
}

const fn cap(id: u32, caps: &'static [&'static str]) -> Absent {
    absent(id, Reason::Capability(caps))
}

const fn uncalled(id: u32) -> Absent {
    absent(id, Reason::Uncalled)
}

/// mlx5_ib asks for it where the port is InfiniBand.
const fn infiniband(id: u32) -> Absent {
    absent(id, Reason::Unreachable("the port is Ethernet (ib/main.c)"))
}

/// All of them.
pub const ABSENT: &[Absent] = &[
    cap(MLX5_REG_SBPR, PORTS),
    cap(MLX5_REG_SBCM, PORTS),
    cap(MLX5_REG_DCBX_PARAM, &["cmd_hca_cap.dcbx"]),
    uncalled(MLX5_REG_DCBX_APP),
    cap(MLX5_REG_FPGA_CAP, FPGA),
    cap(MLX5_REG_FPGA_CTRL, FPGA),
    cap(MLX5_REG_FPGA_ACCESS_REG, FPGA),
    cap(MLX5_REG_CORE_DUMP, DEBUG),
    infiniband(MLX5_REG_PCAP),
    cap(MLX5_REG_PPTB, PORTS),
    cap(MLX5_REG_PBMC, PORTS),
    uncalled(MLX5_REG_PMAOS),
    uncalled(MLX5_REG_PUDE),
    uncalled(MLX5_REG_PMPE),
    uncalled(MLX5_REG_PELC),
    infiniband(MLX5_REG_PVLC),
    cap(MLX5_REG_PCMR, &["cmd_hca_cap.ports_check"]),
    absent(
        MLX5_REG_PDDR,
        Reason::Asked("ethtool has no reason for a link that is down"),
    ),
    absent(
        MLX5_REG_PMLP,
        Reason::Asked("ethtool -m shows no transceiver"),
    ),
    cap(MLX5_REG_PPLM, PORTS),
    cap(MLX5_REG_PPHCR, PORTS),
    cap(MLX5_REG_PCAM, PORTS),
    cap(MLX5_REG_MTCAP, MANAGEMENT),
    cap(MLX5_REG_MTMP, MANAGEMENT),
    absent(
        MLX5_REG_MCIA,
        Reason::Unreachable("PMLP comes first (`mlx5_query_module_eeprom` in core/port.c)"),
    ),
    absent(
        MLX5_REG_MNVDA,
        Reason::Asked("devlink shows no parameters of firmware (core/lib/nv_param.c)"),
    ),
    absent(
        MLX5_REG_MFRL,
        Reason::Asked("devlink cannot activate firmware (core/devlink.c); the rest wants MCAM"),
    ),
    cap(MLX5_REG_MLCR, &["cmd_hca_cap.beacon_led"]),
    cap(MLX5_REG_MRTC, MANAGEMENT),
    cap(MLX5_REG_MTRC_CAP, MANAGEMENT),
    cap(MLX5_REG_MTRC_CONF, MANAGEMENT),
    cap(MLX5_REG_MTRC_STDB, MANAGEMENT),
    cap(MLX5_REG_MTRC_CTRL, MANAGEMENT),
    cap(MLX5_REG_MPEIN, MANAGEMENT),
    cap(MLX5_REG_MPCNT, MANAGEMENT),
    cap(MLX5_REG_MTPPS, PULSES),
    cap(MLX5_REG_MTPPSE, PULSES),
    cap(MLX5_REG_MTUTC, MANAGEMENT),
    uncalled(MLX5_REG_MPEGC),
    cap(MLX5_REG_MPIR, MANAGEMENT),
    cap(MLX5_REG_MSECQ, MANAGEMENT),
    cap(MLX5_REG_MSEES, MANAGEMENT),
    cap(MLX5_REG_MIRC, MANAGEMENT),
    cap(MLX5_REG_MTPTM, MANAGEMENT),
    cap(MLX5_REG_MTCTR, MANAGEMENT),
    cap(MLX5_REG_MRTCQ, MANAGEMENT),
    cap(MLX5_REG_SBCAM, &["cmd_hca_cap.sbcam_reg"]),
    cap(MLX5_REG_RESOURCE_DUMP, DEBUG),
    cap(MLX5_REG_NIC_CAP, &["cmd_hca_cap.nic_cap_reg"]),
    absent(
        MLX5_REG_DTOR,
        Reason::Unreachable("`cmd_q_init_to` of the initialization segment is 0 (core/lib/tout.c)"),
    ),
    cap(MLX5_REG_VHCA_ICM_CTRL, &["cmd_hca_cap.nic_cap_reg"]),
];
