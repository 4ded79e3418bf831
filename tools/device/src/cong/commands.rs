// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of congestion control. Source: ib/cong.c, ib/cmd.c, `mlx5_lag_query_cong_counters`.

use mlx5_hw::{
    field,
    field::{Field, Mut, Ref},
    ifc, raw, span,
};

use super::{Np, Rp, Statistics};
use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    layout::{first_set, Described},
    refuse,
};

/// What a command is about. Source: `enum mlx5_ib_cong_node_type`; the others (802.1Qau, and the general one behind
/// `roce_cc_general`) are not offered.
#[derive(Clone, Copy)]
enum Protocol {
    Reaction,
    Notification,
}

impl Protocol {
    fn parse(code: u64) -> Result<Self, Refused> {
        match code {
            1 => Ok(Self::Reaction),
            2 => Ok(Self::Notification),
            other => refuse!(BadParam, 1, "congestion protocol {other} is not offered"),
        }
    }
}

/// The card must have the capability that the driver looks at before it asks.
fn allowed(hca: &Hca, cap: Field<ifc::cmd_hca_cap>) -> Result<(), Refused> {
    if !hca.caps.has(cap) {
        refuse!(BadOp, 5, "congestion control is not offered");
    }
    Ok(())
}

const QUERY: Field<ifc::cmd_hca_cap> = field!(cmd_hca_cap, cc_query_allowed);
const MODIFY: Field<ifc::cmd_hca_cap> = field!(cmd_hca_cap, cc_modify_allowed);

/// Priorities of one point.
fn enabled(hca: &mut Hca, protocol: Protocol) -> &mut u8 {
    match protocol {
        Protocol::Reaction => &mut hca.congestion.rp_enabled,
        Protocol::Notification => &mut hca.congestion.np_enabled,
    }
}

fn priority(code: u64) -> Result<u8, Refused> {
    match u8::try_from(code) {
        Ok(priority) if priority < 8 => Ok(priority),
        _ => refuse!(BadParam, 2, "priority {code}"),
    }
}

/// QUERY_CONG_STATUS.
pub struct QueryCongStatus;

impl Command for QueryCongStatus {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_CONG_STATUS;
    type In = ifc::query_cong_status_in;
    type Out = ifc::query_cong_status_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        allowed(hca, QUERY)?;
        let protocol = Protocol::parse(input.get(field!(query_cong_status_in, cong_protocol)))?;
        let priority = priority(input.get(field!(query_cong_status_in, priority)))?;
        let enable = *enabled(hca, protocol) >> priority & 1 != 0;
        output.set_flag(field!(query_cong_status_out, enable), enable);
        Ok(())
    }
}

/// MODIFY_CONG_STATUS.
pub struct ModifyCongStatus;

impl Command for ModifyCongStatus {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_CONG_STATUS;
    type In = ifc::modify_cong_status_in;
    type Out = ifc::modify_cong_status_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        allowed(hca, MODIFY)?;
        let protocol = Protocol::parse(input.get(field!(modify_cong_status_in, cong_protocol)))?;
        let priority = priority(input.get(field!(modify_cong_status_in, priority)))?;
        if input.flag(field!(modify_cong_status_in, tag_enable)) {
            refuse!(BadParam, 6, "tags of flows belong to 802.1Qau");
        }
        let mask = 1 << priority;
        let all = enabled(hca, protocol);
        if input.flag(field!(modify_cong_status_in, enable)) {
            *all |= mask;
        } else {
            *all &= !mask;
        }
        Ok(())
    }
}

/// QUERY_CONG_PARAMS.
pub struct QueryCongParams;

