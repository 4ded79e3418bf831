// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of the three families of shared receive queues.
//!
//! Source of the field values: drivers/infiniband/hw/mlx5/srq_cmd.c.

mod create;
mod query;
pub use create::{CreateRmp, CreateSrq, CreateXrcSrq};
pub use query::{QueryRmp, QuerySrq, QueryXrcSrq};

use super::{Kind, Shape, Srq};
use crate::{
    buffer::Buffer,
    cmd::{Command, Refused}, //
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw,
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
