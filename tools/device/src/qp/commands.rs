// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CREATE_QP, DESTROY_QP, QUERY_QP.

use super::{
    footprint, //
    Attributes,
    Kind,
    Qp,
    ReceiveQueue,
    SendQueue,
    Source,
    State,
    CONTEXT,
};
use crate::{
    buffer::Buffer,
    cmd::{Command, Refused}, //
    cong::Reaction,
    hca::Hca,
    refuse,
    transport::{Requester, Responder},
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

/// `rq_type`. Source: `MLX5_NON_ZERO_RQ` and following in include/linux/mlx5/qp.h.
const OWN_RQ: u32 = 0;
const SHARED_RQ: u32 = 1;
const NO_RQ: u32 = 3;

/// No doorbell page: the first pages of BAR0 are never handed out.
const NO_UAR: u32 = 0;

/// Layout of the buffer.
struct Queues {
    sq: SendQueue,
    rq: Source,
    bytes: u64,
}

fn queues(qpc: Ref<'_, ifc::qpc>) -> Option<Queues> {
    // CAST: four and three bits.
    let log_rq = qpc.get32(field!(qpc, log_rq_size)) as u8;
    let log_stride = qpc.get32(field!(qpc, log_rq_stride)) as u8 + 4;
    let log_sq = qpc.get32(field!(qpc, log_sq_size)) as u8;
    let rq = match qpc.get32(field!(qpc, rq_type)) {
        OWN_RQ => Source::Own {
            log: log_rq,
            log_stride,
        },
        SHARED_RQ => Source::Shared(qpc.get32(field!(qpc, srqn_rmpn_xrqn))),
        NO_RQ => Source::None,
        _ => return None,
    };
    let rq_bytes = match rq {
        Source::Own { log, log_stride } => 1u64 << (log + log_stride),
        _ => 0,
    };
    let has_sq = !qpc.flag(field!(qpc, no_sq));
    let start = rq_bytes.next_multiple_of(64);
    let sq_bytes = if has_sq { 64u64 << log_sq } else { 0 };
    Some(Queues {
        sq: SendQueue {
            log: has_sq.then_some(log_sq),
            start,
            next: 0,
            posted: 0,
            pushed: None,
        },
        rq,
        bytes: if has_sq { start + sq_bytes } else { rq_bytes },
    })
}

/// CREATE_QP.
pub struct CreateQp;

impl Command for CreateQp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_QP;
    type In = ifc::create_qp_in;
    type Out = ifc::create_qp_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        let qpc = input.sub(span!(create_qp_in, qpc));
        queues(qpc).map_or(0, |queues| footprint(queues.bytes))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let qpc = input.sub(span!(create_qp_in, qpc));
        let qp = parse(hca, input, qpc)?;
        let (pd, holds_pd, uar, kind) = (qp.pd, qp.holds_pd, qp.uar, qp.kind);
        let xrcd = qp.xrcd;
        let (send, recv, source) = (qp.send_cqn, qp.recv_cqn, qp.rq.source);
        if kind == Kind::Gsi && hca.transport.gsi.is_some() {
            refuse!(BadResState, 12, "there is a GSI QP already");
        }
        let qpn = hca.qps.insert(Box::new(qp))?;
        if let Some(qp) = hca.qps.get_mut(qpn) {
            qp.qpn = qpn;
        }
        if kind == Kind::Gsi {
            hca.transport.gsi = Some(qpn);
        }
        if holds_pd {
            hca.pds.hold(pd)?;
        }
        if uar != NO_UAR {
            hca.uars.hold(uar)?;
        }
        if kind == Kind::Xrc {
            hca.xrcds.hold(xrcd)?;
        }
        hca.cqs.hold(send)?;
        hca.cqs.hold(recv)?;
        if let Source::Shared(srqn) = source {
            hca.srqs.hold(srqn)?;
        }
        output.set(field!(create_qp_out, qpn), qpn.into());
        Ok(())
    }
}

