// SPDX-License-Identifier: GPL-2.0
//! Transmit rings.
//!
//! A packet is mapped, described in a WQE, and kept until the card is done with it. One doorbell may
//! announce several packets; the last of them asks for the completion, which stands for all before it.
//!
//! Order: WQE, `dma_wmb`, doorbell record, `dma_wmb`, one write to the doorbell.

use kernel::{
    prelude::*,
    sync::{
        barrier::{
            self,
            dma_mb, //
        },
        Arc, //
    }, //
};
use kernel_ext::net::{
    inflight::{
        InFlight,
        Refused, //
    },
    napi::Poll,
    queue::TxQueue,
    SkBuff,
    Transmit, //
};
use mlx5_hw::ring::Counter;

use super::{
    base::Base,
    cq::Completions,
    cqe::{
        Failure,
        Sent, //
    },
    home::Home,
    slot::TxCounts,
    sq::Sq,
    wqe::{
        fixed_segments,
        Frame,
        Wqe,
        BLOCK,
        MAX_SEGMENTS,
        SEGMENT,
        SIGNAL,
        SIGNAL_AT, //
    },
};
use crate::{
    cq::Moderation,
    record::Record,
    uar::Uar, //
};

/// Word of a send queue in a doorbell record: `MLX5_SND_DBR`.
const SEND: usize = 1;
/// Register of the UAR that all rings share; a write is one access, so they do not disturb each other.
const REGISTER: usize = 0;
/// Bytes that the card needs to see of a frame.
const ETHERNET_HEADER: u32 = 14;
/// Longest headers of a packet to be cut: a TCP header behind IPv6 with extensions.
const MAX_HEADERS: u32 = 256;
/// Completions handled in one poll.
const BUDGET: u32 = 128;

/// What is known of a packet in flight.
struct Note {
    /// Block at which its WQE begins.
    start: Counter,
    /// Blocks of the WQE.
    blocks: u32,
    /// Bytes on the wire, as the byte queue limits know them.
    bytes: u32,
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

/// A transmit ring.
pub(super) struct TxRing {
    /// Taken from the card first: then it has let go of the packets.
    sq: Sq,
    flight: Option<InFlight<Note>>,
    cq: Completions,
    wqe: Wqe,
    head: Counter,
    tail: Counter,
    /// Doorbell of posted WQEs that the card does not know of, and where the last of them is.
    pending: Option<(u64, usize)>,
    /// Segments of a WQE at most.
    max_segments: usize,
    lkey: u32,
    uar: Arc<Uar>,
    register: usize,
    /// Nothing is posted any more.
    broken: bool,
}

impl TxRing {
    /// Makes a ring of `1 << log` blocks on completion vector `vector`. Sleeps.
    pub(super) fn new(
        home: &Home,
        base: &Base,
        vector: u16,
        log: u8,
        inline_mode: bool,
        moderation: Moderation,
    ) -> Result<Self> {
        let device = home.device();
        let caps = device.caps()?;
        let uar = device.uar()?;
        let register = Uar::register(REGISTER, caps.log_bf_register)?;
        let cq = Completions::new(home, vector, log, moderation)?;
        let entries = 1usize.checked_shl(log.into()).ok_or(EINVAL)?;
        let flight = InFlight::new(&device.pdev, entries, entries * (BLOCK / SEGMENT))?;
        let sq = Sq::new(home, base, cq.number(), log, inline_mode)?;
        Ok(Self {
            sq,
            flight: Some(flight),
            cq,
            wqe: Wqe::new(),
            head: Counter::default(),
            tail: Counter::default(),
            pending: None,
            max_segments: (usize::from(caps.max_send_wqe) / SEGMENT).min(MAX_SEGMENTS),
            lkey: base.lkey(),
            uar,
            register,
            broken: false,
        })
    }

    /// Its completions.
    pub(super) fn cq(&self) -> &Completions {
        &self.cq
    }

    /// Blocks that are free.
    fn free(&self) -> u32 {
        let used = self.head.since(self.tail);
        self.sq.ring().entries().saturating_sub(used)
    }

    /// Blocks of the longest WQE.
    fn longest(&self) -> u32 {
        // CAST: at most 16.
        (self.max_segments * SEGMENT).div_ceil(BLOCK) as u32
    }

    /// Sends a packet. `more` says that another one follows at once. Softirqs off.
    pub(super) fn send(
        &mut self,
        skb: SkBuff,
        queue: TxQueue<'_>,
        more: bool,
        counts: &TxCounts,
    ) -> Transmit {
        if self.broken {
            counts.dropped.inc();
            return Transmit::Taken;
        }
        if self.free() < self.longest() {
            // The queue was stopped before; somebody waked it too early.
            counts.busy.inc();
            queue.stop();
            self.ring(counts);
            return Transmit::Busy(skb);
        }
        let sent = self.post(skb, counts);
        let now = match sent {
            Some(bytes) => queue.sent(bytes, more),
            None => {
                counts.dropped.inc();
                !more
            }
        };
        let full = self.free() < self.longest();
        if full {
            counts.stopped.inc();
            queue.stop();
        }
        if now || full {
            self.ring(counts);
        }
        Transmit::Taken
    }

