// SPDX-License-Identifier: GPL-2.0
//! The rings of an opened interface.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::net::NetDevice;

use super::{
    base::Base,
    channel::{
        Channel,
        Nurse,
        Shape, //
    },
    hash::Hash,
    slot::Slot, //
};
use crate::home::Home;

/// How the hash spreads packets.
pub(super) struct Spread {
    /// The hash.
    pub(super) hash: Hash,
    /// Channel of each entry; empty spreads evenly.
    pub(super) table: KVVec<u16>,
}

/// The channels of an opened interface of one device generation.
pub(super) struct Lanes {
    channels: KVec<Channel>,
}

impl Lanes {
    /// Makes the rings of the first `slots`; nothing is received and nothing polled yet. Sleeps, under
    /// the RTNL.
    pub(super) fn new(
        home: &Home,
        netdev: &NetDevice,
        base: &Base,
        slots: &[Arc<Slot>],
        shape: &Shape,
        nurse: &Arc<dyn Nurse>,
    ) -> Result<Self> {
        let mut channels = KVec::with_capacity(slots.len(), GFP_KERNEL)?;
        for slot in slots {
            let channel = Channel::new(home, base, netdev, slot, shape, nurse)?;
            channels.push(channel, GFP_KERNEL)?;
        }
        Ok(Self { channels })
    }

    /// Begins to poll. Sleeps.
    pub(super) fn start(&mut self) {
        for channel in self.channels.iter_mut() {
            channel.start();
        }
    }

    /// No poll runs any more when this returns. Sleeps.
    pub(super) fn stop(&mut self) {
        for channel in self.channels.iter_mut() {
            channel.stop();
        }
    }

    /// The first RQ, which gets what has no hash.
    pub(super) fn first(&self) -> Result<u32> {
        Ok(self.channels.first().ok_or(EINVAL)?.receive_queue())
    }

    /// The RQ of each of `1 << log` entries of the table that the hash picks from.
    pub(super) fn table(&self, spread: &Spread, log: u8) -> Result<KVec<u32>> {
        let size = 1usize.checked_shl(log.into()).ok_or(EINVAL)?;
        let mut queues = KVec::with_capacity(size, GFP_KERNEL)?;
        for entry in 0..size {
            let even = entry % self.channels.len().max(1);
            let at = spread.table.get(entry).map_or(even, |at| usize::from(*at));
            let channel = self.channels.get(at).ok_or(EINVAL)?;
            queues.push(channel.receive_queue(), GFP_KERNEL)?;
        }
        Ok(queues)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.stop();
    }
}
