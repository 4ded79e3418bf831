// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A received frame, taken apart.

use crate::{
    icrc::icrc,
    ip::PROTO_UDP,
    read::Reader, //
    Bth,
    Ethernet,
    Ext,
    Ip,
    UDP_PORT,
};

/// Why a frame is not a good RoCEv2 packet. The first three say that it is none at all and belongs
/// to the Ethernet receive path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Neither IPv4 nor IPv6.
    #[error("EtherType {0:#06x} is not IP")]
    EtherType(u16),
    /// Not UDP.
    #[error("IP protocol {0} is not UDP")]
    Protocol(u8),
    /// UDP to another port.
    #[error("UDP port {0} is not RoCEv2")]
    Port(u16),
    /// The frame ends inside the named header.
    #[error("frame ends inside {0}")]
    Short(&'static str),
    /// First byte of the IP header: wrong version, or options.
    #[error("IP header starts with {0:#04x}")]
    IpHeader(u8),
    /// Header checksum of IPv4.
    #[error("wrong IPv4 header checksum")]
    IpChecksum,
    /// RoCE packets are never fragmented.
    #[error("IP fragment")]
    Fragment,
    /// IP and UDP disagree about the length.
    #[error("UDP length {udp} in an IP payload of {ip} bytes")]
    UdpLength {
        /// As UDP says.
        udp: usize,
        /// As IP says.
        ip: usize,
    },
    /// Transport header version other than 0.
    #[error("transport version {0}")]
    TransportVersion(u8),
    /// Reserved opcode, or of a service not spoken here.
    #[error("BTH opcode {0:#04x}")]
    Opcode(u8),
    /// More pad than payload.
    #[error("pad count {pad} with {payload} bytes of payload and pad")]
    Pad {
        /// Pad bytes named by the BTH.
        pad: usize,
        /// Bytes between the headers and the ICRC.
        payload: usize,
    },
    /// The ICRC does not fit the packet.
    #[error("ICRC {found:02x?}, computed {computed:02x?}")]
    Icrc {
        /// In the frame.
        found: [u8; 4],
        /// Over the frame.
        computed: [u8; 4],
    },
}

impl ParseError {
    /// Whether the frame is no RoCEv2 at all, rather than a damaged one.
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::EtherType(_) | Self::Protocol(_) | Self::Port(_))
    }
}

/// All headers of a packet. Lengths, checksums, pad and ICRC follow from them and the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Ethernet.
    pub eth: Ethernet,
    /// IP.
    pub ip: Ip,
    /// UDP source port (the destination is [`UDP_PORT`]).
    pub sport: u16,
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers.
    pub ext: Ext,
}

/// A good RoCEv2 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its headers.
    pub headers: Headers,
    /// Its payload, without pad.
    pub payload: &'a [u8],
    /// IP payload length: UDP header to ICRC.
    pub ip_body: u16,
}

/// Where a RoCEv2 frame goes: what a card steers by, before it looks at the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Destination MAC and tag.
    pub eth: Ethernet,
    /// Destination IP address as a GID.
    pub gid: [u8; 16],
}

/// The target of a frame that is UDP to the RoCEv2 port, good or damaged; `None` for others.
/// Fragments are others: only the first one would show a port.
pub fn target(frame: &[u8]) -> Option<Target> {
    let mut input = Reader::new(frame);
    let (eth, kind) = Ethernet::parse(&mut input).ok()?;
    let (ip, protocol, _) = Ip::parse(kind, &mut input).ok()?;
    if protocol != PROTO_UDP {
        return None;
    }
    input.u16()?;
    (input.u16()? == UDP_PORT).then(|| Target {
        eth,
        gid: ip.dst_gid(),
    })
}

impl<'a> Packet<'a> {
    /// Takes a frame apart: from destination MAC to the last byte before the FCS. Bytes behind the
    /// IP datagram (Ethernet padding) are ignored. Checks lengths, checksum and ICRC.
    pub fn parse(frame: &'a [u8]) -> Result<Self, ParseError> {
        let mut input = Reader::new(frame);
        let (eth, kind) = Ethernet::parse(&mut input)?;
        let datagram = input.rest();
        let (ip, protocol, body) = Ip::parse(kind, &mut input)?;
        if protocol != PROTO_UDP {
            return Err(ParseError::Protocol(protocol));
        }
        let datagram = datagram
            .get(..ip.header_len() + body)
            .ok_or(ParseError::Short("IP payload"))?;
        let body_bytes = &datagram[ip.header_len()..];
        let mut input = Reader::new(body_bytes);
        let short = ParseError::Short("UDP");
        let sport = input.u16().ok_or(short)?;
        let dport = input.u16().ok_or(short)?;
        if dport != UDP_PORT {
            return Err(ParseError::Port(dport));
        }
        let udp = usize::from(input.u16().ok_or(short)?);
        if udp != body {
            return Err(ParseError::UdpLength { udp, ip: body });
        }
        // The checksum: zero or covered by the ICRC anyway.
        input.u16().ok_or(short)?;
        let (bth, pad) = Bth::parse(&mut input)?;
        let ext = Ext::parse(bth.opcode.layout(), &mut input)?;
        let (padded, found) = input
            .rest()
            .split_last_chunk::<4>()
            .ok_or(ParseError::Short("ICRC"))?;
        let payload_len = padded.len().checked_sub(pad).ok_or(ParseError::Pad {
            pad,
            payload: padded.len(),
        })?;
        let covered = &datagram[..datagram.len() - 4];
        let computed = icrc(covered).ok_or(ParseError::Short("BTH"))?;
        if computed != *found {
            return Err(ParseError::Icrc {
                found: *found,
                computed,
            });
        }
        Ok(Self {
            headers: Headers {
                eth,
                ip,
                sport,
                bth,
                ext,
            },
            payload: &padded[..payload_len],
            // CAST: IP lengths are 16 bits.
            ip_body: body as u16,
        })
    }
}
