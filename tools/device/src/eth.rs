// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Ethernet face of the port: frames, checksums, hashes, and the way of a frame in and out.
//!
//! | term | meaning |
//! |---|---|
//! | L2, L3, L4 | Ethernet with VLAN tags; IP; TCP, UDP, AH or ESP |
//! | RSS | receive side scaling: a hash of the headers picks the receive queue |
//! | LSO | large send offload: the card cuts a long TCP or UDP payload into frames |

pub mod checksum;
pub mod engine;
pub mod frame;
pub mod lso;
pub mod offload;
pub mod rss;
#[cfg(test)]
pub(crate) mod testing;
pub mod wqe;
