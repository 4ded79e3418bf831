// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Ethernet face of the port: frames, checksums, hashes, and the way of a frame in and out.
//!
//! | term | meaning |
//! |---|---|
//! | L2, L3, L4 | Ethernet with VLAN tags; IP; TCP, UDP, AH or ESP |
//! | RSS | receive side scaling: a hash of the headers picks the receive queue |
//! | LSO | large send offload: the card cuts a long TCP or UDP payload into frames |

#[cfg(test)]
pub(crate) mod bench;
pub mod checksum;
mod completion;
pub mod frame;
pub mod lso;
pub mod offload;
pub mod pause;
pub mod port;
pub mod receive;
pub mod rss;
pub mod send;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod wqe;

pub use receive::receive;
pub use send::{doorbell, run_sq};

/// State of the Ethernet engine that belongs to no queue.
#[derive(Debug, Default)]
pub struct Ethernet {
    /// Frames not sent: too short, or longer than the MTU.
    pub transmit_errors: u64,
    /// Frames for which no receive WQE was posted.
    pub out_of_buffer: u64,
}
