// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers on their way: acknowledgements, NAKs, data of READs and atomics.

use super::{refuse, Answer};
use crate::{
    hca::Hca,
    mkey::Need,
    qp::{Owner, Qp},
    transport::{
        flush, //
        memory,
        notify,
        packet::{self, Load},
    },
};
use roce::{
    Aeth, //
    Ext,
    Nak,
    Opcode,
    Operation,
    Position,
    Psn,
    Syndrome as Verdict,
};

/// Sends up to `burst` answers; whether there are more.
pub(in crate::transport) fn answer(hca: &mut Hca, qp: &mut Qp, burst: u32) -> bool {
    for _ in 0..burst {
        let Some(answer) = qp.responder.answers.front().copied() else {
            return false;
        };
        match answer {
            Answer::Verdict { psn, verdict, msn } => {
                let aeth = Aeth {
                    syndrome: verdict,
                    msn,
                };
                let ext = Ext {
                    aeth: Some(aeth),
                    ..Ext::default()
                };
                packet::emit_bare(hca, qp, load(qp, Operation::Ack, psn, ext));
                qp.responder.answers.pop_front();
            }
            Answer::Atomic { psn, old, msn } => {
                let ext = Ext {
                    aeth: Some(Aeth {
                        syndrome: Verdict::ACK,
                        msn,
                    }),
                    atomic_ack: Some(old),
                    ..Ext::default()
                };
                packet::emit_bare(hca, qp, load(qp, Operation::AtomicAck, psn, ext));
                qp.responder.answers.pop_front();
            }
            Answer::Read { .. } => {
                if notify::must_wait(hca, qp) {
                    return false;
                }
                if !read_response(hca, qp, answer) {
                    return true;
                }
            }
            Answer::Fail => {
                flush::fail(hca, qp);
                return false;
            }
        }
    }
    !qp.responder.answers.is_empty()
}

/// One packet of a READ response; false when the QP has failed over it.
fn read_response(hca: &mut Hca, qp: &mut Qp, answer: Answer) -> bool {
    let Answer::Read {
        psn,
        reth,
        pd,
        sent,
        packets,
        msn,
    } = answer
    else {
        return true;
    };
    let Some(mtu) = qp.attr.mtu else {
        qp.responder.answers.pop_front();
        return true;
    };
    let offset = sent.saturating_mul(mtu.bytes() as u32);
    let len = (reth.len - offset.min(reth.len)).min(mtu.bytes() as u32);
    let at = Position::of(sent == 0, sent + 1 >= packets);
    let psn = psn.plus(sent);
    let mut frame = hca.transport.frame();
    // CAST: at most 4096.
    let buf = frame.payload_mut(len as usize);
    let owner = Owner { pd, ..qp.owner() };
    let reach = owner.reach(reth.rkey, Need::RemoteRead);
    let va = reth.va.wrapping_add(offset.into());
    if let Err(fault) = memory(hca).read(reach, va, buf) {
        tracing::error!("QP {:#x}: remote read: {fault}", qp.qpn);
        hca.transport.recycle(frame);
        qp.responder.answers.clear();
        refuse(hca, qp, psn, Nak::RemoteAccess, None);
        return false;
    }
    let aeth = (at != Position::Middle).then_some(Aeth {
        syndrome: Verdict::ACK,
        msn,
    });
    let ext = Ext {
        aeth,
        ..Ext::default()
    };
    let load = load(qp, Operation::ReadResponse(at), psn, ext);
    match packet::headers(hca, &qp.attr.path, load) {
        Some(headers) => packet::depart(hca, qp, headers, frame, None),
        None => {
            packet::no_source(hca, qp);
            hca.transport.recycle(frame);
        }
    }
    if sent + 1 >= packets {
        qp.responder.answers.pop_front();
    } else if let Some(Answer::Read { sent, .. }) = qp.responder.answers.front_mut() {
        *sent += 1;
    }
    true
}

fn load(qp: &Qp, operation: Operation, psn: Psn, ext: Ext) -> Load {
    Load {
        opcode: Opcode {
            service: qp.service(),
            operation,
        },
        psn,
        dest_qp: qp.attr.remote_qpn,
        solicited: false,
        ack_req: false,
        ext,
    }
}
