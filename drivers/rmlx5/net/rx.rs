// SPDX-License-Identifier: GPL-2.0
//! Receive rings.
//!
//! Memory comes from the pool of the ring and goes back there when the stack is done with a packet. How a frame lies in it
//! depends on how long frames may be ([`Layout`]).

use kernel::{
    prelude::*,
    sync::barrier::{
        self,
        dma_mb, //
    }, //
};
use kernel_ext::net::{
    dim::Way,
    napi::Poll,
    pool::{
        PagePool,
        RxPage, //
    },
    skb::{
        Arrival,
        HashKind, //
    },
    Features,
    NetDevice,
    SkBuff, //
};
use mlx5_hw::ring::Counter;

use super::{
    base::Base,
    cq::Completions,
    cqe::{
        Arrived,
        Failure,
        Hashed,
        Received, //
    },
    layout::{
        Layout,
        HEADROOM,
        PAGE, //
    },
    rq::Rq,
    slot::RxCounts, //
};
use crate::{
    home::Home,
    record::Record,
    rq::Shape, //
};

/// Word of a receive queue in a doorbell record: `MLX5_RCV_DBR`.
const RECEIVE: usize = 0;
/// Key that ends a scatter list. Source: `MLX5_TERMINATE_SCATTER_LIST_LKEY` in core/en.h.
const END_OF_LIST: u32 = 0x100;
/// Bytes of a scatter entry (`struct mlx5_wqe_data_seg`), and where the address is, behind length and key.
const SEGMENT: usize = 16;
const ADDRESS_AT: usize = 8;
/// Bytes of a frame that are copied; longer ones keep their pages.
const COPY: u32 = 256;
/// The shortest frame: a header.
const SHORTEST: u32 = 14;
/// A completion that is bad news, or impossible; the ring does not work any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The queue is in error.
    Failed(Failure),
    /// Not the WQE whose turn it is.
    Unknown(u16),
    /// A completion of this kind does not belong on a receive queue.
    Malformed(u8),
}

/// How a look at the completions ended.
pub(super) struct Progress {
    /// Packets given to the stack or dropped.
    pub(super) packets: u32,
    /// There may be more.
    pub(super) more: bool,
    /// The first fault.
    pub(super) fault: Option<Fault>,
}

/// A receive ring.
pub(super) struct RxRing {
    /// Taken from the card first: then it has let go of the pages.
    rq: Rq,
    /// One for each piece of each WQE.
    pages: Option<KVVec<Option<RxPage>>>,
    pool: Option<PagePool>,
    cq: Completions,
    head: Counter,
    tail: Counter,
    layout: Layout,
    queue: u16,
    broken: bool,
}

