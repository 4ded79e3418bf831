// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bring-up and tear-down of the HCA.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Needs, Refused},
    hca::{Hca, Phase},
    refuse,
};

/// ISSI versions offered, as a mask: 0 and 1.
const ISSI: u64 = 0b11;

fn own_function(ec: bool, id_type: bool, id: u64) -> Result<(), Refused> {
    if ec || id_type || id != 0 {
        refuse!(BadParam, 1, "function {id:#x} is not this one");
    }
    Ok(())
}

/// ENABLE_HCA.
pub struct EnableHca;

impl Command for EnableHca {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ENABLE_HCA;
    type In = ifc::enable_hca_in;
    type Out = ifc::enable_hca_out;
    const NEEDS: Needs = Needs::Nothing;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_function(
            input.flag(field!(enable_hca_in, embedded_cpu_function)),
            input.flag(field!(enable_hca_in, function_id_type)),
            input.get(field!(enable_hca_in, function_id)),
        )?;
        if hca.phase != Phase::Off {
            refuse!(BadSysState, 2, "the HCA is enabled already");
        }
        hca.phase = Phase::Enabled;
        Ok(())
    }
}

/// DISABLE_HCA.
pub struct DisableHca;

impl Command for DisableHca {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DISABLE_HCA;
    type In = ifc::disable_hca_in;
    type Out = ifc::disable_hca_out;
    const NEEDS: Needs = Needs::EnabledOnly;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_function(
            input.flag(field!(disable_hca_in, embedded_cpu_function)),
            input.flag(field!(disable_hca_in, function_id_type)),
            input.get(field!(disable_hca_in, function_id)),
        )?;
        let held = hca.pages.given();
        if held != 0 {
            refuse!(BadResState, 2, "{held} pages have not been taken back");
        }
        hca.teardown(Phase::Off);
        Ok(())
    }
}

/// INIT_HCA.
pub struct InitHca;

impl Command for InitHca {
    const OPCODE: u32 = raw::MLX5_CMD_OP_INIT_HCA;
    type In = ifc::init_hca_in;
    type Out = ifc::init_hca_out;
    const NEEDS: Needs = Needs::EnabledOnly;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.flag(field!(init_hca_in, sw_vhca_id)) {
            refuse!(BadParam, 1, "sw_vhca_id is not offered");
        }
        if input
            .raw(span!(init_hca_in, sw_owner_id))
            .iter()
            .any(|byte| *byte != 0)
        {
            refuse!(BadParam, 2, "sw_owner_id is not offered");
        }
        let pages = &hca.env.profile.pages;
        let needed = u64::from(pages.boot) + u64::from(pages.init);
        let given = hca.pages.given();
        if given < needed {
            refuse!(NoRes, 3, "{given} of {needed} boot and init pages given");
        }
        hca.phase = Phase::Initialized;
        Ok(())
    }
}

/// TEARDOWN_HCA.
pub struct TeardownHca;

impl Command for TeardownHca {
    const OPCODE: u32 = raw::MLX5_CMD_OP_TEARDOWN_HCA;
    type In = ifc::teardown_hca_in;
    type Out = ifc::teardown_hca_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let profile = input.get(field!(teardown_hca_in, profile));
        if profile != u64::from(raw::MLX5_TEARDOWN_HCA_IN_PROFILE_GRACEFUL_CLOSE) {
            refuse!(BadParam, 1, "teardown profile {profile} is not offered");
        }
        hca.teardown(Phase::Enabled);
        Ok(())
    }
}

/// QUERY_ISSI.
pub struct QueryIssi;

impl Command for QueryIssi {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_ISSI;
    type In = ifc::query_issi_in;
    type Out = ifc::query_issi_out;
    const NEEDS: Needs = Needs::Enabled;

    fn run(
        hca: &mut Hca,
        _input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        output
            .set(field!(query_issi_out, current_issi), hca.issi.into())
            .set(field!(query_issi_out, supported_issi_dw0), ISSI);
        Ok(())
    }
}

/// SET_ISSI.
pub struct SetIssi;

impl Command for SetIssi {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_ISSI;
    type In = ifc::set_issi_in;
    type Out = ifc::set_issi_out;
    const NEEDS: Needs = Needs::EnabledOnly;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        // CAST: 16 bits.
        let issi = input.get(field!(set_issi_in, current_issi)) as u16;
        if issi >= 64 || ISSI >> issi & 1 == 0 {
            refuse!(BadParam, 1, "ISSI {issi} is not offered");
        }
        hca.issi = issi;
        Ok(())
    }
}
