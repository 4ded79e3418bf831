// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Ethernet face of the port: frames, checksums, hashes, and the way of a frame in and out.
//!
//! | term | meaning |
//! |---|---|
//! | L2, L3, L4 | Ethernet with VLAN tags; IP; TCP, UDP, AH or ESP |
//! | RSS | receive side scaling: a hash of the headers picks the receive queue |
//! | LSO | large send offload: the card cuts a long TCP or UDP payload into frames |

pub mod checksum;
pub mod counters;
pub mod frame;
pub mod lso;
pub mod offload;
pub mod port;
pub mod rss;
#[cfg(test)]
pub(crate) mod testing;
pub mod wqe;

use crate::{hca::Hca, sched::Work};

/// A doorbell named this SQ.
pub fn doorbell(hca: &mut Hca, _uar: u32, sqn: u32, _data: &[u8]) {
    hca.sched.push(Work::Sq(sqn));
}

/// The scheduler gives this SQ its turn.
pub fn run_sq(hca: &mut Hca, _sqn: u32) {
    port::count(hca, "tx_not_built");
}

/// A frame that is not for RoCE.
pub fn receive(hca: &mut Hca, _frame: &[u8], _from: Option<u32>) {
    port::count(hca, "rx_not_built");
}

/// State of the Ethernet engine that belongs to no queue.
#[derive(Debug, Default)]
pub struct Ethernet {
    /// What the vport counts.
    pub counters: counters::Counters,
}
