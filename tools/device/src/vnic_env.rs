// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QUERY_VNIC_ENV: what the function counts of its own troubles, for `devlink health diagnose` and
//! `ethtool -S`. Source: core/diag/reporter_vnic.c, core/en_stats.c.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    vport::own_vport,
};

/// The counters whose capabilities the profiles offer; the others read as zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct VnicEnv {
    /// Frames that passed the vport and missed in the flow tables.
    pub steering_discards: u64,
    /// Commands that were refused.
    pub invalid_commands: u32,
    /// CQs that overran.
    pub cq_overruns: u32,
    /// EQs that overran and take completion events.
    pub comp_eq_overruns: u32,
    /// EQs that overran and take other events.
    pub async_eq_overruns: u32,
    /// Reads and writes of doorbell pages.
    pub uar_accesses: u32,
}

/// QUERY_VNIC_ENV.
pub struct QueryVnicEnv;

impl Command for QueryVnicEnv {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_VNIC_ENV;
    type In = ifc::query_vnic_env_in;
    type Out = ifc::query_vnic_env_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_vport(
            input.flag(field!(query_vnic_env_in, other_vport)),
            input.get(field!(query_vnic_env_in, vport_number)),
        )?;
        let env = hca.vnic;
        output.with(span!(query_vnic_env_out, vport_env), |out| {
            out.set(
                field!(vnic_diagnostic_statistics, nic_receive_steering_discard),
                env.steering_discards,
            )
            .set(
                field!(vnic_diagnostic_statistics, invalid_command),
                env.invalid_commands.into(),
            )
            .set(
                field!(vnic_diagnostic_statistics, cq_overrun),
                env.cq_overruns.into(),
            )
            .set(
                field!(vnic_diagnostic_statistics, comp_eq_overrun),
                env.comp_eq_overruns.into(),
            )
            .set(
                field!(vnic_diagnostic_statistics, async_eq_overrun),
                env.async_eq_overruns.into(),
            )
            .set(
                field!(vnic_diagnostic_statistics, bar_uar_access),
                env.uar_accesses.into(),
            );
        });
        Ok(())
    }
}