impl RxRing {
    /// Makes a ring on completion vector `queue`, filled as far as
    /// there is memory. Sleeps. `ENOMEM` when there is none at all.
    pub(super) fn new(
        home: &Home,
        base: &Base,
        netdev: &NetDevice,
        queue: u16,
        wanted: &super::channel::Shape,
    ) -> Result<Self> {
        let log = wanted.log_rx;
        let device = home.device();
        let layout = Layout::of(wanted.frame);
        let segments = layout.pieces().next_power_of_two();
        let cq = Completions::new(
            home,
            queue,
            log,
            wanted.rx_moderation,
            wanted.rx_adaptive.then_some(Way::Receive),
        )?;
        let wqes = 1usize.checked_shl(log.into()).ok_or(EINVAL)?;
        let count = wqes.checked_mul(layout.pieces()).ok_or(EINVAL)?;
        let node = device
            .comp_eq(queue.into())
            .map_or(device.node, |eq| eq.node);
        // CAST, twice: small numbers; the core has a limit of its own.
        let size = (count / (PAGE / layout.size()) as usize).clamp(1, 16384) as u32;
        let pool = PagePool::new(netdev, &device.pdev, node, size, queue)?;
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            pages.push(None, GFP_KERNEL)?;
        }
        let shape = Shape {
            log,
            // CAST: below 32.
            log_segments: segments.trailing_zeros() as u8,
            keep_vlan: wanted.keep_vlan,
        };
        let rq = Rq::new(home, base, cq.number(), shape)?;
        let mut ring = Self {
            rq,
            pages: Some(pages),
            pool: Some(pool),
            cq,
            head: Counter::default(),
            tail: Counter::default(),
            layout,
            queue,
            broken: false,
        };
        ring.preset(base.lkey())?;
        ring.refill();
        if ring.head == ring.tail {
            return Err(ENOMEM);
        }
        Ok(ring)
    }

    /// Its completions.
    pub(super) fn cq(&self) -> &Completions {
        &self.cq
    }

    /// Its completions, to be told of traffic.
    pub(super) fn cq_mut(&mut self) -> &mut Completions {
        &mut self.cq
    }

    /// Number of its RQ.
    pub(super) fn number(&self) -> u32 {
        self.rq.number()
    }

    /// WQEs that the card has.
    fn posted(&self) -> u32 {
        self.head.since(self.tail)
    }

    /// Place of a WQE's first piece.
    fn place(&self, counter: Counter) -> usize {
        // CAST: a ring has at most 2^13 WQEs.
        self.rq.ring().slot(counter) as usize * self.layout.pieces()
    }

    /// Writes what is the same in all WQEs: lengths and keys.
    fn preset(&self, key: u32) -> Result {
        let buf = self.rq.buf()?;
        let (_, len) = self.layout.window();
        // CAST: a ring has at most 2^13 WQEs.
        for wqe in 0..self.rq.ring().entries() as usize {
            for index in 0..self.rq.segments() {
                let (len, key) = if index < self.layout.pieces() {
                    (len, key)
                } else {
                    (0, END_OF_LIST)
                };
                let at = wqe * self.rq.stride() + index * SEGMENT;
                buf.write_be64(at, u64::from(len) << 32 | u64::from(key))?;
            }
        }
        Ok(())
    }

    /// Posts as many WQEs as there is room and memory for; whether the ring is full.
    fn refill(&mut self) -> bool {
        let before = self.head;
        let mut full = true;
        while self.posted() < self.rq.ring().entries() {
            if self.post().is_none() {
                full = false;
                break;
            }
        }
        if self.head != before {
            dma_mb(barrier::Write);
            let count = self.head.low16().into();
            let told = self
                .rq
                .records()
                .and_then(|records| records.set(Record::Qp, RECEIVE, count));
            self.broken |= told.is_err();
        }
        full
    }

    /// Posts the next WQE; `None` when there is no memory.
    fn post(&mut self) -> Option<()> {
        let first = self.place(self.head);
        let layout = self.layout;
        let (offset, _) = layout.window();
        let (pages, pool) = (self.pages.as_mut()?, self.pool.as_mut()?);
        // CAST: a ring has at most 2^13 WQEs.
        let mut at = self.rq.ring().slot(self.head) as usize * self.rq.stride() + ADDRESS_AT;
        let buf = self.rq.buf().ok()?;
        for slot in pages.get_mut(first..first + layout.pieces())? {
            let page = match slot {
                Some(page) => page,
                None => slot.insert(pool.alloc(layout.size())?),
            };
            let address = page.address().wrapping_add(offset.into());
            buf.write_be64(at, address).ok()?;
            at += SEGMENT;
        }
        self.head = self.head.plus(1);
        Some(())
    }

    /// Takes what has arrived, at most `budget` frames, and posts WQEs again.
    pub(super) fn receive(&mut self, poll: &Poll<'_>, budget: u32, counts: &RxCounts) -> Progress {
        let features = poll.device().features();
        let (mut packets, mut bytes) = (0u32, 0u64);
        let mut fault = None;
        while packets < budget && fault.is_none() && !self.broken {
            let Some(entry) = self.cq.next() else {
                break;
            };
            packets += 1;
            fault = match Received::parse(&entry) {
                Received::Frame(arrived)
                    if arrived.index != self.tail.low16() || self.posted() == 0 =>
                {
                    Some(Fault::Unknown(arrived.index))
                }
                Received::Frame(arrived) => {
                    if let Some(skb) = self.take(poll, &arrived, counts) {
                        bytes = bytes.wrapping_add(arrived.len.into());
                        self.deliver(poll, skb, &arrived, features, counts);
                    }
                    self.tail = self.tail.plus(1);
                    None
                }
                Received::Failed { failure, .. } => Some(Fault::Failed(failure)),
                Received::Malformed { opcode } => Some(Fault::Malformed(opcode)),
            };
        }
        match fault {
            Some(Fault::Failed(_)) => counts.error_cqes.inc(),
            Some(_) => counts.bad_cqes.inc(),
            None => {}
        }
        self.broken |= fault.is_some();
        if packets != 0 {
            self.cq.publish();
            counts.bytes.add(bytes);
        }
        let full = self.broken || self.refill();
        if !full {
            counts.no_page.inc();
        }
        Progress {
            packets,
            // Without WQEs there is no completion that would bring us here again.
            more: packets == budget && fault.is_none()
                || !full && self.posted() < self.rq.ring().entries() / 2,
            fault,
        }
    }

    /// Makes a packet of the frame in the WQE whose turn it is; `None` when it is dropped, and counted.
    /// Memory that is not part of the packet stays where it is.
    fn take(&mut self, poll: &Poll<'_>, arrived: &Arrived, counts: &RxCounts) -> Option<SkBuff> {
        let first = self.place(self.tail);
        let last = first + self.layout.pieces();
        let pages = self.pages.as_mut()?.get_mut(first..last)?;
        if arrived.len < SHORTEST || arrived.len > self.layout.longest() {
            counts.length_errors.inc();
            return None;
        }
        match (self.layout, pages) {
            (Layout::Around { .. }, [slot]) => {
                match poll.around(slot.take()?, HEADROOM, arrived.len) {
                    Ok(skb) => Some(skb),
                    Err(page) => {
                        *slot = Some(page);
                        counts.no_memory.inc();
                        None
                    }
                }
            }
            (_, pages) => Self::fragments(pages, poll, arrived, counts),
        }
    }

    /// Makes a packet whose fragments are the pages.
    fn fragments(
        pages: &mut [Option<RxPage>],
        poll: &Poll<'_>,
        arrived: &Arrived,
        counts: &RxCounts,
    ) -> Option<SkBuff> {
        let no_memory = || counts.no_memory.inc();
        let mut skb = poll.alloc(COPY).or_else(|| {
            no_memory();
            None
        })?;
        let (start, rest) = pages.split_first_mut()?;
        let head = {
            let page = start.as_ref()?;
            page.sync_for_cpu(0, arrived.len.min(PAGE));
            let head = if arrived.len <= COPY {
                counts.copied.inc();
                arrived.len
            } else {
                page.header_len(poll.device(), COPY)
            };
            if !skb.append(page, 0, head) {
                no_memory();
                return None;
            }
            head
        };
        let in_first = arrived.len.min(PAGE) - head;
        if in_first != 0 {
            if let Err(page) = skb.append_page(start.take()?, head, in_first) {
                *start = Some(page);
                no_memory();
                return None;
            }
        }
        let mut left = arrived.len.saturating_sub(PAGE);
        for slot in rest {
            if left == 0 {
                break;
            }
            let page = slot.take()?;
            let part = left.min(PAGE);
            page.sync_for_cpu(0, part);
            if let Err(page) = skb.append_page(page, 0, part) {
                *slot = Some(page);
                no_memory();
                return None;
            }
            left -= part;
        }
        Some(skb)
    }

    /// Says what the card knows of a packet, and hands it to the stack.
    fn deliver(
        &self,
        poll: &Poll<'_>,
        mut skb: SkBuff,
        arrived: &Arrived,
        features: Features,
        counts: &RxCounts,
    ) {
        let checks = features.has(Features::RXCSUM);
        let kind = match arrived.hashed {
            Hashed::Ports => Some(HashKind::L4),
            Hashed::Addresses => Some(HashKind::L3),
            Hashed::No => None,
        };
        let news = Arrival {
            queue: self.queue,
            hash: kind
                .filter(|_| features.has(Features::RXHASH))
                .map(|kind| (arrived.hash, kind)),
            good: checks && arrived.good,
        };
        let group = skb.received_on(poll.device(), &news);
        if let Some(tag) = arrived.tag {
            counts.tags.inc();
            skb.set_tag(tag);
        }
        if news.good {
            counts.checksum_good.inc();
        } else if checks && arrived.sum.is_some_and(|sum| skb.checksum_is(sum)) {
            counts.checksum_sum.inc();
        } else {
            counts.checksum_none.inc();
        }
        if group {
            counts.multicast.inc();
        }
        counts.packets.inc();
        poll.receive(skb);
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        if !self.rq.end() {
            // The card may still write to the pages.
            core::mem::forget(self.pages.take());
            core::mem::forget(self.pool.take());
        }
    }
}
