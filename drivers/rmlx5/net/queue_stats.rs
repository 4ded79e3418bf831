// SPDX-License-Identifier: GPL-2.0
//! Counters of single queues, for the core.

use kernel_ext::net::queue_stats::{
    QueueStats,
    RxQueueStats,
    TxQueueStats, //
};

use super::netdev::{
    Data,
    Ether, //
};

impl QueueStats for Ether {
    fn rx(data: &Data, queue: usize) -> Option<RxQueueStats> {
        let counts = &data.slots.get(queue)?.rx;
        Some(RxQueueStats {
            packets: counts.packets.get(),
            bytes: counts.bytes.get(),
            alloc_fail: counts.no_page.get(),
        })
    }

    fn tx(data: &Data, queue: usize) -> Option<TxQueueStats> {
        let counts = &data.slots.get(queue)?.tx;
        Some(TxQueueStats {
            packets: counts.packets.get(),
            bytes: counts.bytes.get(),
            gso_packets: counts.tso_packets.get(),
            gso_bytes: counts.tso_bytes.get(),
            stop: counts.stopped.get(),
            wake: counts.waked.get(),
        })
    }
}
