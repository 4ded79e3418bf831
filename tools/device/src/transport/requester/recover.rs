// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Losses: timers, going back, giving up.

use super::{settle, ACK_EVERY, SLOW_WINDOW};
use crate::{
    hca::Hca, //
    qp::Qp,
    sched::Work,
    transport::{count, Timer},
    violation::Failure,
};
use mlx5_hw::status::Syndrome;
use std::time::Duration;

/// The specification lets the timer run for one to four times the programmed value; four leaves
/// room for a busy host.
const TIMEOUT_FACTOR: u32 = 4;

/// Starts the acknowledgement timer, or stops it when nothing is outstanding.
pub(super) fn arm(hca: &mut Hca, qp: &mut Qp) {
    let outstanding = qp.requester.una != qp.requester.next_psn;
    // At a low rate the packet that asks for an acknowledgement is still to come.
    let packet = qp.attr.mtu.map_or(0, |mtu| mtu.bytes());
    let unasked = qp.reaction.time_for(packet * ACK_EVERY as usize);
    let due = qp
        .attr
        .ack_timeout
        .filter(|_| outstanding)
        .map(|timeout| hca.env.now() + unasked + timeout * TIMEOUT_FACTOR);
    qp.requester.deadline = due;
    if let Some(due) = due {
        set_timer(hca, qp, due);
    }
}

/// Makes sure that the QP is woken at `due` or earlier.
pub(super) fn set_timer(hca: &mut Hca, qp: &mut Qp, due: Duration) {
    if qp.requester.timer.is_none_or(|timer| timer > due) {
        qp.requester.timer = Some(due);
        hca.transport.at(due, Timer::Qp(qp.qpn));
    }
}

/// A timer of the QP has run out, or an old one has.
pub(in crate::transport) fn expire(hca: &mut Hca, qp: &mut Qp, now: Duration) {
    if qp.requester.timer.is_some_and(|timer| timer <= now) {
        qp.requester.timer = None;
    }
    match qp.requester.wait {
        Some(until) if until > now => return set_timer(hca, qp, until),
        _ => qp.requester.wait = None,
    }
    match qp.requester.deadline {
        None => return,
        Some(due) if due > now => return set_timer(hca, qp, due),
        Some(_) => {}
    }
    qp.requester.deadline = None;
    if qp.requester.una == qp.requester.next_psn {
        return;
    }
    hca.count_q(qp.attr.counter_set.into(), |counters| {
        counters.local_ack_timeout_err = counters.local_ack_timeout_err.wrapping_add(1);
        counters.roce_slow_restart = counters.roce_slow_restart.wrapping_add(1);
    });
    count(hca, "ack_timeout");
    qp.requester.window = SLOW_WINDOW;
    retry(hca, qp);
}

/// The responder, or a gap in its answers, says that `una` was lost. Said once is enough, and
/// nothing is sent while the other side is not ready.
pub(super) fn lost(hca: &mut Hca, qp: &mut Qp) {
    let una = qp.requester.una;
    if qp.requester.wait.is_none() && qp.requester.recovering != Some(una) {
        qp.requester.recovering = Some(una);
        retry(hca, qp);
    }
}

/// Sends again from the first PSN that is not acknowledged, if retries are left.
fn retry(hca: &mut Hca, qp: &mut Qp) {
    if qp.requester.retries == 0 {
        return fail_oldest(hca, qp, Syndrome::RetryExceeded);
    }
    qp.requester.retries -= 1;
    if qp.requester.go_back(qp.requester.una) {
        qp.requester.deadline = None;
        arm(hca, qp);
        hca.sched.push(Work::Qp(qp.qpn));
    }
}

/// The request that waits for `una` fails.
pub(super) fn fail_oldest(hca: &mut Hca, qp: &mut Qp, failure: impl Into<Failure>) {
    let una = qp.requester.una;
    if qp.requester.go_back(una) {
        let cursor = qp.requester.cursor;
        qp.requester.flight[cursor].error = Some(failure.into());
    }
    settle(hca, qp);
}
