// SPDX-License-Identifier: GPL-2.0
//! From a CQE to what the kernel is told: completions of work requests.

use kernel_ext::rdma::{
    kverbs::{
        completion::Received as Arrived,
        Completion,
        Outcome,
        Status, //
    },
    GidKind, //
};
use mlx5_hw::status::Syndrome;

use super::queues::Queues;
use crate::cq::cqe::{
    Cqe,
    CqeSyndrome,
    Envelope,
    Received,
    Wrapping,
    CQE_BYTES, //
};

/// Number of the QP that a CQE is about.
pub(super) fn number_of(cqe: &Cqe) -> Option<u32> {
    match cqe {
        Cqe::Requester { qpn, .. }
        | Cqe::Responder { qpn, .. }
        | Cqe::RequesterError { qpn, .. }
        | Cqe::ResponderError { qpn, .. } => Some(*qpn),
        Cqe::Resize | Cqe::Malformed { .. } => None,
    }
}

/// The completion of what a CQE is about; `None` when nothing such is posted.
pub(super) fn complete(queues: &Queues, cqe: &Cqe, bytes: &[u8; CQE_BYTES]) -> Option<Completion> {
    match *cqe {
        Cqe::Requester {
            wqe_counter,
            byte_cnt,
            ..
        } => queues.sent(wqe_counter, Status::Success, 0, byte_cnt),
        Cqe::RequesterError {
            wqe_counter,
            syndrome,
            ..
        } => queues.sent(wqe_counter, status(syndrome), syndrome.vendor.into(), 0),
        Cqe::Responder {
            wqe_counter,
            byte_cnt,
            kind,
            source_qpn,
            ..
        } => {
            let arrived = arrived(byte_cnt, kind, source_qpn, &Envelope::parse(bytes));
            queues.received(wqe_counter, Status::Success, 0, Outcome::Receive(arrived))
        }
        Cqe::ResponderError {
            wqe_counter,
            syndrome,
            ..
        } => queues.received(
            wqe_counter,
            status(syndrome),
            syndrome.vendor.into(),
            Outcome::Failed,
        ),
        Cqe::Resize | Cqe::Malformed { .. } => None,
    }
}

fn arrived(length: u32, kind: Received, source_qpn: u32, envelope: &Envelope) -> Arrived {
    let (immediate, invalidated) = match kind {
        Received::Send => (None, None),
        Received::SendImm(value) | Received::WriteImm(value) => (Some(value.to_be_bytes()), None),
        Received::SendInvalidate(key) => (None, Some(key)),
    };
    Arrived {
        length,
        write: matches!(kind, Received::WriteImm(_)),
        immediate,
        invalidated,
        source_qpn,
        grh: envelope.grh,
        vlan: envelope.vlan,
        kind: match envelope.wrapping {
            Wrapping::Grh => (GidKind::RoceV1, false),
            Wrapping::Ipv6 => (GidKind::RoceV2, false),
            Wrapping::Ipv4 => (GidKind::RoceV2, true),
        },
    }
}

fn status(syndrome: CqeSyndrome) -> Status {
    match syndrome.known() {
        Some(Syndrome::LocalLength) => Status::LocalLength,
        Some(Syndrome::LocalQpOp) => Status::LocalQpOperation,
        Some(Syndrome::LocalProtection) => Status::LocalProtection,
        Some(Syndrome::Flushed) => Status::Flushed,
        Some(Syndrome::MwBind) => Status::WindowBind,
        Some(Syndrome::BadResponse) => Status::BadResponse,
        Some(Syndrome::LocalAccess) => Status::LocalAccess,
        Some(Syndrome::RemoteInvalidRequest) => Status::RemoteInvalidRequest,
        Some(Syndrome::RemoteAccess) => Status::RemoteAccess,
        Some(Syndrome::RemoteOperation) => Status::RemoteOperation,
        Some(Syndrome::RetryExceeded) => Status::RetryExceeded,
        Some(Syndrome::RnrRetryExceeded) => Status::RnrRetryExceeded,
        Some(Syndrome::RemoteAborted) => Status::RemoteAborted,
        None => Status::General,
    }
}
