// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RoCEv2 packet codecs, ICRC and PSN arithmetic.
//!
//! A frame is Ethernet, an optional 802.1Q tag, IPv4 or IPv6, UDP to port 4791, the InfiniBand base
//! transport header (BTH), the extension headers its opcode names, payload, pad, and the invariant
//! CRC. [`Frame`] writes one around a payload that is already in place (no copy), [`Packet::parse`]
//! takes one apart. Nothing here knows queues or memory, and no input makes it panic.
//!
//! Sources: InfiniBand Architecture Specification 1.x, chapter 9 (transport), annex A17 (RoCEv2);
//! the same formats in Linux: drivers/infiniband/sw/rxe/rxe_hdr.h, rxe_opcode.c, rxe_icrc.c.
//!
//! | term | meaning |
//! |---|---|
//! | PSN | packet sequence number, 24 bits, wraps |
//! | MSN | message sequence number in an acknowledgement, 24 bits |
//! | AETH syndrome | ACK with credits, RNR NAK with a timer code, or NAK with a reason |
//! | ICRC | CRC-32 over all that does not change on the way |

mod bth;
mod eth;
mod ext;
mod frame;
mod icrc;
mod ip;
mod mtu;
mod opcode;
mod packet;
mod psn;
mod read;
mod rnr;

pub use bth::{Bth, BTH_LEN};
pub use eth::{Ethernet, Mac, Vlan};
pub use ext::{Aeth, AtomicEth, Deth, Ext, Nak, Reth, Syndrome};
pub use frame::{Frame, HEADROOM};
pub use icrc::icrc;
pub use ip::{Addresses, Ip};
pub use mtu::Mtu;
pub use opcode::{Opcode, Operation, Position, Service};
pub use packet::{target, Headers, Packet, ParseError, Target};
pub use psn::Psn;
pub use rnr::rnr_delay;

/// UDP destination port of RoCEv2 (IANA: roce).
pub const UDP_PORT: u16 = 4791;
