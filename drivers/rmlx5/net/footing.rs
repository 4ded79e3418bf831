// SPDX-License-Identifier: GPL-2.0
//! What stays on the card from the first opening of the interface on, closed or not: everything that
//! does not hold memory for packets. A closed interface lets nothing in.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    base::Base,
    caps::EthCaps,
    entrance::Entrance,
    hash::Hash,
    sink::Sink,
    steering::{
        Steering,
        Wanted, //
    },
    vport::{
        Promiscuous,
        Vport, //
    }, //
};
use crate::home::Home;

/// It, of one device generation.
///
/// Steering goes first, then the queue that its tables lead to, then what queues share.
pub(super) struct Footing {
    steering: Steering,
    vport: Vport,
    sink: Sink,
    base: Base,
    home: Home,
}

impl Footing {
    /// Makes it; nothing is received. Sleeps.
    pub(super) fn new(
        home: &Home,
        caps: &EthCaps,
        hash: &Hash,
        entrance: &Arc<Entrance>,
    ) -> Result<Self> {
        let base = Base::new(home)?;
        let sink = Sink::new(home, &base)?;
        let steering = Steering::new(home, base.domain(), sink.number(), hash, caps, entrance)?;
        Ok(Self {
            steering,
            vport: Vport::default(),
            sink,
            base,
            home: home.clone(),
        })
    }

    /// What queues share.
    pub(super) fn base(&self) -> &Base {
        &self.base
    }

    /// Frames that found no WQE since it was made; wraps around. Sleeps.
    pub(super) fn out_of_buffer(&self) -> Option<u32> {
        Some(self.base.counter()?.read().ok()?.out_of_buffer)
    }

    /// What the hash spreads over from now on, a power of two of RQs, and the RQ of everything else. Sleeps.
    pub(super) fn aim(&self, table: &[u32], first: u32) -> Result {
        self.steering.aim(table, first)
    }

    /// Receives what is wanted, at the vport and behind it. Sleeps.
    pub(super) fn receive(&mut self, caps: &EthCaps, wanted: &Wanted<'_>) -> Result {
        // CAST, twice: `usize` has 64 bits here.
        let (most_unicast, most_multicast) =
            (caps.max_unicast as usize, caps.max_multicast as usize);
        let cmd = self.home.cmd();
        let promiscuous = Promiscuous {
            all: wanted.promiscuous,
            unicast: wanted.unicast.len() > most_unicast,
            multicast: wanted.all_multicast || wanted.multicast.len() > most_multicast,
        };
        let unicast = wanted.unicast.get(..most_unicast);
        let multicast = wanted.multicast.get(..most_multicast);
        self.steering.receive(wanted)?;
        self.vport.set(
            cmd,
            unicast.unwrap_or(wanted.unicast),
            multicast.unwrap_or(wanted.multicast),
            promiscuous,
        )
    }

    /// Receives nothing, and lets go of the interface's queues. Sleeps. After an error it must be dropped before
    /// the queues are.
    pub(super) fn rest(&mut self) -> Result {
        self.steering.deafen()?;
        self.vport
            .set(self.home.cmd(), &[], &[], Promiscuous::default())?;
        let sink = self.sink.number();
        self.steering.aim(&[sink], sink)
    }

    /// Whether frames that this interface sends to itself come back to it. Sleeps.
    pub(super) fn loop_back(&self, on: bool) -> Result {
        self.steering.loop_back(on)
    }
}

impl Drop for Footing {
    fn drop(&mut self) {
        if self.home.reaches() {
            // An answer is not needed: steering goes next.
            let nothing = Promiscuous::default();
            let _ = self.vport.set(self.home.cmd(), &[], &[], nothing);
        }
    }
}
