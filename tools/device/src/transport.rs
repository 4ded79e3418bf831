// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RDMA engine: send requests to packets, packets to memory, completions and answers.
//!
//! Packets to this card itself take the same way as packets from the cable, without being written
//! as frames: they wait in a queue, so nothing here calls itself. Each call does a bounded piece of
//! work and asks the scheduler for another turn.
//!
//! | part | what |
//! |---|---|
//! | [`requester`] | PSNs, segmentation, windows, acknowledgements, retries |
//! | [`responder`] | order, rights, receive requests, answers |
//! | [`datagram`] | UD and GSI |
//! | [`packet`] | headers of a QP's packets, loopback, checks at arrival |
//! | [`notify`] | congestion: marked packets, notifications, rates |
//! | [`flush`] | errors: completions of what is posted, events |
//! | [`timer`] | deadlines |
//!
//! Source: InfiniBand Architecture Specification, chapter 9; contract of errors: ib/qp.c, ib/cq.c.

mod datagram;
mod flush;
mod local;
pub mod multicast;
mod notify;
mod packet;
mod requester;
mod responder;
mod timer;

pub use flush::{corrupt_context, enter_error};
pub use multicast::{AttachToMcg, DetachFromMcg};
pub use packet::receive;
pub use requester::Requester;
pub use responder::Responder;
pub use timer::{next_deadline, tick, Timer};

use crate::{
    hca::Hca,
    mkey::Memory,
    push::Pushed,
    qp::{Kind, Qp, State},
    sched::Work,
};
use packet::Looped;
use std::collections::{BTreeSet, VecDeque};

/// Packets that a QP may make or take in one turn.
const BURST: u32 = 16;

/// State that belongs to no QP.
#[derive(Debug, Default)]
pub struct Transport {
    /// The GSI QP, if there is one.
    pub gsi: Option<u32>,
    /// Packets to this card itself.
    loopback: VecDeque<Looped>,
    /// Frames to be used again.
    pool: Vec<roce::Frame>,
    timers: timer::Timers,
    /// CQs that failed and whose QPs have not been told.
    failed_cqs: Vec<u32>,
    /// QPs in ERROR with a receive queue of their own: it has no doorbell, so its record is looked
    /// at from time to time.
    watched: BTreeSet<u32>,
    groups: multicast::Groups,
}

impl Transport {
    /// A QP is gone or fresh: nothing remembered of it counts any more.
    pub fn forget(&mut self, qpn: u32) {
        self.watched.remove(&qpn);
    }

    /// A CQ has failed: its QPs go to ERROR at the next [`Work::Settle`].
    pub fn cq_failed(&mut self, cqn: u32) {
        self.failed_cqs.push(cqn);
    }

    fn frame(&mut self) -> roce::Frame {
        self.pool.pop().unwrap_or_default()
    }

    fn recycle(&mut self, frame: roce::Frame) {
        if self.pool.len() < 64 {
            self.pool.push(frame);
        }
    }
}

/// Adds to a counter of the engine.
pub(crate) fn count(hca: &mut Hca, name: &'static str) {
    *hca.env.counters.transport.entry(name).or_default() += 1;
}

/// Host memory through the keys of the function.
fn memory(hca: &mut Hca) -> Memory<'_> {
    Memory {
        env: &mut hca.env,
        keys: &hca.mkeys,
    }
}

/// Runs `act` with a QP taken out of its table, so that it can use the rest of the function.
fn with_qp<T>(hca: &mut Hca, qpn: u32, act: impl FnOnce(&mut Hca, &mut Qp) -> T) -> Option<T> {
    let mut qp = hca.qps.check_out(qpn)?;
    let result = act(hca, &mut qp);
    hca.qps.check_in(qpn, qp);
    Some(result)
}

/// A doorbell named this QP; `data` is what was written, `pushed` the WQE that came with it.
pub fn doorbell(hca: &mut Hca, uar: u32, qpn: u32, data: &[u8], pushed: Option<Pushed>) {
    with_qp(hca, qpn, |hca, qp| {
        if qp.uar != uar {
            tracing::warn!(
                "QP {qpn:#x}: doorbell through UAR {uar:#x}, not {:#x}",
                qp.uar
            );
            count(hca, "doorbell_foreign_uar");
            return;
        }
        if qp.state == State::Rst {
            return;
        }
        if let Err(error) = qp.refresh_sq(&mut hca.env) {
            tracing::error!("QP {qpn:#x}: {error}");
            flush::catastrophe(hca, qp);
            return;
        }
        if let &[_, high, low, _, ..] = data {
            let index = u16::from_be_bytes([high, low]);
            // The record counts past the request that the doorbell names.
            if qp.sq.posted.wrapping_sub(index) == 0
                || qp.sq.posted.wrapping_sub(index) > u16::MAX / 2
            {
                count(hca, "doorbell_record_lags");
                tracing::error!(
                    "QP {qpn:#x}: doorbell for request {index}, but the record says {}",
                    qp.sq.posted
                );
            } else {
                qp.push(pushed);
            }
        }
        hca.sched.push(Work::Qp(qpn));
    });
}

/// The scheduler gives this QP its turn.
pub fn run_qp(hca: &mut Hca, qpn: u32) {
    let more = with_qp(hca, qpn, |hca, qp| match qp.state {
        State::Rst | State::Init => false,
        State::Rtr => responder::answer(hca, qp, BURST),
        State::Rts => {
            let answers = responder::answer(hca, qp, BURST);
            let requests = match qp.kind {
                Kind::Ud | Kind::Gsi => datagram::send(hca, qp, BURST),
                Kind::Rc | Kind::Xrc | Kind::Uc | Kind::Umr => requester::send(hca, qp, BURST),
            };
            answers || requests
        }
        State::Sqer => flush::flush_sq(hca, qp),
        State::Err => flush::flush(hca, qp),
    });
    if more == Some(true) {
        hca.sched.push(Work::Qp(qpn));
    }
}

/// The scheduler gives looped packets their turn.
pub fn run_loopback(hca: &mut Hca) {
    for _ in 0..BURST {
        let Some(looped) = hca.transport.loopback.pop_front() else {
            return;
        };
        packet::arrive(hca, &looped.headers, looped.frame.payload(), looped.from);
        hca.transport.recycle(looped.frame);
    }
    if !hca.transport.loopback.is_empty() {
        hca.sched.push(Work::Loopback);
    }
}

/// QPs of failed CQs go to ERROR.
pub fn settle(hca: &mut Hca) {
    for cqn in std::mem::take(&mut hca.transport.failed_cqs) {
        let users: Vec<u32> = hca
            .qps
            .iter()
            .filter(|(_, qp)| qp.send_cqn == cqn || qp.recv_cqn == cqn)
            .map(|(qpn, _)| qpn)
            .collect();
        for qpn in users {
            tracing::error!("QP {qpn:#x}: moves to ERROR with its CQ {cqn:#x}");
            enter_error(hca, qpn);
        }
    }
}