/// A QP of the command; nothing has changed yet.
fn parse(
    hca: &Hca,
    input: Ref<'_, ifc::create_qp_in>,
    qpc: Ref<'_, ifc::qpc>,
) -> Result<Qp, Refused> {
    let st = qpc.get32(field!(qpc, st));
    let Some(kind) = Kind::from_code(st) else {
        refuse!(BadParam, 1, "service type {st:#x} is not offered");
    };
    if input.flag(field!(create_qp_in, wq_umem_valid)) || qpc.flag(field!(qpc, dbr_umem_valid)) {
        refuse!(BadParam, 2, "user memory objects are not offered");
    }
    if input.flag(field!(create_qp_in, qpc_ext)) {
        refuse!(BadParam, 3, "extended contexts are not offered");
    }
    if qpc.flag(field!(qpc, wq_signature)) {
        refuse!(BadParam, 4, "signed requests are not offered");
    }
    if input.get32(field!(create_qp_in, input_qpn)) != 0 {
        refuse!(BadParam, 5, "numbers cannot be chosen");
    }
    let format = qpc.get32(field!(qpc, ts_format));
    if format > raw::MLX5_TIMESTAMP_FORMAT_DEFAULT {
        refuse!(BadParam, 12, "time stamp format {format} is not offered");
    }
    let Some(queues) = queues(qpc) else {
        refuse!(BadParam, 6, "receive queue type is not offered");
    };
    let most = hca.caps.get(field!(cmd_hca_cap, log_max_qp_sz));
    let logs = [
        queues.sq.log,
        match queues.rq {
            Source::Own { log, .. } => Some(log),
            _ => None,
        },
    ];
    if let Some(log) = logs
        .into_iter()
        .flatten()
        .find(|log| u64::from(*log) > most)
    {
        refuse!(BadParam, 7, "queue of 2^{log}, at most 2^{most}");
    }
    let record = qpc.get(field!(qpc, dbr_addr));
    if record % 8 != 0 {
        refuse!(BadParam, 8, "doorbell record at {record:#x} is not aligned");
    }
    let pd = qpc.get32(field!(qpc, pd));
    let holds_pd = hca.pds.get(pd).is_some();
    let late = kind == Kind::Umr && pd == 0;
    if !holds_pd && !late {
        hca.pds.find(pd)?;
    }
    let uar = qpc.get32(field!(qpc, uar_page));
    // A QP without send queue rings nothing: mlx5_ib names no page for an XRC target
    // (`create_xrc_tgt_qp` in ib/qp.c).
    if uar != NO_UAR || queues.sq.log.is_some() {
        hca.uars.find(uar)?;
    }
    let xrcd = qpc.get32(field!(qpc, xrcd));
    if kind == Kind::Xrc {
        hca.xrcds.find(xrcd)?;
        if matches!(queues.rq, Source::Own { .. }) {
            refuse!(BadParam, 11, "an XRC QP receives from SRQs");
        }
    }
    let send_cqn = qpc.get32(field!(qpc, cqn_snd));
    let recv_cqn = qpc.get32(field!(qpc, cqn_rcv));
    hca.cqs.find(send_cqn)?;
    hca.cqs.find(recv_cqn)?;
    if let Source::Shared(srqn) = queues.rq {
        let srq = hca.srqs.find(srqn)?;
        // mlx5_ib names its XRC SRQ for XRC QPs of all domains: it only stands for "from SRQs".
        if matches!(srq.kind, crate::srq::Kind::Xrc { .. }) != (kind == Kind::Xrc) {
            refuse!(
                BadParam,
                9,
                "SRQ {srqn:#x} is {:?}, the QP {kind:?}",
                srq.kind
            );
        }
        if srq.pd != pd && kind != Kind::Xrc {
            refuse!(BadParam, 10, "SRQ {srqn:#x} is in PD {:#x}", srq.pd);
        }
    }
    let buffer = Buffer::parse(
        input.raw(span!(create_qp_in, pas)),
        qpc.get32(field!(qpc, log_page_size)),
        qpc.get32(field!(qpc, page_offset)),
        queues.bytes,
    )?;
    let mut context = [0; CONTEXT];
    context.copy_from_slice(input.raw(span!(create_qp_in, qpc)));
    Ok(Qp {
        qpn: 0,
        kind,
        state: State::Rst,
        context,
        attr: Attributes::of(qpc),
        uar,
        pd,
        holds_pd,
        xrcd,
        send_cqn,
        recv_cqn,
        buffer,
        record,
        sq: queues.sq,
        rq: ReceiveQueue {
            source: queues.rq,
            next: 0,
        },
        requester: Requester::default(),
        responder: Responder::default(),
        reaction: Reaction::default(),
        last_wqe: false,
    })
}

/// DESTROY_QP, in any state.
pub struct DestroyQp;

impl Command for DestroyQp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_QP;
    type In = ifc::destroy_qp_in;
    type Out = ifc::destroy_qp_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let qpn = input.get32(field!(destroy_qp_in, qpn));
        let qp = hca.qps.remove(qpn)?;
        hca.transport.forget(qpn);
        if hca.transport.gsi == Some(qpn) {
            hca.transport.gsi = None;
        }
        if qp.holds_pd {
            hca.pds.release(qp.pd);
        }
        hca.uars.release(qp.uar);
        if qp.kind == Kind::Xrc {
            hca.xrcds.release(qp.xrcd);
        }
        hca.cqs.release(qp.send_cqn);
        hca.cqs.release(qp.recv_cqn);
        if let Source::Shared(srqn) = qp.rq.source {
            hca.srqs.release(srqn);
        }
        Ok(())
    }
}

/// QUERY_QP: the context with its live fields. The page list is not returned.
pub struct QueryQp;

impl Command for QueryQp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_QP;
    type In = ifc::query_qp_in;
    type Out = ifc::query_qp_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let qp = hca.qps.find(input.get32(field!(query_qp_in, qpn)))?;
        let posted = qp.posted_receives(&mut hca.env);
        output
            .raw(span!(query_qp_out, qpc))
            .copy_from_slice(&qp.context);
        output.with(span!(query_qp_out, qpc), |qpc| {
            let requester = &qp.requester;
            qpc.set(field!(qpc, state), qp.state as u64)
                .set(field!(qpc, pd), qp.pd.into())
                .set(field!(qpc, hw_sq_wqebb_counter), qp.sq.next.into())
                .set(field!(qpc, sw_sq_wqebb_counter), qp.sq.posted.into())
                .set(field!(qpc, hw_rq_counter), qp.rq.next.into())
                .set(field!(qpc, sw_rq_counter), posted.into());
            if matches!(qp.state, State::Rtr | State::Rts | State::Sqer) {
                qpc.set(field!(qpc, next_rcv_psn), qp.responder.epsn.value().into())
                    .set(field!(qpc, rmsn), qp.responder.msn.into());
            }
            if matches!(qp.state, State::Rts | State::Sqer) {
                let acked = requester.una.plus(0xff_ffff);
                qpc.set(
                    field!(qpc, next_send_psn),
                    requester.next_psn.value().into(),
                )
                .set(field!(qpc, last_acked_psn), acked.value().into())
                .set(field!(qpc, cur_retry_count), requester.retries.into())
                .set(field!(qpc, cur_rnr_retry), requester.rnr_retries.into());
            }
        });
        Ok(())
    }
}
