// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of the three families of shared receive queues.
//!
//! Source of the field values: drivers/infiniband/hw/mlx5/srq_cmd.c.

use super::{
    footprint, //
    Kind,
    Shape,
    Srq,
};
use crate::{
    buffer::Buffer,
    cmd::{Command, Refused}, //
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{Field, Mut, Ref},
    ifc, raw, span,
};

/// Longest request, 2 KiB, as a shift.
const MAX_LOG_STRIDE: u32 = 11;
/// Shortest: the next segment and one data segment.
const MIN_LOG_STRIDE: u32 = 5;

/// What all three families say of the queue.
struct Wanted<'a> {
    kind: Kind,
    pd: u32,
    xrcd: u32,
    log_size: u32,
    log_stride: u32,
    log_page_size: u32,
    page_offset: u32,
    record: u64,
    lwm: u32,
    signature: bool,
    pas: &'a [u8],
}

fn bytes(log_size: u32, log_stride: u32) -> u64 {
    1u64.checked_shl(log_size + log_stride).unwrap_or(0)
}

fn create(hca: &mut Hca, wanted: Wanted<'_>) -> Result<u32, Refused> {
    let Wanted {
        log_size,
        log_stride,
        pd,
        xrcd,
        ..
    } = wanted;
    let most = hca.caps.get(field!(cmd_hca_cap, log_max_srq_sz));
    if u64::from(log_size) > most {
        refuse!(BadParam, 0x10, "2^{log_size} requests, at most 2^{most}");
    }
    if !(MIN_LOG_STRIDE..=MAX_LOG_STRIDE).contains(&log_stride) {
        refuse!(BadParam, 0x11, "requests of 2^{log_stride} bytes");
    }
    if wanted.signature {
        refuse!(BadParam, 0x12, "signed requests are not offered");
    }
    if wanted.record % 8 != 0 {
        let record = wanted.record;
        refuse!(BadParam, 0x13, "record at {record:#x} is not aligned");
    }
    hca.pds.find(pd)?;
    if let Kind::Xrc { cqn, .. } = wanted.kind {
        hca.xrcds.find(xrcd)?;
        hca.cqs.find(cqn)?;
    }
    let buffer = Buffer::parse(
        wanted.pas,
        wanted.log_page_size,
        wanted.page_offset,
        bytes(log_size, log_stride),
    )?;
    let srq = Srq::new(Shape {
        kind: wanted.kind,
        pd,
        xrcd,
        // CAST: bounded above, and 16 bits wide.
        log_size: log_size as u8,
        log_stride: log_stride as u8,
        record: wanted.record,
        buffer,
        limit: wanted.lwm as u16,
    });
    let number = hca.srqs.insert(srq)?;
    hca.pds.hold(pd)?;
    if let Kind::Xrc { cqn, .. } = wanted.kind {
        hca.xrcds.hold(xrcd)?;
        hca.cqs.hold(cqn)?;
    }
    Ok(number)
}

/// The queue of a number, if it is of the family `is`.
fn find(hca: &mut Hca, number: u32, is: fn(&Kind) -> bool) -> Result<&mut Srq, Refused> {
    let srq = hca.srqs.find_mut(number)?;
    if !is(&srq.kind) {
        refuse!(BadRes, 1, "{number:#x} is a {:?}", srq.kind);
    }
    Ok(srq)
}

fn destroy(hca: &mut Hca, number: u32, is: fn(&Kind) -> bool) -> Result<(), Refused> {
    find(hca, number, is)?;
    let srq = hca.srqs.remove(number)?;
    hca.pds.release(srq.pd);
    if let Kind::Xrc { cqn, .. } = srq.kind {
        hca.xrcds.release(srq.xrcd);
        hca.cqs.release(cqn);
    }
    Ok(())
}

/// Arms the limit event; it is raised at once when the queue is below the limit already.
fn set_limit(hca: &mut Hca, number: u32, limit: u32, is: fn(&Kind) -> bool) -> Result<(), Refused> {
    let srq = hca.srqs.find_mut(number)?;
    if !is(&srq.kind) {
        refuse!(BadRes, 1, "{number:#x} is a {:?}", srq.kind);
    }
    if limit >= 1 << srq.log_size {
        refuse!(
            BadParam,
            2,
            "limit {limit} of a queue of 2^{}",
            srq.log_size
        );
    }
    // CAST: below 2^16, as the size is.
    srq.limit = limit as u16;
    let free = srq.free(&mut hca.env).unwrap_or(u16::MAX);
    if srq.limit != 0 && free < srq.limit {
        srq.limit = 0;
        hca.srq_event(raw::MLX5_EVENT_TYPE_SRQ_RQ_LIMIT, number);
    }
    Ok(())
}

