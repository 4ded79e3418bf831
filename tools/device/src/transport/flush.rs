// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Failed queues: events, and an error completion for everything posted, now and later.

use super::{count, with_qp};
use crate::{
    cq::{Completion, Cqe},
    hca::Hca,
    qp::{wqe::Control, Kind, Qp, Source, State},
    sched::Work,
    violation::Failure,
};
use mlx5_hw::{raw, status::Syndrome};

/// Completions that one turn may write.
const FLUSH_BURST: u32 = 256;

// CAST: CQE opcodes have four bits.
const REQ_ERR: u8 = raw::MLX5_CQE_REQ_ERR as u8;
const RESP_ERR: u8 = raw::MLX5_CQE_RESP_ERR as u8;

/// Raises an event that names a QP.
pub(super) fn event(hca: &mut Hca, qp: &Qp, event: u32) {
    let mut data = [0; 28];
    // Byte 0x34 is the queue type, 0 for a QP; its number follows in the last dword.
    data[24..].copy_from_slice(&(qp.qpn & 0xff_ffff).to_be_bytes());
    hca.async_event(event, 0, &data);
}

/// Moves a QP to ERROR, by command or because its CQ failed.
pub fn enter_error(hca: &mut Hca, qpn: u32) {
    with_qp(hca, qpn, |hca, qp| {
        if qp.state != State::Rst {
            fail(hca, qp);
        }
    });
}

/// The QP is in ERROR from now on; flushing goes on in its turns.
pub(super) fn fail(hca: &mut Hca, qp: &mut Qp) {
    if qp.state == State::Err {
        return;
    }
    qp.state = State::Err;
    qp.requester.stop();
    qp.responder.stop();
    if matches!(qp.rq.source, Source::Own { .. }) {
        let now = hca.env.now();
        hca.transport.watch(qp.qpn, now);
    }
    hca.sched.push(Work::Qp(qp.qpn));
}

/// The context or a queue of the QP is unusable: catastrophic event, then ERROR.
pub(super) fn catastrophe(hca: &mut Hca, qp: &mut Qp) {
    if qp.state == State::Err {
        return;
    }
    tracing::error!("QP Catastrophic Error: QP {:#x}", qp.qpn);
    count(hca, "qp_catastrophic");
    event(hca, qp, raw::MLX5_EVENT_TYPE_WQ_CATAS_ERROR);
    fail(hca, qp);
}

/// Fault: the context of a QP is corrupted. False if there is no such QP.
pub fn corrupt_context(hca: &mut Hca, qpn: u32) -> bool {
    with_qp(hca, qpn, |hca, qp| {
        if qp.state != State::Rst {
            catastrophe(hca, qp);
        }
    })
    .is_some()
}

/// Writes an error completion of a send request.
pub(super) fn send_error(hca: &mut Hca, qp: &Qp, control: &Control, failure: impl Into<Failure>) {
    let failure = failure.into();
    let syndrome = failure.syndrome;
    let cqe = Cqe::error(
        Completion {
            opcode: REQ_ERR,
            qpn: qp.qpn,
            user_index: qp.attr.user_index,
            wqe_opcode: control.opcode,
            wqe_counter: control.index,
            byte_count: 0,
            imm: [0; 4],
            flags_rqpn: 0,
            solicited: false,
            vlan: None,
        },
        failure,
    );
    count_send(hca, qp, syndrome);
    if syndrome != Syndrome::Flushed {
        tracing::error!(
            "QP {:#x}: send request {} opcode {:#x}: {}",
            qp.qpn,
            control.index,
            control.opcode,
            syndrome.text()
        );
    }
    hca.complete(qp.send_cqn, cqe);
}

/// Writes an error completion of a receive request.
pub(super) fn receive_error(hca: &mut Hca, qp: &Qp, counter: u16, failure: impl Into<Failure>) {
    let failure = failure.into();
    let syndrome = failure.syndrome;
    let (cqn, user_index) = qp.receive_report();
    let cqe = Cqe::error(
        Completion {
            opcode: RESP_ERR,
            qpn: qp.qpn,
            user_index,
            wqe_opcode: 0,
            wqe_counter: counter,
            byte_count: 0,
            imm: [0; 4],
            flags_rqpn: 0,
            solicited: false,
            vlan: None,
        },
        failure,
    );
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.resp_cqe_error = counters.resp_cqe_error.wrapping_add(1);
        let counter = match syndrome {
            Syndrome::Flushed => &mut counters.resp_cqe_flush_error,
            Syndrome::LocalLength => &mut counters.resp_local_length_error,
            Syndrome::LocalProtection => &mut counters.resp_local_protection,
            Syndrome::LocalQpOp => &mut counters.resp_local_qp_error,
            _ => return,
        };
        *counter = counter.wrapping_add(1);
    });
    if syndrome != Syndrome::Flushed {
        tracing::error!(
            "QP {:#x}: receive request {counter}: {}",
            qp.qpn,
            syndrome.text()
        );
    }
    hca.complete(cqn, cqe);
}

