// SPDX-License-Identifier: GPL-2.0
//! An opened interface: everything that exists on the card for it.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::net::NetDevice;

use super::{
    base::Base,
    caps::EthCaps,
    channel::{
        Channel,
        Nurse,
        Shape, //
    },
    slot::Slot,
    steering::{
        Steering,
        Wanted, //
    },
    tir::KEY_LEN,
    vport::{
        self,
        List,
        Promiscuous, //
    }, //
};
use crate::home::Home;

/// Entries of the table that a hash picks from, as the C driver has them, if the card allows as many.
const LOG_TABLE: u8 = 7;

/// How the hash spreads packets.
pub(super) struct Spread {
    /// Key of the Toeplitz hash.
    pub(super) key: [u8; KEY_LEN],
    /// Channel of each entry; empty spreads evenly.
    pub(super) table: KVVec<u16>,
}

/// An opened interface of one device generation.
///
/// Steering goes first: nothing is received any more. Then the channels, then what they share.
pub(super) struct Lanes {
    steering: Steering,
    channels: KVec<Channel>,
    base: Base,
    home: Home,
}

/// The RQ of each entry of the table.
fn table(channels: &[Channel], spread: &Spread, log: u8) -> Result<KVec<u32>> {
    let size = 1usize << log;
    let mut queues = KVec::with_capacity(size, GFP_KERNEL)?;
    for entry in 0..size {
        let even = entry % channels.len().max(1);
        let at = spread.table.get(entry).map_or(even, |at| usize::from(*at));
        let channel = channels.get(at).ok_or(EINVAL)?;
        queues.push(channel.receive_queue(), GFP_KERNEL)?;
    }
    Ok(queues)
}

/// log2 of the entries of the table on this card.
pub(super) fn log_table(caps: &EthCaps) -> u8 {
    caps.log_max_rqt.min(LOG_TABLE)
}

impl Lanes {
    /// Makes everything for the first `slots`; nothing is received and nothing polled yet. Sleeps, under
    /// the RTNL.
    pub(super) fn new(
        home: &Home,
        netdev: &NetDevice,
        caps: &EthCaps,
        slots: &[Arc<Slot>],
        shape: &Shape,
        spread: &Spread,
        nurse: &Arc<dyn Nurse>,
    ) -> Result<Self> {
        let base = Base::new(home)?;
        let mut channels = KVec::with_capacity(slots.len(), GFP_KERNEL)?;
        for slot in slots {
            let channel = Channel::new(home, &base, netdev, slot, shape, nurse)?;
            channels.push(channel, GFP_KERNEL)?;
        }
        let first = channels.first().ok_or(EINVAL)?.receive_queue();
        let queues = table(&channels, spread, log_table(caps))?;
        let steering = Steering::new(home, &base, &queues, first, &spread.key, caps.log_addresses)?;
        Ok(Self {
            steering,
            channels,
            base,
            home: home.clone(),
        })
    }

    /// Frames that found no WQE since the interface was opened; wraps around. Sleeps.
    pub(super) fn out_of_buffer(&self) -> Option<u32> {
        self.base.counter()?.out_of_buffer().ok()
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

    /// Spreads packets by another table from now on. Sleeps.
    pub(super) fn set_table(&self, caps: &EthCaps, spread: &Spread) -> Result {
        let queues = table(&self.channels, spread, log_table(caps))?;
        self.steering.set_table(&queues)
    }

    /// Receives what is wanted, at the vport and behind it. Sleeps.
    pub(super) fn receive(&mut self, caps: &EthCaps, wanted: &Wanted<'_>) -> Result {
        let fits = |list: &[[u8; 6]], most: u32| {
            // CAST: `usize` has 64 bits here.
            let most = most as usize;
            list.len() <= most
        };
        let cut = |list: &'_ [[u8; 6]], most: u32| list.len().min(most as usize);
        let unicast = cut(wanted.unicast, caps.max_unicast);
        let multicast = cut(wanted.multicast, caps.max_multicast);
        let cmd = self.home.cmd();
        self.steering.receive(wanted)?;
        vport::set_list(
            cmd,
            List::Unicast,
            wanted.unicast.get(..unicast).unwrap_or(&[]),
        )?;
        vport::set_list(
            cmd,
            List::Multicast,
            wanted.multicast.get(..multicast).unwrap_or(&[]),
        )?;
        vport::set_promiscuous(
            cmd,
            Promiscuous {
                all: wanted.promiscuous,
                unicast: !fits(wanted.unicast, caps.max_unicast),
                multicast: wanted.all_multicast || !fits(wanted.multicast, caps.max_multicast),
            },
        )
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.stop();
        if self.home.reaches() {
            // An answer is not needed: steering goes next.
            let cmd = self.home.cmd();
            let _ = vport::set_promiscuous(cmd, Promiscuous::default());
            let _ = vport::set_list(cmd, List::Multicast, &[]);
            let _ = vport::set_list(cmd, List::Unicast, &[]);
        }
    }
}
