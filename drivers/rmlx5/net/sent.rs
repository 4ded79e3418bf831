// SPDX-License-Identifier: GPL-2.0
//! Transmit rings, the end that finishes what the card has sent.

use kernel::{
    sync::{
        atomic::ordering::{
            Acquire,
            Release, //
        },
        barrier::{
            self,
            smp_mb, //
        },
        Arc, //
    }, //
};
use kernel_ext::net::{
    inflight::Finisher,
    napi::Poll,
    queue::TxQueue,
    SkBuff, //
};
use mlx5_hw::ring::Counter;

use super::{
    cq::Completions,
    cqe::{
        Failure,
        Sent, //
    },
    gauge::Gauge,
    slot::TxCounts,
};

/// Completions handled in one poll.
const BUDGET: u32 = 128;

/// What is known of a packet in flight.
pub(super) struct Note {
    /// Block at which its WQE begins.
    pub(super) start: Counter,
    /// Blocks of the WQE.
    pub(super) blocks: u32,
    /// Bytes on the wire, as the byte queue limits know them.
    pub(super) bytes: u32,
}

/// What a completion says is impossible, or bad news; the ring does not work any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The queue is in error.
    Failed(Failure),
    /// Nothing that was posted has that number.
    Unknown(u16),
    /// A completion of this kind does not belong on a send queue.
    Malformed(u8),
}

/// How a look at the completions ended.
pub(super) struct Progress {
    /// There may be more.
    pub(super) more: bool,
    /// The first fault.
    pub(super) fault: Option<Fault>,
}

/// The end of a transmit ring that finishes. It owns the completion queue, so it goes after the other.
pub(super) struct TxDone {
    pub(super) flight: Finisher<Note>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) tail: Counter,
    pub(super) cq: Completions,
    /// The queue stays stopped.
    pub(super) broken: bool,
}

impl TxDone {
    /// Its completions.
    pub(super) fn cq(&self) -> &Completions {
        &self.cq
    }

    /// Its completions, to be told of traffic.
    pub(super) fn cq_mut(&mut self) -> &mut Completions {
        &mut self.cq
    }

    /// Looks at what the card has finished.
    pub(super) fn complete(
        &mut self,
        poll: &Poll<'_>,
        queue: TxQueue<'_>,
        counts: &TxCounts,
    ) -> Progress {
        let (mut packets, mut bytes) = (0u32, 0u32);
        let mut seen = 0;
        let mut fault = None;
        while seen < BUDGET && fault.is_none() {
            let Some(entry) = self.cq.next() else {
                break;
            };
            seen = seen.wrapping_add(1);
            fault = match Sent::parse(&entry) {
                Sent::Done { index } => self.finish(index, |skb, note| {
                    packets = packets.wrapping_add(1);
                    bytes = bytes.wrapping_add(note.bytes);
                    poll.consume(skb);
                }),
                Sent::Failed { failure, .. } => Some(Fault::Failed(failure)),
                Sent::Malformed { opcode } => Some(Fault::Malformed(opcode)),
            };
        }
        if seen == 0 {
            return Progress {
                more: false,
                fault: None,
            };
        }
        self.cq.publish();
        queue.completed(packets, bytes);
        match fault {
            Some(Fault::Failed(_)) => counts.error_cqes.inc(),
            Some(_) => counts.bad_cqes.inc(),
            None => {}
        }
        if fault.is_some() {
            // Nothing more goes to a ring that does not work.
            self.broken = true;
            queue.stop();
        }
        // Room before the look at the queue; pairs with the barrier in `TxRing::pause`.
        smp_mb(barrier::Full);
        if queue.is_stopped() && !self.broken {
            let head = Counter::new(self.gauge.head.load(Acquire));
            if self.gauge.has_room(self.gauge.free(head, self.tail)) {
                counts.waked.inc();
                queue.wake();
            }
        }
        Progress {
            more: seen == BUDGET && fault.is_none(),
            fault,
        }
    }

    /// Finishes everything up to the WQE that begins at block `index`.
    #[inline]
    fn finish(&mut self, index: u16, mut each: impl FnMut(SkBuff, &Note)) -> Option<Fault> {
        let head = Counter::new(self.gauge.head.load(Acquire));
        let ahead = u32::from(index.wrapping_sub(self.tail.low16()));
        if ahead >= head.since(self.tail) {
            return Some(Fault::Unknown(index));
        }
        let target = self.tail.plus(ahead);
        let mut fault = Some(Fault::Unknown(index));
        // Each round takes a packet out, so this ends.
        while let Some((skb, note)) = self.flight.pop() {
            let last = note.start;
            self.tail = last.plus(note.blocks);
            each(skb, &note);
            if last == target {
                fault = None;
                break;
            }
            if target.since(last) < note.blocks {
                break;
            }
        }
        self.gauge.tail.store(self.tail.value(), Release);
        fault
    }
}
