// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the headers of an Ethernet frame are and what they say.
//!
//! One pass over the frame, bounds checked, finds what receive steering, RSS and the checksum
//! engines need. A header that is cut off or malformed simply is not there: the layers below it
//! still count, as in hardware.

/// A MAC address.
pub type Mac = [u8; 6];

/// Length of the Ethernet header without tags, in bytes.
pub const ETH_LEN: usize = 14;

/// Length of one VLAN tag, in bytes.
pub const TAG_LEN: usize = 4;

/// Shortest frame on the wire, without FCS, in bytes.
pub const MIN_LEN: usize = 60;

/// EtherTypes the parser knows.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// Customer VLAN tag (802.1Q).
    pub const CVLAN: u16 = 0x8100;
    /// Service VLAN tag (802.1ad).
    pub const SVLAN: u16 = 0x88a8;
}

/// IP protocol numbers the parser knows.
pub mod protocol {
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPsec encapsulating security payload.
    pub const ESP: u8 = 50;
    /// IPsec authentication header.
    pub const AH: u8 = 51;
    /// IPv6 hop-by-hop options.
    pub(super) const HOP_BY_HOP: u8 = 0;
    /// IPv6 routing header.
    pub(super) const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub(super) const FRAGMENT: u8 = 44;
    /// IPv6 destination options.
    pub(super) const DESTINATION: u8 = 60;
}

/// Extension headers of one packet the parser walks through before it gives up.
const MAX_EXTENSIONS: usize = 8;

/// Whether an address is a group address (broadcast included).
pub const fn is_multicast(mac: &Mac) -> bool {
    mac[0] & 1 != 0
}

/// Whether an address is the broadcast address.
pub fn is_broadcast(mac: &Mac) -> bool {
    *mac == [0xff; 6]
}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Tag protocol identifier: [`ethertype::CVLAN`] or [`ethertype::SVLAN`].
    pub tpid: u16,
    /// Priority (3 bits), CFI (1 bit) and VLAN id (12 bits).
    pub tci: u16,
}

/// Version of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Version.
    pub version: Version,
    /// Source address; IPv4 in the last 4 bytes.
    pub src: [u8; 16],
    /// Destination address; IPv4 in the last 4 bytes.
    pub dst: [u8; 16],
    /// Protocol of the payload, behind all extension headers.
    pub protocol: u8,
    /// DSCP (6 bits) and ECN (2 bits).
    pub traffic_class: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Length of the IPv4 header in dwords; 0 for IPv6.
    pub ihl: u8,
    /// IPv6 flow label; 0 for IPv4.
    pub flow_label: u32,
    /// Whether this is a fragment, the first one included.
    pub fragment: bool,
    /// Length of the fixed header with options, without IPv6 extension headers, in bytes.
    pub header_len: usize,
    /// Offset in the frame behind the last extension header.
    pub payload_at: usize,
    /// Offset in the frame at which the datagram ends, as its length field says; may be behind the
    /// end of the frame.
    pub end: usize,
}

/// A transport header. Absent for fragments: their ports belong to the whole datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4 {
    /// TCP.
    Tcp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
        /// Flags (9 bits, NS to FIN).
        flags: u16,
        /// Header with options, in bytes.
        header_len: usize,
    },
    /// UDP.
    Udp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
    /// AH or ESP.
    Ipsec {
        /// Security parameters index.
        spi: u32,
    },
}

/// What the headers of one frame say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Destination address.
    pub dmac: Mac,
    /// Source address.
    pub smac: Mac,
    /// The outermost two VLAN tags.
    pub tags: [Option<Tag>; 2],
    /// EtherType behind the tags.
    pub ethertype: u16,
    /// Offset of what follows the EtherType.
    pub l3_at: usize,
    /// IP header.
    pub ip: Option<Ip>,
    /// Transport header, at [`Ip::payload_at`].
    pub l4: Option<L4>,
}

