// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports and links between emulated cards.
//!
//! A [`Port`] is one end of a cable. The cable is a Unix seqpacket socket between two processes
//! (or two ports of one: [`Cables`]) that carries Ethernet frames as they are on the wire, without
//! preamble and FCS; or there is none, or it leads to a switch with no other port. Sending never blocks: what the socket does
//! not take waits in a bounded queue, and what the queue does not take is dropped and counted,
//! as in any switch. Faults (loss, delay, reorder, duplication, congestion marks) act on frames that leave.

mod cables;
mod capture;
mod faults;
mod mark;
mod plug;
mod port;
mod spec;

pub use cables::{CableError, Cables};
pub use capture::Capture;
pub use faults::Faults;
pub use port::{Counters, Port, PortError, MAX_FRAME};
pub use spec::{LinkSpec, SpecError};
