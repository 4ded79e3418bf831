// SPDX-License-Identifier: GPL-2.0
//! Transmit rings.
//!
//! A packet is mapped, described in a WQE, and kept until the card is done with it. One doorbell may
//! announce several packets; the last of them asks for the completion, which stands for all before it.
//!
//! Order: WQE, `dma_wmb`, doorbell record, `dma_wmb`, one write to the doorbell.
//!
//! A ring has two ends without a lock between them: [`TxRing`] posts, under the transmit lock of its queue; [`TxDone`] looks
//! at completions, in the poll of its channel. Each writes one counter of [`Gauge`] and reads the other.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Release,
            Atomic, //
        },
        barrier::{
            self,
            dma_mb,
            smp_mb, //
        },
        Arc, //
    }, //
};
use kernel_ext::net::{
    dim::Way,
    inflight::{
        self,
        Refused,
        Sender, //
    },
    queue::TxQueue,
    SkBuff,
    Transmit, //
};
use mlx5_hw::ring::Counter;

use super::{
    base::Base,
    channel::Shape,
    cq::Completions,
    gauge::Gauge,
    sent::{
        Note,
        TxDone, //
    },
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
    }, //
};
use crate::{
    home::Home,
    port_counters::PortCounters,
    record::Record,
    uar::Uar, //
};

/// Word of a send queue in a doorbell record: `MLX5_SND_DBR`.
const SEND: usize = 1;
/// Register of the UAR that all rings share; a write is one access, so they do not disturb each other.
const REGISTER: usize = 0;
/// Bytes that the card needs to see of a frame.
const ETHERNET_HEADER: u32 = 14;
/// With a tag and an IPv6 header.
const NETWORK_HEADERS: u32 = ETHERNET_HEADER + 4 + 40;
/// Longest headers of a packet to be cut: a TCP header behind IPv6 with extensions.
const MAX_HEADERS: u32 = 256;

/// The end of a transmit ring that posts.
pub(super) struct TxRing {
    /// Taken from the card first: then it has let go of the packets.
    sq: Sq,
    flight: Option<Sender<Note>>,
    gauge: Arc<Gauge>,
    wqe: Wqe,
    head: Counter,
    /// How far the other end was when it was looked at last.
    tail: Counter,
    /// Doorbell of posted WQEs that the card does not know of, and where the last of them is.
    pending: Option<(u64, usize)>,
    /// Blocks in use at most while the longest WQE still fits.
    limit: u32,
    /// Segments of a WQE at most.
    max_segments: usize,
    lkey: u32,
    /// Bytes that the card sees of a frame, if it is as long.
    shown: u32,
    uar: Arc<Uar>,
    register: usize,
    /// Where the device counts its mapping errors too.
    device_counts: Arc<PortCounters>,
    /// Nothing is posted any more.
    broken: bool,
}

impl TxRing {
    /// Makes a ring of `1 << shape.log_tx` blocks on completion vector `vector`. Sleeps.
    pub(super) fn new(
        home: &Home,
        base: &Base,
        vector: u16,
        shape: &Shape,
    ) -> Result<(TxDone, Self)> {
        let log = shape.log_tx;
        let device = home.device();
        let caps = device.caps()?;
        let uar = device.uar()?;
        let register = Uar::register(REGISTER, caps.log_bf_register)?;
        let cq = Completions::new(
            home,
            vector,
            log,
            shape.tx_moderation,
            shape.tx_adaptive.then_some(Way::Send),
        )?;
        let entries = 1usize.checked_shl(log.into()).ok_or(EINVAL)?;
        let pieces = entries * (BLOCK / SEGMENT);
        let (sender, finisher) = inflight::ring(&device.pdev, entries, pieces)?;
        let sq = Sq::new(home, base, cq.number(), log, shape.inline_mode)?;
        let max_segments = (usize::from(caps.max_send_wqe) / SEGMENT).min(MAX_SEGMENTS);
        let gauge = Gauge {
            head: Atomic::new(0),
            tail: Atomic::new(0),
            blocks: sq.ring().entries(),
            // CAST: at most 16.
            longest: (max_segments * SEGMENT).div_ceil(BLOCK) as u32,
        };
        let limit = gauge.blocks.saturating_sub(gauge.longest);
        let gauge = Arc::new(gauge, GFP_KERNEL)?;
        let done = TxDone {
            flight: finisher,
            gauge: gauge.clone(),
            tail: Counter::default(),
            cq,
            broken: false,
        };
        let ring = Self {
            sq,
            flight: Some(sender),
            gauge,
            wqe: Wqe::new(),
            head: Counter::default(),
            tail: Counter::default(),
            pending: None,
            limit,
            max_segments,
            lkey: base.lkey(),
            shown: match shape.inline_network {
                true => NETWORK_HEADERS,
                false => ETHERNET_HEADER,
            },
            uar,
            register,
            device_counts: device.counters.clone(),
            broken: false,
        };
        Ok((done, ring))
    }

