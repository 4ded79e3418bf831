// SPDX-License-Identifier: GPL-2.0
//! Where the interface keeps a transmit ring while it is open, and what a pair of rings has counted,
//! which outlives the rings.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::net::{
    count::Count,
    queue::{
        TxCell,
        TxQueue, //
    },
    Stats, //
};

use super::tx::TxRing;

/// What was sent, and what was not. `waked`, `error_cqes` and `bad_cqes` are counted by the poll, `timeouts` by the watchdog, the
/// others under the transmit lock.
#[derive(Default)]
pub(super) struct TxCounts {
    pub(super) packets: Count,
    pub(super) bytes: Count,
    /// Packets that the card cut into segments, and their payload.
    pub(super) tso_packets: Count,
    pub(super) tso_bytes: Count,
    /// Packets whose checksum the card computed.
    pub(super) checksums: Count,
    /// Packets with a tag put in.
    pub(super) tags: Count,
    /// Doorbells.
    pub(super) doorbells: Count,
    /// Times the queue was stopped because the ring was full, and waked again.
    pub(super) stopped: Count,
    pub(super) waked: Count,
    /// Packets in too many pieces, made linear.
    pub(super) linearized: Count,
    /// Packets dropped: all; because a piece could not be mapped; because no WQE can express them.
    pub(super) dropped: Count,
    pub(super) mapping_errors: Count,
    pub(super) bad_packets: Count,
    /// Packets that came to a ring that was full.
    pub(super) busy: Count,
    /// Completions with an error, and completions that make no sense.
    pub(super) error_cqes: Count,
    pub(super) bad_cqes: Count,
    /// Times the queue made no progress.
    pub(super) timeouts: Count,
}

/// What was received, and what was not. Counted by the poll.
#[derive(Default)]
pub(super) struct RxCounts {
    pub(super) packets: Count,
    pub(super) bytes: Count,
    pub(super) multicast: Count,
    /// How the checksum was known: good by the card, a sum by the card, not at all.
    pub(super) checksum_good: Count,
    pub(super) checksum_sum: Count,
    pub(super) checksum_none: Count,
    /// Packets whose tag was taken out.
    pub(super) tags: Count,
    /// Small packets copied so that the page is used again at once.
    pub(super) copied: Count,
    /// Packets dropped for want of memory, and times there was no page for the ring.
    pub(super) no_memory: Count,
    pub(super) no_page: Count,
    /// Completions whose length is not that of a frame in the WQE.
    pub(super) length_errors: Count,
    /// Completions with an error, and completions that make no sense.
    pub(super) error_cqes: Count,
    pub(super) bad_cqes: Count,
}

/// One of them. As many as the interface has queues at most, from its registration on.
pub(super) struct Slot {
    /// Number of the queue.
    pub(super) index: u16,
    /// The sending end of the ring of an open interface.
    pub(super) ring: TxCell<Option<TxRing>>,
    pub(super) tx: TxCounts,
    pub(super) rx: RxCounts,
}

impl Slot {
    /// An empty one.
    pub(super) fn new(index: u16) -> Result<Arc<Self>> {
        let slot = Self {
            index,
            ring: TxCell::new(index, None),
            tx: TxCounts::default(),
            rx: RxCounts::default(),
        };
        Ok(Arc::new(slot, GFP_KERNEL)?)
    }

    /// Puts a ring in; the place must be empty. `queue` is the slot's. Process context.
    pub(super) fn put(&self, queue: TxQueue<'_>, ring: TxRing) -> Result {
        let mut lock = queue.lock();
        let place = self.ring.get(&mut lock).ok_or(EINVAL)?;
        let result = if place.is_some() {
            Some(ring)
        } else {
            *place = Some(ring);
            None
        };
        // Dropping a ring sleeps.
        drop(lock);
        match result {
            None => Ok(()),
            Some(_) => Err(EEXIST),
        }
    }

    /// Takes the ring out. `queue` is the slot's. Process context.
    pub(super) fn take(&self, queue: TxQueue<'_>) -> Option<TxRing> {
        let mut lock = queue.lock();
        self.ring.get(&mut lock).and_then(Option::take)
    }

    /// Adds what it has counted.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        let add = |to: &mut u64, counter: &Count| *to = to.wrapping_add(counter.get());
        let (tx, rx) = (&self.tx, &self.rx);
        add(&mut stats.tx_packets, &tx.packets);
        add(&mut stats.tx_bytes, &tx.bytes);
        add(&mut stats.tx_dropped, &tx.dropped);
        add(&mut stats.tx_errors, &tx.error_cqes);
        add(&mut stats.tx_errors, &tx.bad_cqes);
        add(&mut stats.rx_packets, &rx.packets);
        add(&mut stats.rx_bytes, &rx.bytes);
        add(&mut stats.multicast, &rx.multicast);
        add(&mut stats.rx_dropped, &rx.no_memory);
        add(&mut stats.rx_length_errors, &rx.length_errors);
        for errors in [&rx.length_errors, &rx.error_cqes, &rx.bad_cqes] {
            add(&mut stats.rx_errors, errors);
        }
    }
}
