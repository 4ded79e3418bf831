// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control of the port: who is told of marked packets, and who slows down when told.
//!
//! | term | meaning |
//! |---|---|
//! | ECT, CE | ECN bits of the IP header: the sender can be told of congestion; there was some |
//! | CNP | congestion notification packet, from the receiver of marked packets to their sender |
//! | notification point (NP) | the side that receives marked packets and sends CNPs |
//! | reaction point (RP) | the side that gets CNPs and lowers the rate of a QP |
//!
//! What the two points do with packets is in [`crate::transport`].
//!
//! Source: InfiniBand Architecture Specification, annex A17.9; ib/cong.c and `cong_cnts` of
//! ib/counters.c; NVIDIA, "DCQCN CC Parameters".

mod commands;
mod dcqcn;
mod params;

pub use commands::{
    ModifyCongParams, ModifyCongStatus, QueryCongParams, QueryCongStatistics, QueryCongStatus,
};
pub use dcqcn::Limiter;
pub use params::{Np, Rp};

use std::{collections::BTreeMap, time::Duration};

/// Both bits of the ECN field.
pub const ECN: u8 = 3;
/// The sender can be told of congestion.
pub const ECT: u8 = 2;
/// Congestion was experienced on the way.
pub const CE: u8 = 3;
/// What the port carries, in Mb/s; bounds every rate.
pub const LINE_RATE: u32 = 100_000;
/// Peers remembered as told; of those that were told long ago nothing needs to be known.
const MOST_PEERS: usize = 4096;

/// A QP at another address.
pub type Peer = ([u8; 16], u32);

/// What the port counts. Source: `query_cong_statistics_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Times that a QP came under a limit.
    pub sum_flows: u32,
    /// CNPs that came and limited nothing.
    pub rp_cnp_ignored: u64,
    /// CNPs that came and had their effect.
    pub rp_cnp_handled: u64,
    /// Marked packets that came for QPs whose priority has the notification point enabled.
    pub np_ecn_marked_roce_packets: u64,
    /// CNPs that left.
    pub np_cnp_sent: u64,
}

/// Congestion control of a port.
#[derive(Debug)]
pub struct Congestion {
    /// Parameters of the reaction point.
    pub rp: Rp,
    /// Parameters of the notification point.
    pub np: Np,
    /// Priorities with the reaction point enabled, a bit each.
    pub rp_enabled: u8,
    /// Priorities with the notification point enabled, a bit each.
    pub np_enabled: u8,
    /// Counters.
    pub statistics: Statistics,
    /// When peers were told last.
    told: BTreeMap<Peer, Duration>,
}

impl Default for Congestion {
    /// Both points are enabled for all priorities, as firmware does (`ROCE_CC_PRIO_MASK` 255).
    fn default() -> Self {
        Self {
            rp: Rp::default(),
            np: Np::default(),
            rp_enabled: u8::MAX,
            np_enabled: u8::MAX,
            statistics: Statistics::default(),
            told: BTreeMap::new(),
        }
    }
}

fn has(mask: u8, priority: u8) -> bool {
    mask >> (priority & 7) & 1 != 0
}

impl Congestion {
    /// Whether QPs that send with this priority slow down when told.
    pub fn reacts(&self, priority: u8) -> bool {
        has(self.rp_enabled, priority)
    }

    /// Whether senders of marked packets of this priority are told.
    pub fn notifies(&self, priority: u8) -> bool {
        has(self.np_enabled, priority)
    }

    /// Whether `peer` is to be told at `now`: it was not within the least time between two CNPs.
    /// If so, it counts as told.
    pub fn tell(&mut self, peer: Peer, now: Duration) -> bool {
        let pause = Duration::from_micros(self.np.min_time_between_cnps.into());
        let recent = |last: &Duration| now.saturating_sub(*last) < pause;
        if self.told.get(&peer).is_some_and(recent) {
            return false;
        }
        if self.told.len() >= MOST_PEERS {
            self.told.retain(|_, last| recent(last));
            if self.told.len() >= MOST_PEERS {
                return false;
            }
        }
        self.told.insert(peer, now);
        true
    }