    /// Sends a packet. `more` says that another one follows at once. Under the lock of `queue`.
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
        if !self.fits() {
            // The queue was stopped before; somebody waked it too early.
            counts.busy.inc();
            self.pause(queue);
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
        let full = !self.fits();
        if full && self.pause(queue) {
            counts.stopped.inc();
        }
        if now || full {
            self.ring(counts);
        }
        Transmit::Taken
    }

    /// Whether the longest WQE fits. Looks at the other end only when it does not as far as is known.
    fn fits(&mut self) -> bool {
        if self.head.since(self.tail) <= self.limit {
            return true;
        }
        self.tail = self.gauge.tail();
        self.head.since(self.tail) <= self.limit
    }

    /// Stops the queue, unless room has come meanwhile; whether it is stopped.
    fn pause(&mut self, queue: TxQueue<'_>) -> bool {
        // What is posted counts for whoever wakes the queue.
        self.publish();
        queue.stop();
        // Stopped before the look at the tail; pairs with the barrier in `TxDone::complete`.
        smp_mb(barrier::Full);
        self.tail = self.gauge.tail();
        let room = self.gauge.has_room(self.gauge.free(self.head, self.tail));
        if room {
            queue.start();
        }
        !room
    }

    /// Lets the other end know of what is posted.
    fn publish(&mut self) {
        if let Some(flight) = self.flight.as_mut() {
            flight.publish();
        }
        self.gauge.head.store(self.head.value(), Release);
    }

    /// Posts a packet and says how many bytes go over the wire; `None` when it was dropped.
    fn post(&mut self, mut skb: SkBuff, counts: &TxCounts) -> Option<u32> {
        let gso = skb.gso();
        let headers = match gso {
            Some(gso) => gso.headers,
            None => skb.linear_len().min(self.shown).max(ETHERNET_HEADER),
        };
        let wants = skb.wants();
        let tag = wants.tag;
        let tag_len = if tag.is_some() { 4 } else { 0 };
        if headers > MAX_HEADERS || !skb.ensure_linear(headers) {
            counts.bad_packets.inc();
            return None;
        }
        // CAST, twice: small numbers.
        let fixed = fixed_segments(headers.wrapping_add(tag_len) as usize);
        if fixed.wrapping_add(skb.fragments() as usize) >= self.max_segments {
            if skb.linearize().is_err() {
                return None;
            }
            counts.linearized.inc();
        }
        let frame = Frame {
            checksum: wants.checksum,
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
        let blocks = fixed.wrapping_add(pieces).div_ceil(BLOCK / SEGMENT);
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
                Refused::Mapping => {
                    counts.mapping_errors.inc();
                    self.device_counts.mapping_errors.inc();
                }
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
        // CAST: a ring has at most 2^15 blocks.
        let place = |block: Counter| ring.slot(block) as usize * BLOCK;
        let first = self.head;
        let buf = self.sq.buf()?;
        for block in self.wqe.content() {
            buf.write_block(place(self.head), block)?;
            self.head = self.head.plus(1);
        }
        self.pending = Some((self.wqe.doorbell(), place(first)));
        Ok(())
    }

    /// Tells the card of everything posted.
    fn ring(&mut self, counts: &TxCounts) {
        let Some((doorbell, at)) = self.pending.take() else {
            return;
        };
        // No completion comes before the other end can know of the packets.
        self.publish();
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
}

impl Drop for TxRing {
    fn drop(&mut self) {
        let let_go = self.sq.end();
        if let Some(flight) = self.flight.take() {
            if !let_go {
                // The card may still read the packets: they stay, and so does the other end of their ring.
                core::mem::forget(flight);
            }
        }
    }
}
