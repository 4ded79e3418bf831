// SPDX-License-Identifier: GPL-2.0
//! What `ethtool` shows and sets.

use rmlx5_bindings as bindings;

/// Lengths of rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Packets that a receive ring holds.
    pub rx: u32,
    /// The most.
    pub rx_max: u32,
    /// Entries of a transmit ring.
    pub tx: u32,
    /// The most.
    pub tx_max: u32,
}

/// When an interrupt is raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalesce {
    /// Microseconds after the first received packet.
    pub rx_usecs: u32,
    /// Received packets.
    pub rx_frames: u32,
    /// Microseconds after the first packet that has been sent.
    pub tx_usecs: u32,
    /// Packets that have been sent.
    pub tx_frames: u32,
    /// The numbers for received packets follow the traffic.
    pub rx_adaptive: bool,
    /// The same for packets that have been sent.
    pub tx_adaptive: bool,
}

/// Pauses of the whole link (IEEE 802.3, annex 31B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// They are obeyed.
    pub rx: bool,
    /// They are sent.
    pub tx: bool,
}

/// Pauses of the whole link that came and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseCounts {
    /// Frames that came.
    pub rx: u64,
    /// Frames that left.
    pub tx: u64,
}

/// Kinds of packets whose hash can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over IPv4.
    UdpV4,
    /// UDP over IPv6.
    UdpV6,
}

impl Flow {
    /// From a number of `TCP_V4_FLOW` and others in include/uapi/linux/ethtool.h.
    pub(super) fn parse(raw: u32) -> Option<Self> {
        Some(match raw {
            bindings::TCP_V4_FLOW => Self::TcpV4,
            bindings::TCP_V6_FLOW => Self::TcpV6,
            bindings::UDP_V4_FLOW => Self::UdpV4,
            bindings::UDP_V6_FLOW => Self::UdpV6,
            _ => return None,
        })
    }
}

/// What of a packet goes into its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashFields {
    /// Source address.
    pub source: bool,
    /// Destination address.
    pub destination: bool,
    /// Source port.
    pub source_port: bool,
    /// Destination port.
    pub destination_port: bool,
}

impl HashFields {
    /// All.
    pub const ALL: Self = Self {
        source: true,
        destination: true,
        source_port: true,
        destination_port: true,
    };

    /// None.
    pub const NONE: Self = Self {
        source: false,
        destination: false,
        source_port: false,
        destination_port: false,
    };

    pub(super) fn raw(self) -> u32 {
        let bit = |on, bit| if on { bit } else { 0 };
        bit(self.source, bindings::RXH_IP_SRC)
            | bit(self.destination, bindings::RXH_IP_DST)
            | bit(self.source_port, bindings::RXH_L4_B_0_1)
            | bit(self.destination_port, bindings::RXH_L4_B_2_3)
    }

    /// `None` for what else a hash could be made of.
    pub(super) fn parse(raw: u32) -> Option<Self> {
        let fields = Self {
            source: raw & bindings::RXH_IP_SRC != 0,
            destination: raw & bindings::RXH_IP_DST != 0,
            source_port: raw & bindings::RXH_L4_B_0_1 != 0,
            destination_port: raw & bindings::RXH_L4_B_2_3 != 0,
        };
        (fields.raw() == raw).then_some(fields)
    }
}

/// A change of how packets are spread over receive rings.
pub struct Spread<'a> {
    /// Ring of each entry of the table, if that changes.
    pub table: Option<&'a [u32]>,
    /// Key of the Toeplitz hash, if that changes.
    pub key: Option<&'a [u8]>,
}