impl Command for QueryCongParams {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_CONG_PARAMS;
    type In = ifc::query_cong_params_in;
    type Out = ifc::query_cong_params_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        allowed(hca, QUERY)?;
        let congestion = &hca.congestion;
        match Protocol::parse(input.get(field!(query_cong_params_in, cong_protocol)))? {
            Protocol::Reaction => output.with(
                span!(
                    query_cong_params_out,
                    congestion_parameters.cong_control_r_roce_ecn_rp
                ),
                |out| congestion.rp.show(out),
            ),
            Protocol::Notification => output.with(
                span!(
                    query_cong_params_out,
                    congestion_parameters.cong_control_r_roce_ecn_np
                ),
                |out| congestion.np.show(out),
            ),
        };
        Ok(())
    }
}

/// What is reserved for one point may be a field of another: the shared check does not see it.
fn check_reserved<L: Described>(input: Ref<'_, L>) -> Result<(), Refused> {
    let mask = L::LAYOUT.reserved_mask(L::LAYOUT.bytes());
    if let Some(at) = first_set(input.bytes(), &mask) {
        refuse!(
            BadParam,
            7,
            "reserved bits in byte {at:#x} of {}",
            L::LAYOUT.name
        );
    }
    Ok(())
}

/// MODIFY_CONG_PARAMS.
pub struct ModifyCongParams;

impl Command for ModifyCongParams {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_CONG_PARAMS;
    type In = ifc::modify_cong_params_in;
    type Out = ifc::modify_cong_params_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        allowed(hca, MODIFY)?;
        let protocol = Protocol::parse(input.get(field!(modify_cong_params_in, cong_protocol)))?;
        let selection = input.get32(field!(
            modify_cong_params_in,
            field_select.field_select_r_roce_rp.field_select_r_roce_rp
        ));
        let congestion = &mut hca.congestion;
        match protocol {
            Protocol::Reaction => {
                let new = input.sub(span!(
                    modify_cong_params_in,
                    congestion_parameters.cong_control_r_roce_ecn_rp
                ));
                check_reserved(new)?;
                congestion.rp = Rp::with(&congestion.rp, new, selection)?;
            }
            Protocol::Notification => {
                let new = input.sub(span!(
                    modify_cong_params_in,
                    congestion_parameters.cong_control_r_roce_ecn_np
                ));
                check_reserved(new)?;
                congestion.np = Np::with(&congestion.np, new, selection)?;
            }
        }
        Ok(())
    }
}

/// QUERY_CONG_STATISTICS.
pub struct QueryCongStatistics;

impl Command for QueryCongStatistics {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_CONG_STATISTICS;
    type In = ifc::query_cong_statistics_in;
    type Out = ifc::query_cong_statistics_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        allowed(hca, QUERY)?;
        let now = hca.env.now();
        let rp = &hca.congestion.rp;
        let reactions = hca.qps.iter().map(|(_, qp)| &qp.reaction);
        let limited = reactions.filter(|reaction| reaction.would_be_limited(rp, now));
        let flows = limited.count() as u64;
        let statistics = hca.congestion.statistics;
        // CAST: microseconds since the start.
        let stamp = now.as_micros() as u64;
        output
            .set(field!(query_cong_statistics_out, rp_cur_flows), flows)
            .set(
                field!(query_cong_statistics_out, sum_flows),
                statistics.sum_flows.into(),
            );
        macro_rules! halves {
            ($($value:expr => $high:ident $low:ident,)+) => {
                $(output
                    .set(field!(query_cong_statistics_out, $high), $value >> 32)
                    .set(field!(query_cong_statistics_out, $low), $value & 0xffff_ffff);)+
            };
        }
        halves! {
            statistics.rp_cnp_ignored => rp_cnp_ignored_high rp_cnp_ignored_low,
            statistics.rp_cnp_handled => rp_cnp_handled_high rp_cnp_handled_low,
            stamp => time_stamp_high time_stamp_low,
            statistics.np_ecn_marked_roce_packets
                => np_ecn_marked_roce_packets_high np_ecn_marked_roce_packets_low,
            statistics.np_cnp_sent => np_cnp_sent_high np_cnp_sent_low,
        }
        if input.flag(field!(query_cong_statistics_in, clear)) {
            hca.congestion.statistics = Statistics::default();
        }
        Ok(())
    }
}
