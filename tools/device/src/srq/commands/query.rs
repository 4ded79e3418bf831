// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QUERY_SRQ, QUERY_XRC_SRQ, QUERY_RMP.

use super::{find, is_rmp, is_srq, is_xrc};
use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    srq::{Kind, Srq},
};
use mlx5_hw::{
    field,
    field::{Field, Mut, Ref},
    ifc, raw, span,
};

/// QUERY_SRQ.
pub struct QuerySrq;

impl Command for QuerySrq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_SRQ;
    type In = ifc::query_srq_in;
    type Out = ifc::query_srq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let srq = find(hca, input.get32(field!(query_srq_in, srqn)), is_srq)?;
        output.with(span!(query_srq_out, srq_context_entry), |out| {
            out.set(field!(srqc, state), state(srq))
                .set(field!(srqc, log_srq_size), srq.log_size.into())
                .set(field!(srqc, log_rq_stride), u64::from(srq.log_stride - 4))
                .set(field!(srqc, pd), srq.pd.into())
                .set(field!(srqc, lwm), srq.limit.into())
                .set(field!(srqc, dbr_addr), srq.record);
        });
        Ok(())
    }
}

/// QUERY_XRC_SRQ.
pub struct QueryXrcSrq;

impl Command for QueryXrcSrq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_XRC_SRQ;
    type In = ifc::query_xrc_srq_in;
    type Out = ifc::query_xrc_srq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let number = input.get32(field!(query_xrc_srq_in, xrc_srqn));
        let srq = find(hca, number, is_xrc)?;
        let Kind::Xrc { cqn, user_index } = srq.kind else {
            refuse!(BadRes, 1, "{number:#x} is a {:?}", srq.kind);
        };
        output.with(span!(query_xrc_srq_out, xrc_srq_context_entry), |out| {
            let stride = u64::from(srq.log_stride - 4);
            let low: Field<ifc::xrc_srqc> = field!(xrc_srqc, db_record_addr_l);
            out.set(field!(xrc_srqc, state), state(srq))
                .set(field!(xrc_srqc, log_xrc_srq_size), srq.log_size.into())
                .set(field!(xrc_srqc, log_rq_stride), stride)
                .set(field!(xrc_srqc, xrcd), srq.xrcd.into())
                .set(field!(xrc_srqc, cqn), cqn.into())
                .set(field!(xrc_srqc, user_index), user_index.into())
                .set(field!(xrc_srqc, pd), srq.pd.into())
                .set(field!(xrc_srqc, lwm), srq.limit.into())
                .set(field!(xrc_srqc, db_record_addr_h), srq.record >> 32)
                .set(low, (srq.record & 0xffff_ffff) >> 2);
        });
        Ok(())
    }
}

/// QUERY_RMP.
pub struct QueryRmp;

impl Command for QueryRmp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_RMP;
    type In = ifc::query_rmp_in;
    type Out = ifc::query_rmp_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let srq = find(hca, input.get32(field!(query_rmp_in, rmpn)), is_rmp)?;
        // CAST: small enumerators.
        let state = if srq.failed {
            raw::MLX5_RMPC_STATE_ERR as u64
        } else {
            raw::MLX5_RMPC_STATE_RDY as u64
        };
        output.with(span!(query_rmp_out, rmp_context), |out| {
            out.set(field!(rmpc, state), state)
                .with(span!(rmpc, wq), |wq| {
                    wq.set(field!(wq, pd), srq.pd.into())
                        .set(field!(wq, lwm), srq.limit.into())
                        .set(field!(wq, log_wq_stride), srq.log_stride.into())
                        .set(field!(wq, log_wq_sz), srq.log_size.into())
                        .set(field!(wq, dbr_addr), srq.record);
                });
        });
        Ok(())
    }
}

/// `MLX5_SRQC_STATE_*`, the same numbers for XRC.
fn state(srq: &Srq) -> u64 {
    // CAST: small enumerators.
    if srq.failed {
        raw::MLX5_SRQC_STATE_ERROR as u64
    } else {
        raw::MLX5_SRQC_STATE_GOOD as u64
    }
}
