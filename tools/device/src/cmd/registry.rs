// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All commands the device knows: one line each.

use std::{collections::BTreeMap, sync::LazyLock};

use mlx5_hw::{
    field::{Mut, Ref},
    status::Status,
};

use super::{Command, Needs, Refused};
use crate::{
    hca::Hca,
    layout::{Described, Layout},
};

/// A [`Command`] as a value.
pub struct Entry {
    /// Opcode.
    pub opcode: u16,
    /// Name in the header, without `MLX5_CMD_OP_`.
    pub name: &'static str,
    /// Layout of the input.
    pub input: &'static Layout,
    /// Layout of the output.
    pub output: &'static Layout,
    /// Needed state.
    pub needs: Needs,
    /// [`Command::op_mod`].
    pub op_mod: fn(u16) -> bool,
    /// [`Command::footprint`].
    pub footprint: fn(&[u8]) -> u64,
    /// [`Command::run`].
    pub run: fn(&mut Hca, &[u8], &mut [u8]) -> Result<(), Refused>,
}

fn footprint<C: Command>(input: &[u8]) -> u64 {
    Ref::new(input).map_or(0, C::footprint)
}

fn run<C: Command>(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let internal = |what: &str| Refused::new(Status::Internal, 0xf00f, what);
    let input = Ref::new(input).ok_or_else(|| internal("input shorter than its layout"))?;
    let mut output = Mut::new(output).ok_or_else(|| internal("output shorter than its layout"))?;
    C::run(hca, input, &mut output)?;
    if output.overflowed() {
        // The command has run, so this is a mistake of the model, and says so.
        tracing::error!("command {:#x}: a value did not fit the output", C::OPCODE);
    }
    Ok(())
}

fn entry<C: Command>() -> Entry {
    // CAST: opcodes are 16 bits wide.
    let opcode = C::OPCODE as u16;
    Entry {
        opcode,
        name: mlx5_hw::opcode_name(opcode).unwrap_or("?"),
        input: C::In::LAYOUT,
        output: C::Out::LAYOUT,
        needs: C::NEEDS,
        op_mod: C::op_mod,
        footprint: footprint::<C>,
        run: run::<C>,
    }
}

macro_rules! commands {
    ($($command:path,)+) => {
        static COMMANDS: LazyLock<BTreeMap<u16, Entry>> = LazyLock::new(|| {
            BTreeMap::from([$({
                let entry = entry::<$command>();
                (entry.opcode, entry)
            },)+])
        });
    };
}

commands! {
    crate::adapter::MadIfc,
    crate::adapter::QueryAdapter,
    crate::adapter::QueryPkey,
    crate::adapter::QuerySpecialContexts,
    crate::adapter::SetDriverVersion,
    crate::boot::DisableHca,
    crate::boot::EnableHca,
    crate::boot::InitHca,
    crate::boot::QueryIssi,
    crate::boot::SetIssi,
    crate::boot::TeardownHca,
    crate::caps::QueryHcaCap,
    crate::caps::SetHcaCap,
    crate::cong::ModifyCongParams,
    crate::cong::ModifyCongStatus,
    crate::cong::QueryCongParams,
    crate::cong::QueryCongStatistics,
    crate::cong::QueryCongStatus,
    crate::cq::CreateCq,
    crate::cq::DestroyCq,
    crate::cq::ModifyCq,
    crate::cq::QueryCq,
    crate::eq::CreateEq,
    crate::eq::DestroyEq,
    crate::eq::QueryEq,
    crate::flow::commands::AllocFlowCounter,
    crate::flow::commands::CreateFlowGroup,
    crate::flow::commands::CreateFlowTable,
    crate::flow::commands::DeallocFlowCounter,
    crate::flow::commands::DeleteFlowTableEntry,
    crate::flow::commands::DestroyFlowGroup,
    crate::flow::commands::DestroyFlowTable,
    crate::flow::commands::ModifyFlowTable,
    crate::flow::commands::QueryFlowCounter,
    crate::flow::commands::QueryFlowGroup,
    crate::flow::commands::QueryFlowTable,
    crate::flow::commands::QueryFlowTableEntry,
    crate::flow::commands::SetFlowTableEntry,
    crate::flow::commands::SetFlowTableRoot,
    crate::mkey::CreateMkey,
    crate::mkey::DestroyMkey,
    crate::mkey::QueryMkey,
    crate::nic_vport::ModifyNicVport,
    crate::nic_vport::QueryNicVport,
    crate::pages::ManagePages,
    crate::pages::QueryPages,
    crate::pd::AllocPd,
    crate::pd::DeallocPd,
    crate::q_counter::AllocQCounter,
    crate::q_counter::DeallocQCounter,
    crate::q_counter::QueryQCounter,
    crate::qp::CreateQp,
    crate::qp::DestroyQp,
    crate::qp::Init2InitQp,
    crate::qp::Init2RtrQp,
    crate::qp::QueryQp,
    crate::qp::Rst2InitQp,
    crate::qp::Rtr2RtsQp,
    crate::qp::Rts2RtsQp,
    crate::qp::Sqerr2RtsQp,
    crate::qp::ToErrQp,
    crate::qp::ToRstQp,
    crate::register::AccessReg,
    crate::roce_address::QueryRoceAddress,
    crate::roce_address::SetRoceAddress,
    crate::rq::CreateRq,
    crate::rq::DestroyRq,
    crate::rq::ModifyRq,
    crate::rq::QueryRq,
    crate::rqt::CreateRqt,
    crate::rqt::DestroyRqt,
    crate::rqt::ModifyRqt,
    crate::rqt::QueryRqt,
    crate::sq::CreateSq,
    crate::sq::DestroySq,
    crate::sq::ModifySq,
    crate::sq::QuerySq,
    crate::srq::ArmRq,
    crate::srq::ArmXrcSrq,
    crate::srq::CreateRmp,
    crate::srq::CreateSrq,
    crate::srq::CreateXrcSrq,
    crate::srq::DestroyRmp,
    crate::srq::DestroySrq,
    crate::srq::DestroyXrcSrq,
    crate::srq::ModifyRmp,
    crate::srq::QueryRmp,
    crate::srq::QuerySrq,
    crate::srq::QueryXrcSrq,
    crate::tir::CreateTir,
    crate::tir::DestroyTir,
    crate::tir::ModifyTir,
    crate::tir::QueryTir,
    crate::tis::CreateTis,
    crate::tis::DestroyTis,
    crate::tis::ModifyTis,
    crate::tis::QueryTis,
    crate::transport::AttachToMcg,
    crate::transport::DetachFromMcg,
    crate::transport_domain::AllocTransportDomain,
    crate::transport_domain::DeallocTransportDomain,
    crate::uar::AllocUar,
    crate::uar::DeallocUar,
    crate::vnic_env::QueryVnicEnv,
    crate::vport::ModifyVportState,
    crate::vport::QueryVportCounter,
    crate::vport::QueryVportState,
    crate::xrcd::AllocXrcd,
    crate::xrcd::DeallocXrcd,
}

/// The command with this opcode.
pub fn find(opcode: u16) -> Option<&'static Entry> {
    COMMANDS.get(&opcode)
}

/// All commands, by opcode.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    COMMANDS.values()
}

/// Name of an opcode, whether it is known here or only in the interface.
pub fn name(opcode: u16) -> String {
    mlx5_hw::opcode_name(opcode).map_or_else(|| format!("OP_{opcode:#x}"), str::to_owned)
}