fn is_srq(kind: &Kind) -> bool {
    *kind == Kind::Srq
}

fn is_xrc(kind: &Kind) -> bool {
    matches!(kind, Kind::Xrc { .. })
}

fn is_rmp(kind: &Kind) -> bool {
    *kind == Kind::Rmp
}

impl Hca {
    /// Raises an event that names a shared receive queue (or, for the last WQE, a QP).
    pub(crate) fn srq_event(&mut self, event: u32, number: u32) {
        let mut data = [0; 28];
        data[24..].copy_from_slice(&(number & 0xff_ffff).to_be_bytes());
        self.async_event(event, 0, &data);
    }
}

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

macro_rules! destroys {
    ($($name:ident = $opcode:ident, $input:ident, $output:ident, $number:ident, $is:ident;)+) => {$(
        #[doc = concat!(stringify!($opcode), ".")]
        pub struct $name;

        impl Command for $name {
            const OPCODE: u32 = raw::$opcode;
            type In = ifc::$input;
            type Out = ifc::$output;

            fn run(
                hca: &mut Hca,
                input: Ref<'_, Self::In>,
                _output: &mut Mut<'_, Self::Out>,
            ) -> Result<(), Refused> {
                destroy(hca, input.get32(field!($input, $number)), $is)
            }
        }
    )+};
}

destroys! {
    DestroySrq = MLX5_CMD_OP_DESTROY_SRQ, destroy_srq_in, destroy_srq_out, srqn, is_srq;
    DestroyXrcSrq = MLX5_CMD_OP_DESTROY_XRC_SRQ, destroy_xrc_srq_in, destroy_xrc_srq_out, xrc_srqn, is_xrc;
    DestroyRmp = MLX5_CMD_OP_DESTROY_RMP, destroy_rmp_in, destroy_rmp_out, rmpn, is_rmp;
}

/// ARM_RQ for SRQs (op_mod 1).
pub struct ArmRq;

impl Command for ArmRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ARM_RQ;
    type In = ifc::arm_rq_in;
    type Out = ifc::arm_rq_out;

    fn op_mod(op_mod: u16) -> bool {
        // CAST: a small enumerator.
        op_mod == raw::MLX5_ARM_RQ_IN_OP_MOD_SRQ as u16
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let number = input.get32(field!(arm_rq_in, srq_number));
        set_limit(hca, number, input.get32(field!(arm_rq_in, lwm)), is_srq)
    }
}

/// ARM_XRC_SRQ (op_mod 1).
pub struct ArmXrcSrq;

impl Command for ArmXrcSrq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ARM_XRC_SRQ;
    type In = ifc::arm_xrc_srq_in;
    type Out = ifc::arm_xrc_srq_out;

    fn op_mod(op_mod: u16) -> bool {
        // CAST: a small enumerator.
        op_mod == raw::MLX5_ARM_XRC_SRQ_IN_OP_MOD_XRC_SRQ as u16
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let number = input.get32(field!(arm_xrc_srq_in, xrc_srqn));
        let limit = input.get32(field!(arm_xrc_srq_in, lwm));
        set_limit(hca, number, limit, is_xrc)
    }
}

/// MODIFY_RMP: the limit.
pub struct ModifyRmp;

impl Command for ModifyRmp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_RMP;
    type In = ifc::modify_rmp_in;
    type Out = ifc::modify_rmp_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let ready = raw::MLX5_RMPC_STATE_RDY;
        if input.get32(field!(modify_rmp_in, rmp_state)) != ready
            || input.get32(field!(modify_rmp_in, ctx.state)) != ready
        {
            refuse!(BadResState, 3, "an RMP stays ready");
        }
        let number = input.get32(field!(modify_rmp_in, rmpn));
        if !input.flag(field!(modify_rmp_in, bitmask.lwm)) {
            return find(hca, number, is_rmp).map(|_| ());
        }
        set_limit(
            hca,
            number,
            input.get32(field!(modify_rmp_in, ctx.wq.lwm)),
            is_rmp,
        )
    }
}

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
