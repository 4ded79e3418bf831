// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 and IPv6 headers, as far as RoCEv2 uses them: no options, no extension headers, no
//! fragments.

use crate::{
    read::Reader, //
    ParseError,
};

pub(crate) const ETHERTYPE_V4: u16 = 0x0800;
pub(crate) const ETHERTYPE_V6: u16 = 0x86dd;
pub(crate) const PROTO_UDP: u8 = 17;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const DONT_FRAGMENT: u16 = 0x4000;

/// Source and destination of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source.
        src: [u8; 4],
        /// Destination.
        dst: [u8; 4],
    },
    /// IPv6.
    V6 {
        /// Source.
        src: [u8; 16],
        /// Destination.
        dst: [u8; 16],
    },
}

/// An IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Addresses.
    pub addresses: Addresses,
    /// Type of service or traffic class, ECN bits included. Not covered by the ICRC.
    pub tos: u8,
    /// Time to live or hop limit. Not covered by the ICRC.
    pub ttl: u8,
    /// IPv6 flow label, 20 bits; 0 for IPv4. Not covered by the ICRC.
    pub flow_label: u32,
    /// IPv4 identification; 0 for IPv6.
    pub ident: u16,
}

fn mapped(v4: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = v4;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// Ones' complement sum of big endian words, folded; 0xffff over a header with a right checksum.
fn fold(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    // CAST: folded twice, the carry cannot come again.
    ((sum & 0xffff) + (sum >> 16)) as u16
}

impl Ip {
    /// Source as a GID: IPv4 addresses mapped into IPv6.
    pub fn src_gid(&self) -> [u8; 16] {
        match self.addresses {
            Addresses::V4 { src, .. } => mapped(src),
            Addresses::V6 { src, .. } => src,
        }
    }

    /// Destination as a GID.
    pub fn dst_gid(&self) -> [u8; 16] {
        match self.addresses {
            Addresses::V4 { dst, .. } => mapped(dst),
            Addresses::V6 { dst, .. } => dst,
        }
    }

    /// Length of the header in bytes.
    pub fn header_len(&self) -> usize {
        match self.addresses {
            Addresses::V4 { .. } => V4_LEN,
            Addresses::V6 { .. } => V6_LEN,
        }
    }

    pub(crate) fn ethertype(&self) -> u16 {
        match self.addresses {
            Addresses::V4 { .. } => ETHERTYPE_V4,
            Addresses::V6 { .. } => ETHERTYPE_V6,
        }
    }

    /// The header, its protocol and the length of what follows it. `ethertype` says which family.
    pub(crate) fn parse(
        ethertype: u16,
        input: &mut Reader<'_>,
    ) -> Result<(Self, u8, usize), ParseError> {
        match ethertype {
            ETHERTYPE_V4 => Self::parse_v4(input),
            ETHERTYPE_V6 => Self::parse_v6(input),
            other => Err(ParseError::EtherType(other)),
        }
    }

    fn parse_v4(input: &mut Reader<'_>) -> Result<(Self, u8, usize), ParseError> {
        let raw: [u8; V4_LEN] = input.take().ok_or(ParseError::Short("IPv4"))?;
        let [vihl, tos, l0, l1, i0, i1, f0, f1, ttl, proto, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
            raw;
        if vihl != 0x45 {
            return Err(ParseError::IpHeader(vihl));
        }
        if u16::from_be_bytes([f0, f1]) & 0x3fff != 0 {
            return Err(ParseError::Fragment);
        }
        if fold(&raw) != 0xffff {
            return Err(ParseError::IpChecksum);
        }
        let total = usize::from(u16::from_be_bytes([l0, l1]));
        let body = total.checked_sub(V4_LEN).ok_or(ParseError::Short("IPv4"))?;
        let ip = Self {
            addresses: Addresses::V4 {
                src: [s0, s1, s2, s3],
                dst: [d0, d1, d2, d3],
            },
            tos,
            ttl,
            flow_label: 0,
            ident: u16::from_be_bytes([i0, i1]),
        };
        Ok((ip, proto, body))
    }

    fn parse_v6(input: &mut Reader<'_>) -> Result<(Self, u8, usize), ParseError> {
        let short = ParseError::Short("IPv6");
        let word = input.u32().ok_or(short)?;
        let body = usize::from(input.u16().ok_or(short)?);
        let [proto, ttl] = input.take().ok_or(short)?;
        let src = input.take().ok_or(short)?;
        let dst = input.take().ok_or(short)?;
        if word >> 28 != 6 {
            // CAST: the top byte.
            return Err(ParseError::IpHeader((word >> 24) as u8));
        }
        let ip = Self {
            addresses: Addresses::V6 { src, dst },
            // CAST: eight bits.
            tos: (word >> 20 & 0xff) as u8,
            ttl,
            flow_label: word & 0xf_ffff,
            ident: 0,
        };
        Ok((ip, proto, body))
    }

    /// Writes the header of a datagram of `body` bytes behind it.
    pub(crate) fn emit(&self, body: u16, mut put: impl FnMut(&[u8])) {
        match self.addresses {
            // CAST: 20.
            Addresses::V4 { src, dst } => put(&self.v4(body + V4_LEN as u16, src, dst)),
            Addresses::V6 { src, dst } => {
                let word = 6 << 28 | u32::from(self.tos) << 20 | self.flow_label & 0xf_ffff;
                put(&word.to_be_bytes());
                put(&body.to_be_bytes());
                put(&[PROTO_UDP, self.ttl]);
                put(&src);
                put(&dst);
            }
        }
    }

    fn v4(&self, total: u16, src: [u8; 4], dst: [u8; 4]) -> [u8; V4_LEN] {
        let mut raw = [0; V4_LEN];
        raw[0] = 0x45;
        raw[1] = self.tos;
        raw[2..4].copy_from_slice(&total.to_be_bytes());
        raw[4..6].copy_from_slice(&self.ident.to_be_bytes());
        raw[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        raw[8] = self.ttl;
        raw[9] = PROTO_UDP;
        raw[12..16].copy_from_slice(&src);
        raw[16..20].copy_from_slice(&dst);
        let sum = !fold(&raw);
        raw[10..12].copy_from_slice(&sum.to_be_bytes());
        raw
    }

    /// The header as a 40-byte GRH area of a received datagram: an IPv6 header fills it, an IPv4
    /// header stands in its last 20 bytes. Source: rdma-core `ibv_create_ah_from_wc`, kernel
    /// `ib_get_gids_from_rdma_hdr` (drivers/infiniband/core/verbs.c).
    pub fn grh_area(&self, body: u16) -> [u8; 40] {
        let mut area = [0; 40];
        let mut at = area.len() - self.header_len();
        self.emit(body, |bytes| {
            // PANIC: `emit` writes exactly `header_len` bytes.
            area[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        });
        area
    }
}
