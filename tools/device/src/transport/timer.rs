// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deadlines. Entries are lazy: one that has become meaningless finds nothing to do.

use crate::{cq, hca::Hca, qp::State, sched::Work};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    time::Duration,
};

/// How often the receive records of failed QPs are looked at.
const WATCH: Duration = Duration::from_millis(1);

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A QP: acknowledgement timeout, or the end of a receiver-not-ready delay.
    Qp(u32),
    /// A CQ: a held back event.
    Cq(u32),
    /// The failed QPs.
    Watch,
}

/// All deadlines.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Duration, Timer)>>,
    /// What is in the heap, so that a busy QP does not fill it.
    known: HashSet<(Duration, Timer)>,
    watching: bool,
}

impl super::Transport {
    /// Wakes `timer` at `due`.
    pub fn at(&mut self, due: Duration, timer: Timer) {
        if self.timers.known.insert((due, timer)) {
            self.timers.heap.push(Reverse((due, timer)));
        }
    }

    /// Looks at the receive record of a failed QP from now on.
    pub(super) fn watch(&mut self, qpn: u32, now: Duration) {
        self.watched.insert(qpn);
        if !self.timers.watching {
            self.timers.watching = true;
            self.at(now + WATCH, Timer::Watch);
        }
    }

    fn due(&mut self, now: Duration) -> Option<Timer> {
        let Reverse((due, timer)) = *self.timers.heap.peek()?;
        if due > now {
            return None;
        }
        self.timers.heap.pop();
        self.timers.known.remove(&(due, timer));
        Some(timer)
    }
}

/// Timers.
pub fn tick(hca: &mut Hca) {
    let now = hca.env.now();
    while let Some(timer) = hca.transport.due(now) {
        match timer {
            Timer::Cq(cqn) => cq::expire(hca, cqn),
            Timer::Qp(qpn) => {
                super::with_qp(hca, qpn, |hca, qp| {
                    if qp.state == State::Rts {
                        super::requester::expire(hca, qp, now);
                    }
                });
                hca.sched.push(Work::Qp(qpn));
            }
            Timer::Watch => watch(hca, now),
        }
    }
}

fn watch(hca: &mut Hca, now: Duration) {
    hca.transport.timers.watching = false;
    let watched: Vec<u32> = hca.transport.watched.iter().copied().collect();
    for qpn in watched {
        hca.sched.push(Work::Qp(qpn));
    }
    if !hca.transport.watched.is_empty() {
        hca.transport.timers.watching = true;
        hca.transport.at(now + WATCH, Timer::Watch);
    }
}

/// When [`tick`] has something to do.
pub fn next_deadline(hca: &Hca) -> Option<Duration> {
    let Reverse((due, _)) = hca.transport.timers.heap.peek()?;
    Some(*due)
}
