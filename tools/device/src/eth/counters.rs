// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the vport counts of Ethernet: the source of QUERY_VPORT_COUNTER and PPCNT.

use super::frame::{is_broadcast, is_multicast, Mac};

/// Frames and their bytes, without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames.
    pub packets: u64,
    /// Bytes.
    pub octets: u64,
}

/// One direction, by kind of destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// To one station.
    pub unicast: Traffic,
    /// To a group, broadcast not included.
    pub multicast: Traffic,
    /// To all.
    pub broadcast: Traffic,
}

impl Direction {
    /// Counts a frame (destination MAC first).
    pub fn add(&mut self, frame: &[u8]) {
        let dmac: Mac = match frame.first_chunk() {
            Some(dmac) => *dmac,
            None => return,
        };
        let kind = if is_broadcast(&dmac) {
            &mut self.broadcast
        } else if is_multicast(&dmac) {
            &mut self.multicast
        } else {
            &mut self.unicast
        };
        kind.packets += 1;
        kind.octets += frame.len() as u64;
    }

    /// All kinds together.
    pub fn total(&self) -> Traffic {
        let all = [self.unicast, self.multicast, self.broadcast];
        all.iter().fold(Traffic::default(), |sum, kind| Traffic {
            packets: sum.packets + kind.packets,
            octets: sum.octets + kind.octets,
        })
    }
}

/// Everything the vport counts of Ethernet since the function was reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that passed the filter of the vport.
    pub received: Direction,
    /// Frames sent.
    pub transmitted: Direction,
    /// Frames not sent: too short, or longer than the MTU.
    pub transmit_errors: u64,
    /// Frames for which no receive WQE was posted.
    pub out_of_buffer: u64,
}
