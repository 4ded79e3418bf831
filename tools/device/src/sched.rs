// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that waits for the data path: a fair queue, so that no doorbell runs for ever.

use std::collections::{HashSet, VecDeque};

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// A QP may have WQEs to send, or packets to make.
    Qp(u32),
    /// An Ethernet SQ may have WQEs.
    Sq(u32),
    /// RDMA packets to this card itself wait.
    Loopback,
    /// Failures of CQs have to be carried on to their queue pairs.
    Settle,
    /// A frame that was sent to this card by itself.
    Frame {
        /// Destination MAC to the last byte before the FCS.
        frame: Vec<u8>,
        /// Transport domain of the SQ that sent it.
        from: Option<u32>,
    },
}

/// The queue. A QP or SQ stands in it at most once.
#[derive(Debug, Default)]
pub struct Scheduler {
    queue: VecDeque<Work>,
    queued: HashSet<Work>,
}

impl Scheduler {
    /// Adds work at the end; a QP or SQ that already waits keeps its place.
    pub fn push(&mut self, work: Work) {
        if matches!(work, Work::Frame { .. }) || self.queued.insert(work.clone()) {
            self.queue.push_back(work);
        }
    }

    /// Takes the first piece out.
    pub fn pop(&mut self) -> Option<Work> {
        let work = self.queue.pop_front()?;
        self.queued.remove(&work);
        Some(work)
    }

    /// Whether there is something to do.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
