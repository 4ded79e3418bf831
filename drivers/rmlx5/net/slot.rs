// SPDX-License-Identifier: GPL-2.0
//! Where the interface keeps a transmit ring while it is open, and what a pair of rings has counted,
//! which outlives the rings.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};
use kernel_ext::net::{
    lock::BhDisabled,
    Stats, //
};

use super::tx::TxRing;
use crate::cmd::queue::Counter;

/// What was sent, and what was not.
#[derive(Default)]
pub(super) struct TxCounts {
    pub(super) packets: Counter,
    pub(super) bytes: Counter,
    /// Packets that the card cut into segments, and their payload.
    pub(super) tso_packets: Counter,
    pub(super) tso_bytes: Counter,
    /// Packets whose checksum the card computed.
    pub(super) checksums: Counter,
    /// Packets with a tag put in.
    pub(super) tags: Counter,
    /// Doorbells.
    pub(super) doorbells: Counter,
    /// Times the queue was stopped because the ring was full, and waked again.
    pub(super) stopped: Counter,
    pub(super) waked: Counter,
    /// Packets in too many pieces, made linear.
    pub(super) linearized: Counter,
    /// Packets dropped: all; because a piece could not be mapped; because no WQE can express them.
    pub(super) dropped: Counter,
    pub(super) mapping_errors: Counter,
    pub(super) bad_packets: Counter,
    /// Packets that came to a ring that was full.
    pub(super) busy: Counter,
    /// Completions with an error, and completions that make no sense.
    pub(super) error_cqes: Counter,
    pub(super) bad_cqes: Counter,
    /// Times the queue made no progress.
    pub(super) timeouts: Counter,
}

/// What was received, and what was not.
#[derive(Default)]
pub(super) struct RxCounts {
    pub(super) packets: Counter,
    pub(super) bytes: Counter,
    pub(super) multicast: Counter,
    /// How the checksum was known: good by the card, a sum by the card, not at all.
    pub(super) checksum_good: Counter,
    pub(super) checksum_sum: Counter,
    pub(super) checksum_none: Counter,
    /// Packets whose tag was taken out.
    pub(super) tags: Counter,
    /// Small packets copied so that the page is used again at once.
    pub(super) copied: Counter,
    /// Packets dropped for want of memory, and times there was no page for the ring.
    pub(super) no_memory: Counter,
    pub(super) no_page: Counter,
    /// Completions whose length is not that of a frame in the WQE.
    pub(super) length_errors: Counter,
    /// Completions with an error, and completions that make no sense.
    pub(super) error_cqes: Counter,
    pub(super) bad_cqes: Counter,
}

/// One of them. As many as the interface has queues at most, from its registration on.
#[pin_data]
pub(super) struct Slot {
    /// Number of the queue.
    pub(super) index: u16,
    /// The ring of an open interface. Taken with softirqs off.
    #[pin]
    pub(super) ring: SpinLock<Option<TxRing>>,
    pub(super) tx: TxCounts,
    pub(super) rx: RxCounts,
}

impl Slot {
    /// An empty one.
    pub(super) fn new(index: u16) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                index,
                ring <- new_spinlock!(None),
                tx: TxCounts::default(),
                rx: RxCounts::default(),
            }),
            GFP_KERNEL,
        )
    }

    /// Puts a ring in; the place must be empty. Process context.
    pub(super) fn put(&self, ring: TxRing) -> Result {
        let _softirqs = BhDisabled::new();
        let mut place = self.ring.lock();
        if place.is_some() {
            return Err(EEXIST);
        }
        *place = Some(ring);
        Ok(())
    }

    /// Takes the ring out. Process context.
    pub(super) fn take(&self) -> Option<TxRing> {
        let _softirqs = BhDisabled::new();
        let ring = self.ring.lock().take();
        ring
    }

    /// Adds what it has counted.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        let add = |to: &mut u64, counter: &Counter| *to = to.wrapping_add(counter.get());
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