/// Every completion with an error counts in `req_cqe_error`, most in a counter of their own too; likewise for receives. Source of the
/// meaning: NVIDIA's list of RDMA counters ("CQEs completed with errors").
fn count_send(hca: &mut Hca, qp: &Qp, syndrome: Syndrome) {
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.req_cqe_error = counters.req_cqe_error.wrapping_add(1);
        let counter = match syndrome {
            Syndrome::Flushed => &mut counters.req_cqe_flush_error,
            Syndrome::LocalLength => &mut counters.req_local_length_error,
            Syndrome::LocalProtection => &mut counters.req_local_protection,
            Syndrome::LocalQpOp => &mut counters.local_operation_error,
            Syndrome::MwBind => &mut counters.req_mw_binding,
            Syndrome::BadResponse => &mut counters.req_bad_response,
            Syndrome::RemoteInvalidRequest => &mut counters.req_remote_invalid_request,
            Syndrome::RemoteAccess => &mut counters.req_remote_access_errors,
            Syndrome::RemoteOperation => &mut counters.req_remote_operation_errors,
            Syndrome::RetryExceeded => &mut counters.req_transport_retries_exceeded,
            Syndrome::RnrRetryExceeded => &mut counters.req_rnr_retries_exceeded,
            _ => return,
        };
        *counter = counter.wrapping_add(1);
    });
}

/// Flushes both queues; whether there is more.
pub(super) fn flush(hca: &mut Hca, qp: &mut Qp) -> bool {
    let sends = flush_sq(hca, qp);
    let receives = flush_rq(hca, qp);
    sends || receives
}

/// Flushes the send queue: requests in flight first, then what is posted; whether there is more.
pub(super) fn flush_sq(hca: &mut Hca, qp: &mut Qp) -> bool {
    let mut left = FLUSH_BURST;
    while let Some(flight) = qp.requester.flight.pop_front() {
        qp.requester.cursor = qp.requester.cursor.saturating_sub(1);
        // The request that caused the failure carries its reason, the others were innocent.
        let failure = flight.error.unwrap_or(Syndrome::Flushed.into());
        send_error(hca, qp, &flight.wqe.control, failure);
        left = left.saturating_sub(1);
        if left == 0 {
            return true;
        }
    }
    if let Err(error) = qp.refresh_sq(&mut hca.env) {
        tracing::error!("QP {:#x}: {error}", qp.qpn);
        return false;
    }
    while let Ok(control) = qp.skip(&mut hca.env) {
        send_error(hca, qp, &control, Syndrome::Flushed);
        left = left.saturating_sub(1);
        if left == 0 {
            return true;
        }
    }
    false
}

fn flush_rq(hca: &mut Hca, qp: &mut Qp) -> bool {
    if let Some(counter) = qp.responder.take_open() {
        receive_error(hca, qp, counter, Syndrome::Flushed);
    }
    if let Source::Shared(_) = qp.rq.source {
        if !qp.last_wqe && qp.kind != Kind::Xrc {
            qp.last_wqe = true;
            event(hca, qp, raw::MLX5_EVENT_TYPE_SRQ_LAST_WQE);
        }
        return false;
    }
    for _ in 0..FLUSH_BURST {
        match qp.skip_receive(&mut hca.env) {
            Ok(Some(counter)) => receive_error(hca, qp, counter, Syndrome::Flushed),
            Ok(None) => return false,
            Err(error) => {
                tracing::error!("QP {:#x}: {error}", qp.qpn);
                hca.transport.forget(qp.qpn);
                return false;
            }
        }
    }
    true
}

/// The send side of a QP failed at the oldest request in flight: ERROR for connections, SQ error
/// for datagrams.
pub(super) fn fail_send(hca: &mut Hca, qp: &mut Qp) {
    if qp.kind.is_reliable() || qp.kind == Kind::Umr {
        fail(hca, qp);
    } else {
        qp.state = State::Sqer;
        qp.requester.stop();
        hca.sched.push(Work::Qp(qp.qpn));
    }
}
