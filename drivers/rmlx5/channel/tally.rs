// SPDX-License-Identifier: GPL-2.0
//! Account of one channel's run.

use super::{latency::Histogram, op::Op};

/// Count of one kind of operation.
#[derive(Clone, Copy)]
pub(crate) struct OpTally {
    /// Completed operations.
    pub(crate) ops: u64,
    /// Bytes they moved.
    pub(crate) bytes: u64,
}

/// What one channel did in a run.
#[derive(Clone)]
pub(crate) struct Tally {
    kinds: [OpTally; Op::ALL.len()],
    /// Time from posting an operation to finding its completion, all kinds together.
    pub(crate) latency: Histogram,
    /// Bytes that were compared and right: READ and FETCH_ADD results and received messages.
    pub(crate) verified: u64,
    /// Messages or values that were wrong.
    pub(crate) faults: u64,
    /// Received messages.
    pub(crate) messages: u64,
    /// Received messages with immediate data.
    pub(crate) immediates: u64,
    /// WRITEs and READs that were posted again after the connection broke.
    pub(crate) reposted: u64,
    /// SENDs and FETCH_ADDs of which nobody knows whether they were done.
    pub(crate) indeterminate: u64,
}

impl Tally {
    /// Nothing happened yet.
    pub(crate) const fn new() -> Self {
        Self {
            kinds: [OpTally { ops: 0, bytes: 0 }; Op::ALL.len()],
            latency: Histogram::new(),
            verified: 0,
            faults: 0,
            messages: 0,
            immediates: 0,
            reposted: 0,
            indeterminate: 0,
        }
    }

    /// Forgets everything, in place: a tally is large for a kernel stack.
    pub(crate) fn clear(&mut self) {
        for kind in &mut self.kinds {
            kind.ops = 0;
            kind.bytes = 0;
        }
        self.latency.clear();
        self.verified = 0;
        self.faults = 0;
        self.messages = 0;
        self.immediates = 0;
        self.reposted = 0;
        self.indeterminate = 0;
    }

    /// Counts of one kind.
    pub(crate) fn of(&self, op: Op) -> &OpTally {
        // PANIC: the array has one element for each kind.
        &self.kinds[op as usize]
    }

    /// Counts a completed operation.
    pub(crate) fn done(&mut self, op: Op, bytes: u32, ns: u64) {
        // PANIC: the array has one element for each kind.
        let kind = &mut self.kinds[op as usize];
        kind.ops = kind.ops.wrapping_add(1);
        kind.bytes = kind.bytes.wrapping_add(bytes.into());
        self.latency.record(ns);
    }

    /// Counts a received message.
    pub(crate) fn received(&mut self, immediate: bool) {
        self.messages = self.messages.wrapping_add(1);
        self.immediates = self.immediates.wrapping_add(immediate.into());
    }

    /// Counts bytes that were right.
    pub(crate) fn checked(&mut self, bytes: u32) {
        self.verified = self.verified.wrapping_add(bytes.into());
    }

    /// Operations of all kinds.
    pub(crate) fn ops(&self) -> u64 {
        self.kinds
            .iter()
            .fold(0, |sum, kind| sum.wrapping_add(kind.ops))
    }

    /// Bytes of all kinds.
    pub(crate) fn bytes(&self) -> u64 {
        self.kinds
            .iter()
            .fold(0, |sum, kind| sum.wrapping_add(kind.bytes))
    }

    /// Adds another tally: a channel that is taken away leaves its account behind.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (to, from) in self.kinds.iter_mut().zip(&other.kinds) {
            to.ops = to.ops.wrapping_add(from.ops);
            to.bytes = to.bytes.wrapping_add(from.bytes);
        }
        self.latency.merge(&other.latency);
        self.verified = self.verified.wrapping_add(other.verified);
        self.faults = self.faults.wrapping_add(other.faults);
        self.messages = self.messages.wrapping_add(other.messages);
        self.immediates = self.immediates.wrapping_add(other.immediates);
        self.reposted = self.reposted.wrapping_add(other.reposted);
        self.indeterminate = self.indeterminate.wrapping_add(other.indeterminate);
    }
}