    /// One line for a dump.
    pub fn describe(&self) -> String {
        format!(
            "congestion: RP {:#04x} {:?} NP {:#04x} {:?} {:?}",
            self.rp_enabled, self.rp, self.np_enabled, self.np, self.statistics
        )
    }
}

/// What a QP knows of the congestion on its way.
#[derive(Debug, Default)]
pub struct Reaction {
    /// Priority of its last packet.
    pub priority: u8,
    /// Its rate, while it is limited.
    limiter: Option<Limiter>,
}

impl Reaction {
    /// A CNP came. True if the QP was free before.
    pub fn slow_down(&mut self, rp: &Rp, now: Duration) -> bool {
        self.settle(rp, now);
        match &mut self.limiter {
            Some(limiter) => {
                limiter.cnp(rp, now);
                false
            }
            None => {
                self.limiter = Some(Limiter::new(rp, now));
                true
            }
        }
    }

    /// A packet of `octets` bytes leaves.
    pub fn sent(&mut self, rp: &Rp, now: Duration, octets: usize) {
        if let Some(limiter) = &mut self.limiter {
            limiter.sent(rp, now, octets);
        }
    }

    /// How long so many bytes take at the rate of now; nothing without a limit.
    pub fn time_for(&self, octets: usize) -> Duration {
        let limiter = self.limiter.as_ref();
        limiter.map_or(Duration::ZERO, |limiter| limiter.time_for(octets))
    }

    /// Until when nothing may be sent; `None` when something may.
    pub fn held(&mut self, rp: &Rp, now: Duration) -> Option<Duration> {
        self.settle(rp, now);
        self.limiter.as_ref()?.held(now)
    }

    /// Whether the rate is limited, as far as was found out at the last packet.
    pub fn is_limited(&self) -> bool {
        self.limiter.is_some()
    }

    /// Whether the rate is limited at `now`.
    pub fn would_be_limited(&self, rp: &Rp, now: Duration) -> bool {
        self.limiter.as_ref().is_some_and(|limiter| {
            let mut later = limiter.clone();
            later.advance(rp, now);
            !later.is_over(rp)
        })
    }

    /// The limit is off.
    pub fn release(&mut self) {
        self.limiter = None;
    }

    /// The rate in Mb/s, for a dump; `None` without a limit.
    pub fn rate(&self) -> Option<u32> {
        self.limiter.as_ref().map(Limiter::rate)
    }

    fn settle(&mut self, rp: &Rp, now: Duration) {
        if let Some(limiter) = &mut self.limiter {
            limiter.advance(rp, now);
            if limiter.is_over(rp) {
                self.limiter = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn a_peer_is_told_once_in_the_time_and_each_by_itself() {
        let mut congestion = Congestion::default();
        let (one, two) = (([1; 16], 7), ([1; 16], 8));
        assert!(congestion.tell(one, 10 * US));
        assert!(!congestion.tell(one, 13 * US));
        assert!(congestion.tell(two, 13 * US));
        assert!(congestion.tell(one, 14 * US), "4 us are over");
        congestion.np.min_time_between_cnps = 0;
        assert!(congestion.tell(one, 14 * US));
    }

    #[test]
    fn peers_are_forgotten_before_they_fill_the_memory() {
        let mut congestion = Congestion::default();
        let peer = |number: usize| ([0; 16], number as u32);
        for number in 0..MOST_PEERS {
            assert!(congestion.tell(peer(number), US));
        }
        assert!(!congestion.tell(peer(MOST_PEERS), 2 * US), "all are recent");
        assert!(congestion.tell(peer(MOST_PEERS), 5 * US));
        assert_eq!(congestion.told.len(), 1);
    }

    #[test]
    fn a_qp_is_free_again_when_no_more_notifications_come() {
        let rp = Rp::default();
        let mut reaction = Reaction::default();
        assert!(reaction.slow_down(&rp, US));
        assert!(!reaction.slow_down(&rp, 20 * US));
        assert!(reaction.would_be_limited(&rp, 20 * US));
        assert!(reaction.rate().unwrap() < LINE_RATE / 2);
        let later = Duration::from_secs(10);
        assert!(!reaction.would_be_limited(&rp, later));
        assert!(reaction.is_limited(), "nobody has looked");
        assert_eq!(reaction.held(&rp, later), None);
        assert!(!reaction.is_limited());
    }
}