    /// Posts a packet and says how many bytes go over the wire; `None` when it was dropped.
    fn post(&mut self, mut skb: SkBuff, counts: &TxCounts) -> Option<u32> {
        let gso = skb.gso();
        let headers = gso.map_or(ETHERNET_HEADER, |gso| gso.headers);
        let tag = skb.tag();
        let tag_len = if tag.is_some() { 4 } else { 0 };
        if headers > MAX_HEADERS || !skb.ensure_linear(headers) {
            counts.bad_packets.inc();
            return None;
        }
        // CAST, twice: small numbers.
        let fixed = fixed_segments((headers + tag_len) as usize);
        if fixed + skb.fragments() as usize + 1 > self.max_segments {
            if skb.linearize().is_err() {
                return None;
            }
            counts.linearized.inc();
        }
        let frame = Frame {
            checksum: skb.wants_checksum(),
            // CAST: the stack keeps it below the MTU.
            mss: gso.map_or(0, |gso| gso.size as u16),
            // CAST: checked above.
            headers: headers as u16,
            tag: tag.map(|tag| (tag.protocol, tag.tci)),
        };
        let begun = self.wqe.begin(&frame, |bytes| skb.copy_linear(bytes));
        if begun.is_none() {
            counts.bad_packets.inc();
            return None;
        }
        let segments = gso.map_or(1, |gso| gso.segments);
        let bytes = skb
            .len()
            .wrapping_add(segments.wrapping_sub(1).wrapping_mul(headers));
        let payload = skb.len().wrapping_sub(headers);
        // What the WQE will be is known only when the pieces are; the note is made of the most.
        let pieces = skb.fragments() as usize + usize::from(skb.linear_len() > headers);
        let blocks = ((fixed + pieces) * SEGMENT).div_ceil(BLOCK);
        let note = Note {
            start: self.head,
            // CAST: at most 16.
            blocks: blocks as u32,
            bytes,
        };
        let (wqe, lkey) = (&mut self.wqe, self.lkey);
        let mut fits = true;
        let pushed = self.flight.as_mut()?.push(skb, headers, note, |piece| {
            fits = fits && wqe.piece(piece.address, piece.len, lkey).is_some();
        });
        if let Err((_skb, _note, why)) = pushed {
            match why {
                Refused::Mapping => counts.mapping_errors.inc(),
                Refused::Full => counts.bad_packets.inc(),
            }
            return None;
        }
        // Counted before, so it fits; were it otherwise, the packet waits in vain and the ring is made
        // anew when the queue times out.
        let finished = self.wqe.finish(self.head.low16(), self.sq.number());
        if !fits || finished.is_none() || self.write().is_err() {
            self.broken = true;
            return None;
        }
        counts.packets.add(segments.into());
        counts.bytes.add(bytes.into());
        if gso.is_some() {
            counts.tso_packets.inc();
            counts.tso_bytes.add(payload.into());
        }
        if frame.checksum {
            counts.checksums.inc();
        }
        if frame.tag.is_some() {
            counts.tags.inc();
        }
        Some(bytes)
    }

    /// Copies the WQE into the ring, around its end if need be.
    fn write(&mut self) -> Result {
        let ring = self.sq.ring();
        // CAST, twice: a ring has at most 2^15 blocks.
        let at = ring.slot(self.head) as usize * BLOCK;
        let size = ring.entries() as usize * BLOCK;
        let bytes = self.wqe.bytes();
        let (head, tail) = bytes.split_at(bytes.len().min(size.saturating_sub(at)));
        let buf = self.sq.buf()?;
        buf.write(at, head)?;
        if !tail.is_empty() {
            buf.write(0, tail)?;
        }
        self.pending = Some((self.wqe.doorbell(), at));
        self.head = self.head.plus(self.wqe.blocks().into());
        Ok(())
    }

    /// Tells the card of everything posted.
    fn ring(&mut self, counts: &TxCounts) {
        let Some((doorbell, at)) = self.pending.take() else {
            return;
        };
        let rung = self.sq.buf().and_then(|buf| {
            buf.write8(at + SIGNAL_AT, SIGNAL)?;
            dma_mb(barrier::Write);
            let records = self.sq.records()?;
            records.set(Record::Qp, SEND, self.head.low16().into())?;
            dma_mb(barrier::Write);
            self.uar.send(self.register, doorbell)
        });
        counts.doorbells.inc();
        // The ranges are those of the buffers: this cannot fail.
        self.broken |= rung.is_err();
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
            seen += 1;
            fault = match Sent::parse(&entry) {
                Sent::Done { index } => self.finish(index, &mut |skb, note| {
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
        self.broken |= fault.is_some();
        // A little more than one packet needs, so that the queue does not stop at once.
        if !self.broken && queue.is_stopped() && self.free() >= 2 * self.longest() {
            counts.waked.inc();
            queue.wake();
        }
        Progress {
            more: seen == BUDGET && fault.is_none(),
            fault,
        }
    }

    /// Finishes everything up to the WQE that begins at block `index`.
    fn finish(&mut self, index: u16, each: &mut dyn FnMut(SkBuff, &Note)) -> Option<Fault> {
        let ahead = u32::from(index.wrapping_sub(self.tail.low16()));
        if ahead >= self.head.since(self.tail) {
            return Some(Fault::Unknown(index));
        }
        let target = self.tail.plus(ahead);
        // Each round takes a packet out, so this ends.
        while let Some((skb, note)) = self.flight.as_mut().and_then(InFlight::pop) {
            let last = note.start;
            self.tail = last.plus(note.blocks);
            each(skb, &note);
            if last == target {
                return None;
            }
            if target.since(last) < note.blocks {
                break;
            }
        }
        Some(Fault::Unknown(index))
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        let let_go = self.sq.end();
        if let Some(flight) = self.flight.take() {
            if !let_go {
                // The card may still read the packets.
                core::mem::forget(flight);
            }
        }
    }
}