impl Headers {
    /// Parses a frame, from destination MAC on; `None` when it is shorter than its Ethernet header
    /// (with tags).
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let dmac = array(frame, 0)?;
        let smac = array(frame, 6)?;
        let mut kind = be16(frame, 12)?;
        let mut l3_at = ETH_LEN;
        let mut tags = [None; 2];
        for tag in &mut tags {
            if kind != ethertype::CVLAN && kind != ethertype::SVLAN {
                break;
            }
            *tag = Some(Tag {
                tpid: kind,
                tci: be16(frame, l3_at)?,
            });
            kind = be16(frame, l3_at + 2)?;
            l3_at += TAG_LEN;
        }
        let ip = match kind {
            ethertype::IPV4 => ipv4(frame, l3_at),
            ethertype::IPV6 => ipv6(frame, l3_at),
            _ => None,
        };
        let l4 = ip.filter(|ip| !ip.fragment).and_then(|ip| l4(frame, &ip));
        Some(Self {
            dmac,
            smac,
            tags,
            ethertype: kind,
            l3_at,
            ip,
            l4,
        })
    }

    /// The IP datagram without Ethernet padding, when all of it is in `frame`, which is the frame
    /// that was parsed.
    pub fn datagram<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let ip = self.ip.filter(|ip| ip.end >= ip.payload_at)?;
        frame.get(self.l3_at..ip.end)
    }

    /// The transport header and its payload, without Ethernet padding.
    pub fn segment<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let ip = self.ip?;
        frame.get(ip.payload_at..ip.end)
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<Ip> {
    let first = *frame.get(at)?;
    let header_len = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header_len < 20 {
        return None;
    }
    let header = frame.get(at..at + header_len)?;
    let total = be16(header, 2)?;
    // Flags and offset: more fragments (bit 13) or not the first one.
    let fragment = be16(header, 6)? & 0x3fff != 0;
    Some(Ip {
        version: Version::V4,
        src: mapped(array(header, 12)?),
        dst: mapped(array(header, 16)?),
        protocol: *header.get(9)?,
        traffic_class: *header.get(1)?,
        ttl: *header.get(8)?,
        ihl: first & 0xf,
        flow_label: 0,
        fragment,
        header_len,
        payload_at: at + header_len,
        end: at + usize::from(total),
    })
}

fn ipv6(frame: &[u8], at: usize) -> Option<Ip> {
    let header_len = 40;
    let header = frame.get(at..at + header_len)?;
    let word = u32::from_be_bytes(array(header, 0)?);
    if word >> 28 != 6 {
        return None;
    }
    let payload = be16(header, 4)?;
    let mut ip = Ip {
        version: Version::V6,
        src: array(header, 8)?,
        dst: array(header, 24)?,
        protocol: *header.get(6)?,
        // CAST: eight bits are left.
        traffic_class: (word >> 20 & 0xff) as u8,
        ttl: *header.get(7)?,
        ihl: 0,
        flow_label: word & 0xf_ffff,
        fragment: false,
        header_len,
        payload_at: at + header_len,
        end: at + header_len + usize::from(payload),
    };
    for _ in 0..MAX_EXTENSIONS {
        let len = match ip.protocol {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => {
                let Some(len) = frame.get(ip.payload_at + 1) else {
                    break;
                };
                (usize::from(*len) + 1) * 8
            }
            protocol::FRAGMENT => 8,
            _ => break,
        };
        let Some(extension) = frame.get(ip.payload_at..ip.payload_at + len) else {
            break;
        };
        if ip.protocol == protocol::FRAGMENT {
            ip.fragment = true;
        }
        ip.protocol = extension[0];
        ip.payload_at += len;
        if ip.fragment {
            break;
        }
    }
    Some(ip)
}

fn l4(frame: &[u8], ip: &Ip) -> Option<L4> {
    let header = frame.get(ip.payload_at..)?;
    match ip.protocol {
        protocol::TCP => {
            let word = be16(header, 12)?;
            let header_len = usize::from(word >> 12) * 4;
            if header_len < 20 || header.len() < header_len {
                return None;
            }
            Some(L4::Tcp {
                sport: be16(header, 0)?,
                dport: be16(header, 2)?,
                flags: word & 0x1ff,
                header_len,
            })
        }
        protocol::UDP => {
            be16(header, 6)?;
            Some(L4::Udp {
                sport: be16(header, 0)?,
                dport: be16(header, 2)?,
            })
        }
        protocol::ESP => Some(L4::Ipsec {
            spi: u32::from_be_bytes(array(header, 0)?),
        }),
        protocol::AH => Some(L4::Ipsec {
            spi: u32::from_be_bytes(array(header, 4)?),
        }),
        _ => None,
    }
}

fn mapped(v4: [u8; 4]) -> [u8; 16] {
    let mut address = [0; 16];
    address[12..].copy_from_slice(&v4);
    address
}

/// `N` bytes at an offset.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// A big endian 16-bit word at an offset.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}
