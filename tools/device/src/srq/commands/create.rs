// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CREATE_SRQ, CREATE_XRC_SRQ, CREATE_RMP.

use super::{bytes, create, Wanted};
use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    srq::{footprint, Kind},
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

/// CREATE_SRQ.
pub struct CreateSrq;

impl Command for CreateSrq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_SRQ;
    type In = ifc::create_srq_in;
    type Out = ifc::create_srq_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        let log = input.get32(field!(create_srq_in, srq_context_entry.log_srq_size));
        let stride = input.get32(field!(create_srq_in, srq_context_entry.log_rq_stride));
        footprint(bytes(log, stride + 4))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let srqc = input.sub(span!(create_srq_in, srq_context_entry));
        let wanted = Wanted {
            kind: Kind::Srq,
            pd: srqc.get32(field!(srqc, pd)),
            xrcd: srqc.get32(field!(srqc, xrcd)),
            log_size: srqc.get32(field!(srqc, log_srq_size)),
            log_stride: srqc.get32(field!(srqc, log_rq_stride)) + 4,
            log_page_size: srqc.get32(field!(srqc, log_page_size)),
            page_offset: srqc.get32(field!(srqc, page_offset)),
            record: srqc.get(field!(srqc, dbr_addr)),
            lwm: srqc.get32(field!(srqc, lwm)),
            signature: srqc.flag(field!(srqc, wq_signature)),
            pas: input.raw(span!(create_srq_in, pas)),
        };
        let number = create(hca, wanted)?;
        output.set(field!(create_srq_out, srqn), number.into());
        Ok(())
    }
}

/// CREATE_XRC_SRQ.
pub struct CreateXrcSrq;

impl Command for CreateXrcSrq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_XRC_SRQ;
    type In = ifc::create_xrc_srq_in;
    type Out = ifc::create_xrc_srq_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        let log = field!(create_xrc_srq_in, xrc_srq_context_entry.log_xrc_srq_size);
        let stride = field!(create_xrc_srq_in, xrc_srq_context_entry.log_rq_stride);
        footprint(bytes(input.get32(log), input.get32(stride) + 4))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let srqc = input.sub(span!(create_xrc_srq_in, xrc_srq_context_entry));
        if input.flag(field!(create_xrc_srq_in, xrc_srq_umem_valid))
            || srqc.flag(field!(xrc_srqc, dbr_umem_valid))
        {
            refuse!(BadParam, 3, "user memory objects are not offered");
        }
        if srqc.flag(field!(xrc_srqc, basic_cyclic_rcv_wqe)) {
            refuse!(BadParam, 4, "cyclic shared queues are not offered");
        }
        let user_index = srqc.get32(field!(xrc_srqc, user_index));
        let low = srqc.get(field!(xrc_srqc, db_record_addr_l)) << 2;
        let wanted = Wanted {
            kind: Kind::Xrc {
                cqn: srqc.get32(field!(xrc_srqc, cqn)),
                user_index,
            },
            pd: srqc.get32(field!(xrc_srqc, pd)),
            xrcd: srqc.get32(field!(xrc_srqc, xrcd)),
            log_size: srqc.get32(field!(xrc_srqc, log_xrc_srq_size)),
            log_stride: srqc.get32(field!(xrc_srqc, log_rq_stride)) + 4,
            log_page_size: srqc.get32(field!(xrc_srqc, log_page_size)),
            page_offset: srqc.get32(field!(xrc_srqc, page_offset)),
            record: srqc.get(field!(xrc_srqc, db_record_addr_h)) << 32 | low,
            lwm: srqc.get32(field!(xrc_srqc, lwm)),
            signature: srqc.flag(field!(xrc_srqc, wq_signature)),
            pas: input.raw(span!(create_xrc_srq_in, pas)),
        };
        let number = create(hca, wanted)?;
        output.set(field!(create_xrc_srq_out, xrc_srqn), number.into());
        Ok(())
    }
}

/// CREATE_RMP.
pub struct CreateRmp;

impl Command for CreateRmp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_RMP;
    type In = ifc::create_rmp_in;
    type Out = ifc::create_rmp_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        let log = input.get32(field!(create_rmp_in, ctx.wq.log_wq_sz));
        let stride = input.get32(field!(create_rmp_in, ctx.wq.log_wq_stride));
        footprint(bytes(log, stride))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.get32(field!(create_rmp_in, ctx.state)) != raw::MLX5_RMPC_STATE_RDY {
            refuse!(BadParam, 3, "an RMP starts ready");
        }
        if input.flag(field!(create_rmp_in, ctx.basic_cyclic_rcv_wqe)) {
            refuse!(BadParam, 4, "cyclic shared queues are not offered");
        }
        let rmpc = input.sub(span!(create_rmp_in, ctx));
        let wq = rmpc.sub(span!(rmpc, wq));
        if wq.get32(field!(wq, wq_type)) != 0 {
            refuse!(BadParam, 5, "an RMP is a linked list");
        }
        if wq.flag(field!(wq, dbr_umem_valid)) || wq.flag(field!(wq, wq_umem_valid)) {
            refuse!(BadParam, 6, "user memory objects are not offered");
        }
        let wanted = Wanted {
            kind: Kind::Rmp,
            pd: wq.get32(field!(wq, pd)),
            xrcd: 0,
            log_size: wq.get32(field!(wq, log_wq_sz)),
            log_stride: wq.get32(field!(wq, log_wq_stride)),
            log_page_size: wq.get32(field!(wq, log_wq_pg_sz)),
            page_offset: wq.get32(field!(wq, page_offset)),
            record: wq.get(field!(wq, dbr_addr)),
            lwm: wq.get32(field!(wq, lwm)),
            signature: wq.flag(field!(wq, wq_signature)),
            pas: input.raw(span!(create_rmp_in, ctx.wq.pas)),
        };
        let number = create(hca, wanted)?;
        output.set(field!(create_rmp_out, rmpn), number.into());
        Ok(())
    }
}
