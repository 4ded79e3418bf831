// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet send queues.

use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    push::Pushed,
    refuse,
    sched::Work,
    table::{Kind, Object},
    wq::{State, Wq},
};

const CONTEXT: usize = bytes_of::<ifc::sqc>();

/// log2 of the basic block, in which an SQ counts.
const LOG_BLOCK: u32 = 6;

/// One of them. It holds its CQ, its PD, its TIS and its UAR.
#[derive(Debug)]
pub struct Sq {
    /// WQEs, in basic blocks of 64 bytes.
    pub wq: Wq,
    /// CQ of its completions.
    pub cqn: u32,
    /// TIS; without one it can only do NOPs (the internal queue of mlx5e has none).
    pub tisn: Option<u32>,
    /// Doorbell page: only doorbells there count.
    pub uar: u32,
    /// WQEs complete as flushed in the error state (else they never do).
    pub flush_in_error: bool,
    /// User index for completions.
    pub user_index: u32,
    /// State.
    pub state: State,
    /// Blocks consumed, free running.
    pub consumer: u16,
    /// The next WQE, when its doorbell brought it.
    pub pushed: Option<Pushed>,
    context: [u8; CONTEXT],
}

impl Object for Sq {
    const KIND: Kind = Kind::Sq;

    fn footprint(&self) -> u64 {
        self.wq.footprint()
    }
}

impl Sq {
    /// One line for a dump.
    pub fn describe(&self, sqn: u32) -> String {
        format!(
            "SQ {sqn:#x}: {:?} blocks {} ci {:#x} CQ {:#x} TIS {:x?}",
            self.state,
            self.wq.entries(),
            self.consumer,
            self.cqn,
            self.tisn
        )
    }
}

/// Refuses what the capabilities do not offer.
fn check_offers(hca: &Hca, sqc: Ref<'_, ifc::sqc>) -> Result<(), Refused> {
    let eth = |field| hca.caps.has(field);
    for (name, asked, offered) in [
        ("rlky", sqc.flag(field!(sqc, rlky)), false),
        ("cd_master", sqc.flag(field!(sqc, cd_master)), false),
        ("fre", sqc.flag(field!(sqc, fre)), false),
        ("hairpin", sqc.flag(field!(sqc, hairpin)), false),
        ("non_wire", sqc.flag(field!(sqc, non_wire)), false),
        (
            "ts_cqe_to_dest_cqn",
            sqc.flag(field!(sqc, ts_cqe_to_dest_cqn)),
            false,
        ),
        (
            "a packet pacing rate",
            sqc.flag(field!(sqc, packet_pacing_rate_limit_index)),
            false,
        ),
        (
            "a QoS queue group",
            sqc.flag(field!(sqc, qos_queue_group_id)),
            false,
        ),
        (
            "allow_multi_pkt_send_wqe",
            sqc.flag(field!(sqc, allow_multi_pkt_send_wqe)),
            eth(field!(
                per_protocol_networking_offload_caps,
                enhanced_multi_pkt_send_wqe
            )),
        ),
        (
            "reg_umr",
            sqc.flag(field!(sqc, reg_umr)),
            eth(field!(per_protocol_networking_offload_caps, reg_umr_sq)),
        ),
        (
            "allow_swp",
            sqc.flag(field!(sqc, allow_swp)),
            eth(field!(per_protocol_networking_offload_caps, swp)),
        ),
    ] {
        if asked && !offered {
            refuse!(BadParam, 1, "SQ with {name}");
        }
    }
    let format = sqc.get32(field!(sqc, ts_format));
    if format > raw::MLX5_TIMESTAMP_FORMAT_DEFAULT {
        refuse!(BadParam, 2, "SQ with timestamp format {format}");
    }
    Ok(())
}

/// CREATE_SQ.
pub struct CreateSq;

