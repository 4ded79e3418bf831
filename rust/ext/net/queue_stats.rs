// SPDX-License-Identifier: GPL-2.0
//! Counters of single queues, which the core sums up: `netlink` family `netdev`, `qstats-get`.
//!
//! C header: [`include/net/netdev_queues.h`](srctree/include/net/netdev_queues.h)

use core::{marker::PhantomData, ptr};

use kernel::prelude::*;
use rmlx5_bindings as bindings;

use super::device::{Driver, Shell};

/// What a receive queue has counted since the device was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxQueueStats {
    /// Packets for the stack.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Allocations of buffers that failed.
    pub alloc_fail: u64,
}

/// What a transmit queue has counted since the device was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxQueueStats {
    /// Packets, as they are on the wire.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the hardware had to cut.
    pub gso_packets: u64,
    /// Their bytes before that.
    pub gso_bytes: u64,
    /// How often the queue was stopped because the ring was full.
    pub stop: u64,
    /// How often it went on.
    pub wake: u64,
}

/// A driver that counts by queue. Its counters never go back, whatever queues are in use.
///
/// The functions run under the RTNL and must not wait for the hardware.
pub trait QueueStats: Driver {
    /// Counters of a receive queue; `None` behind the last that there can be.
    fn rx(data: &Self::Data, queue: usize) -> Option<RxQueueStats>;

    /// Counters of a transmit queue, as above.
    fn tx(data: &Self::Data, queue: usize) -> Option<TxQueueStats>;
}

/// The functions of a driver.
#[derive(Clone, Copy)]
pub struct QueueCounters(&'static bindings::netdev_stat_ops);

// SAFETY: The table is only read.
unsafe impl Sync for QueueCounters {}
// SAFETY: As above.
unsafe impl Send for QueueCounters {}

impl QueueCounters {
    /// Those of driver `D`.
    pub const fn of<D: QueueStats>() -> Self {
        Self(Table::<D>::OPS)
    }
}

struct Table<D>(PhantomData<D>);

/// What is not filled in is not told: the core hands in all ones.
fn store_rx(from: &RxQueueStats, to: &mut bindings::netdev_queue_stats_rx) {
    to.packets = from.packets;
    to.bytes = from.bytes;
    to.alloc_fail = from.alloc_fail;
}

fn store_tx(from: &TxQueueStats, to: &mut bindings::netdev_queue_stats_tx) {
    to.packets = from.packets;
    to.bytes = from.bytes;
    to.hw_gso_packets = from.gso_packets;
    to.hw_gso_bytes = from.gso_bytes;
    to.stop = from.stop;
    to.wake = from.wake;
}

impl<D: QueueStats> Table<D> {
    const OPS: &'static bindings::netdev_stat_ops = &bindings::netdev_stat_ops {
        get_queue_stats_rx: Some(Self::rx),
        get_queue_stats_tx: Some(Self::tx),
        get_base_stats: Some(Self::base),
    };

    extern "C" fn rx(
        raw: *mut bindings::net_device,
        queue: c_int,
        to: *mut bindings::netdev_queue_stats_rx,
    ) {
        // SAFETY: The core passes a registered device of this driver and a structure to fill in.
        let (data, to) = unsafe { (Shell::<D>::data(raw), &mut *to) };
        if let Some(stats) = usize::try_from(queue).ok().and_then(|at| D::rx(data, at)) {
            store_rx(&stats, to);
        }
    }

    extern "C" fn tx(
        raw: *mut bindings::net_device,
        queue: c_int,
        to: *mut bindings::netdev_queue_stats_tx,
    ) {
        // SAFETY: The core passes a registered device of this driver and a structure to fill in.
        let (data, to) = unsafe { (Shell::<D>::data(raw), &mut *to) };
        if let Some(stats) = usize::try_from(queue).ok().and_then(|at| D::tx(data, at)) {
            store_tx(&stats, to);
        }
    }

    /// Counters of queues that are not in use now; the core adds those that are.
    extern "C" fn base(
        raw: *mut bindings::net_device,
        rx: *mut bindings::netdev_queue_stats_rx,
        tx: *mut bindings::netdev_queue_stats_tx,
    ) {
        // SAFETY: The core passes a registered device of this driver and structures to fill in. The numbers of
        // queues change under the RTNL only, which it holds.
        let (data, rx, tx, rx_used, tx_used) = unsafe {
            (
                Shell::<D>::data(raw),
                &mut *rx,
                &mut *tx,
                (*raw).real_num_rx_queues,
                (*raw).real_num_tx_queues,
            )
        };
        let add = |sum: &mut u64, one: u64| *sum = sum.wrapping_add(one);
        let mut sum = RxQueueStats::default();
        // CAST, twice: `usize` has 64 bits here.
        for one in (rx_used as usize..).map_while(|queue| D::rx(data, queue)) {
            add(&mut sum.packets, one.packets);
            add(&mut sum.bytes, one.bytes);
            add(&mut sum.alloc_fail, one.alloc_fail);
        }
        store_rx(&sum, rx);
        let mut sum = TxQueueStats::default();
        for one in (tx_used as usize..).map_while(|queue| D::tx(data, queue)) {
            add(&mut sum.packets, one.packets);
            add(&mut sum.bytes, one.bytes);
            add(&mut sum.gso_packets, one.gso_packets);
            add(&mut sum.gso_bytes, one.gso_bytes);
            add(&mut sum.stop, one.stop);
            add(&mut sum.wake, one.wake);
        }
        store_tx(&sum, tx);
    }
}

/// The table as the core wants it.
pub(super) fn raw(counters: Option<QueueCounters>) -> *const bindings::netdev_stat_ops {
    counters.map_or(ptr::null(), |counters| ptr::from_ref(counters.0))
}
