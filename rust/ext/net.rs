// SPDX-License-Identifier: GPL-2.0
//! Ethernet network devices.
//!
//! | module | offers |
//! |---|---|
//! | [`count`] | counters of the fast path |
//! | [`dcb`] | what `dcb` asks a driver |
//! | [`device`] | the device, [`Driver`], registration |
//! | [`dim`] | interrupt moderation that follows the traffic |
//! | [`ethtool`] | what `ethtool` asks a driver |
//! | [`skb`] | packets; a packet has one owner and is freed with it |
//! | [`queue`] | transmit queues: stop, wake, byte queue limits; what their locks protect |
//! | [`inflight`] | packets that the hardware is sending, with their DMA mappings |
//! | [`napi`] | polling |
//! | [`pool`] | memory for received packets |
//! | [`loopback`] | a frame that a device sends to itself |
//! | [`lock`] | the RTNL, and sections without softirqs |
//!
//! # Who owns a packet
//!
//! [`Driver::transmit`] gets an [`SkBuff`] and either keeps it (usually in an
//! [`inflight::Sender`]) or gives it back as [`Transmit::Busy`]. Dropping it frees it, so an error path
//! that forgets a packet cannot leak it. A received packet is made by [`napi::Poll::alloc`] and goes away
//! by [`napi::Poll::receive`].
//!
//! # Locking
//!
//! | function | context | locks of the core |
//! |---|---|---|
//! | [`Driver::open`], [`Driver::stop`], [`Driver::change_mtu`], [`Driver::set_address`], [`Driver::set_features`], [`Driver::rx_mode`], ethtool | process, sleeps | RTNL |
//! | [`Driver::transmit`] | softirqs off | the queue's transmit lock: one call per queue at a time |
//! | [`Driver::timeout`] | softirq | the queue's transmit lock |
//! | [`Driver::stats`] | any, must not sleep | none |
//! | [`napi::Poller::poll`] | softirq | one call per instance at a time |
//!
//! What sending alone uses stands in a [`queue::TxCell`], which the queue's transmit lock protects; what polling alone
//! uses, behind a lock that nobody else takes. Between the two, an [`inflight::ring`] needs no lock.
//!
//! # Lifetime
//!
//! [`Registration`] owns device and driver data; dropping it closes the interface and waits for
//! everybody who has a [`DeviceRef`], as the core does: a reference that is kept makes it wait and say so
//! in the log, never a use after free.
//!
//! C headers: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h),
//! [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

pub mod count;
pub mod dcb;
pub mod device;
pub mod dim;
pub mod ethtool;
pub mod inflight;
pub mod lock;
pub mod loopback;
pub mod napi;
mod ops;
pub mod pool;
pub mod queue;
pub mod queue_stats;
pub mod skb;

pub use device::{
    Config, DeviceRef, Driver, Features, NetDevice, Registration, RxMode, Stats, Transmit,
};
pub use skb::SkBuff;