impl Command for CreateSq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_SQ;
    type In = ifc::create_sq_in;
    type Out = ifc::create_sq_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        Wq::footprint_of(input.sub(span!(create_sq_in, ctx.wq)))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let sqc = input.sub(span!(create_sq_in, ctx));
        check_offers(hca, sqc)?;
        let state = sqc.get32(field!(sqc, state));
        if state != raw::MLX5_SQC_STATE_RST {
            refuse!(BadParam, 3, "new SQ in state {state}");
        }
        let cqn = sqc.get32(field!(sqc, cqn));
        hca.cqs.find(cqn)?;
        let count = sqc.get32(field!(sqc, tis_lst_sz));
        let tisn = match count {
            0 => None,
            1 => Some(sqc.get32(field!(sqc, tis_num_0))),
            _ => refuse!(BadParam, 4, "SQ with {count} TISes"),
        };
        if let Some(tisn) = tisn {
            hca.tises.find(tisn)?;
        }
        let context = sqc.sub(span!(sqc, wq));
        let uar = context.get32(field!(wq, uar_page));
        hca.uars.find(uar)?;
        let stride = context.get32(field!(wq, log_wq_stride));
        if stride != LOG_BLOCK {
            refuse!(BadParam, 5, "SQ with blocks of 2^{stride} bytes");
        }
        let wq = Wq::parse(hca, context, input.raw(span!(create_sq_in, ctx.wq.pas)))?;
        hca.pds.find(wq.pd)?;
        let pd = wq.pd;
        let mut context = [0; CONTEXT];
        context.copy_from_slice(input.raw(span!(create_sq_in, ctx)));
        let sqn = hca.sqs.insert(Sq {
            wq,
            cqn,
            tisn,
            uar,
            flush_in_error: sqc.flag(field!(sqc, flush_in_error_en)),
            user_index: sqc.get32(field!(sqc, user_index)),
            state: State::Reset,
            consumer: 0,
            pushed: None,
            context,
        })?;
        hca.cqs.hold(cqn)?;
        hca.pds.hold(pd)?;
        hca.uars.hold(uar)?;
        if let Some(tisn) = tisn {
            hca.tises.hold(tisn)?;
        }
        output.set(field!(create_sq_out, sqn), sqn.into());
        Ok(())
    }
}

/// MODIFY_SQ.
pub struct ModifySq;

impl Command for ModifySq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_SQ;
    type In = ifc::modify_sq_in;
    type Out = ifc::modify_sq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let sqn = input.get32(field!(modify_sq_in, sqn));
        let sqc = input.sub(span!(modify_sq_in, ctx));
        let sq = hca.sqs.find_mut(sqn)?;
        let state = sq.state.transition(
            &format!("SQ {sqn:#x}"),
            input.get32(field!(modify_sq_in, sq_state)),
            sqc.get32(field!(sqc, state)),
        )?;
        let mask = input.get(field!(modify_sq_in, modify_bitmask));
        if mask != 0 {
            // Rate limit and queue group: there are none.
            refuse!(BadParam, 1, "SQ modification of fields {mask:#x}");
        }
        sq.state = state;
        sq.pushed = None;
        match state {
            State::Reset => sq.consumer = 0,
            // WQEs may have been posted before.
            State::Ready | State::Error => hca.sched.push(Work::Sq(sqn)),
        }
        Ok(())
    }
}

/// DESTROY_SQ.
pub struct DestroySq;

impl Command for DestroySq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_SQ;
    type In = ifc::destroy_sq_in;
    type Out = ifc::destroy_sq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let sq = hca.sqs.remove(input.get32(field!(destroy_sq_in, sqn)))?;
        hca.cqs.release(sq.cqn);
        hca.pds.release(sq.wq.pd);
        hca.uars.release(sq.uar);
        if let Some(tisn) = sq.tisn {
            hca.tises.release(tisn);
        }
        Ok(())
    }
}

/// QUERY_SQ.
pub struct QuerySq;

impl Command for QuerySq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_SQ;
    type In = ifc::query_sq_in;
    type Out = ifc::query_sq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let sq = hca.sqs.find(input.get32(field!(query_sq_in, sqn)))?;
        output
            .raw(span!(query_sq_out, sq_context))
            .copy_from_slice(&sq.context);
        output.with(span!(query_sq_out, sq_context), |sqc| {
            sqc.set(field!(sqc, state), sq.state.code())
                .set(field!(sqc, wq.hw_counter), sq.consumer.into());
        });
        Ok(())
    }
}
