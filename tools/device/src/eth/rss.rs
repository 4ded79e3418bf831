// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive side scaling: the hashes that spread flows over receive queues.

use super::frame::{Headers, Version, L4};

/// Which fields go into the hash: `MLX5_HASH_FIELD_SEL_*` in include/linux/mlx5/device.h.
pub mod select {
    /// Source address.
    pub const SRC_IP: u32 = 1 << 0;
    /// Destination address.
    pub const DST_IP: u32 = 1 << 1;
    /// Source port.
    pub const L4_SPORT: u32 = 1 << 2;
    /// Destination port.
    pub const L4_DPORT: u32 = 1 << 3;
    /// IPsec SPI.
    pub const IPSEC_SPI: u32 = 1 << 4;
    /// All that are defined.
    pub const ALL: u32 = 0x1f;
}

/// Bits of the CQE member `rss_hash_type`: `CQE_RSS_*` in include/linux/mlx5/device.h.
mod kind {
    pub(super) const IPV4: u8 = 1 << 2;
    pub(super) const IPV6: u8 = 2 << 2;
    pub(super) const TCP: u8 = 1 << 6;
    pub(super) const UDP: u8 = 2 << 6;
    pub(super) const IPSEC: u8 = 3 << 6;
}

/// Length of the Toeplitz key in bytes.
pub const KEY_LEN: usize = 40;

/// Hash function of a TIR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// No hash: every packet goes to the first entry of the table.
    None,
    /// Exclusive or of all bytes, its bits in reverse order.
    InvertedXor8,
    /// Toeplitz.
    Toeplitz {
        /// The key.
        key: [u8; KEY_LEN],
        /// Both directions of a flow give one hash: (a | b, a ^ b) stands in for the pair (a, b).
        symmetric: bool,
    },
}

impl Function {
    /// What people call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InvertedXor8 => "xor8",
            Self::Toeplitz { .. } => "toeplitz",
        }
    }
}

/// What to hash, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The function.
    pub function: Function,
    /// Expected L3 protocol.
    pub version: Version,
    /// Expected L4 protocol is UDP (not TCP); only meaningful with ports selected.
    pub udp: bool,
    /// Bits of [`select`].
    pub fields: u32,
}

/// Result of a hash over one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// CQE member `rss_hash_result`.
    pub value: u32,
    /// CQE member `rss_hash_type`: L4 in bits 7:6, L3 in bits 3:2.
    pub kind: u8,
    /// The bits that index a table, most significant first: see [`Hash::entry`].
    reversed: bool,
}

impl Hash {
    /// Entry of a table of `1 << log` RQs. Toeplitz uses the low bits of the hash, the inverted
    /// XOR its high bits, which is why the driver lays that table out by inverted index
    /// (`mlx5e_calc_indir_rqns` in en/rqt.c).
    pub fn entry(&self, log: u32) -> usize {
        let index = if !self.reversed {
            self.value & low_mask(log)
        } else if log <= 8 {
            self.value >> (8 - log)
        } else {
            self.value << (log - 8).min(23)
        };
        // CAST: at most 31 bits.
        index as usize
    }
}

fn low_mask(log: u32) -> u32 {
    1u32.checked_shl(log).map_or(u32::MAX, |size| size - 1)
}

impl Selector {
    /// Hashes a frame. A frame without the selected headers (a fragment has no ports) hashes what
    /// is there; one of another L3 protocol hashes to 0.
    pub fn hash(&self, headers: &Headers) -> Hash {
        let Some(ip) = headers.ip.filter(|ip| ip.version == self.version) else {
            return Hash::default();
        };
        let width = match ip.version {
            Version::V4 => 4,
            Version::V6 => 16,
        };
        let mut input = Input {
            bytes: [0; KEY_LEN],
            len: 0,
        };
        let symmetric = matches!(
            self.function,
            Function::Toeplitz {
                symmetric: true,
                ..
            }
        );
        let mut kind = 0;
        // PANIC: `width` is at most 16.
        if input.pair(
            symmetric,
            (self.fields & select::SRC_IP != 0).then_some(&ip.src[16 - width..]),
            (self.fields & select::DST_IP != 0).then_some(&ip.dst[16 - width..]),
        ) {
            kind |= match ip.version {
                Version::V4 => kind::IPV4,
                Version::V6 => kind::IPV6,
            };
        }
        match headers.l4 {
            Some(L4::Tcp { sport, dport, .. }) if !self.udp => {
                if self.ports(&mut input, symmetric, sport, dport) {
                    kind |= kind::TCP;
                }
            }
            Some(L4::Udp { sport, dport }) if self.udp => {
                if self.ports(&mut input, symmetric, sport, dport) {
                    kind |= kind::UDP;
                }
            }
            Some(L4::Ipsec { spi }) if self.fields & select::IPSEC_SPI != 0 => {
                input.push(&spi.to_be_bytes());
                kind |= kind::IPSEC;
            }
            _ => {}
        }
        let (value, reversed) = match self.function {
            Function::None => return Hash::default(),
            Function::InvertedXor8 => {
                let xor = input.bytes().iter().fold(0u8, |xor, byte| xor ^ byte);
                (u32::from(xor.reverse_bits()), true)
            }
            Function::Toeplitz { key, .. } => (toeplitz(&key, input.bytes()), false),
        };
        Hash {
            value,
            kind,
            reversed,
        }
    }

    fn ports(&self, input: &mut Input, symmetric: bool, sport: u16, dport: u16) -> bool {
        let (sport, dport) = (sport.to_be_bytes(), dport.to_be_bytes());
        input.pair(
            symmetric,
            (self.fields & select::L4_SPORT != 0).then_some(&sport),
            (self.fields & select::L4_DPORT != 0).then_some(&dport),
        )
    }
}

/// The bytes to hash: two IPv6 addresses, two ports, an SPI.
struct Input {
    bytes: [u8; KEY_LEN],
    len: usize,
}

impl Input {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Adds source and destination of one layer; whether anything was added.
    fn pair(&mut self, symmetric: bool, src: Option<&[u8]>, dst: Option<&[u8]>) -> bool {
        match (src, dst) {
            (Some(src), Some(dst)) if symmetric => {
                for (a, b) in src.iter().zip(dst) {
                    self.push(&[a | b]);
                }
                for (a, b) in src.iter().zip(dst) {
                    self.push(&[a ^ b]);
                }
            }
            (None, None) => return false,
            (src, dst) => {
                self.push(src.unwrap_or_default());
                self.push(dst.unwrap_or_default());
            }
        }
        true
    }

    fn bytes(&self) -> &[u8] {
        // PANIC: `push` keeps `len` inside the array.
        &self.bytes[..self.len]
    }
}

/// The Toeplitz hash of at most 36 bytes of input.
pub fn toeplitz(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
    let mut hash = 0;
    // A window of 32 key bits moves one bit a step; the low half holds the bits that come next.
    let mut window = u64::from_be_bytes([
        key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7],
    ]);
    let mut next = 8;
    for byte in input {
        for bit in (0..8).rev() {
            if byte >> bit & 1 != 0 {
                // CAST: the upper half is the window.
                hash ^= (window >> 32) as u32;
            }
            window <<= 1;
        }
        // Eight bits went out at the top: refill where they left a gap at the bottom.
        window |= u64::from(key.get(next).copied().unwrap_or(0));
        next += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eth::frame::Ip;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// The key of "Verifying the RSS Hash Calculation" (Microsoft NDIS documentation).
    const KEY: [u8; KEY_LEN] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn v4(src: &str, sport: u16, dst: &str, dport: u16) -> Headers {
        let wide = |text: &str| {
            let v4: Ipv4Addr = text.parse().unwrap();
            let mut wide = [0; 16];
            wide[12..].copy_from_slice(&v4.octets());
            wide
        };
        headers(Version::V4, wide(src), sport, wide(dst), dport)
    }

    fn v6(src: &str, sport: u16, dst: &str, dport: u16) -> Headers {
        let wide = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        headers(Version::V6, wide(src), sport, wide(dst), dport)
    }

    fn headers(version: Version, src: [u8; 16], sport: u16, dst: [u8; 16], dport: u16) -> Headers {
        Headers {
            dmac: [0; 6],
            smac: [0; 6],
            tags: [None; 2],
            ethertype: 0,
            l3_at: 14,
            ip: Some(Ip {
                version,
                src,
                dst,
                protocol: 6,
                traffic_class: 0,
                ttl: 64,
                ihl: 5,
                flow_label: 0,
                fragment: false,
                header_len: 20,
                payload_at: 34,
                end: 54,
            }),
            l4: Some(L4::Tcp {
                sport,
                dport,
                flags: 0,
                header_len: 20,
            }),
        }
    }

    fn with(version: Version, fields: u32, symmetric: bool) -> Selector {
        Selector {
            function: Function::Toeplitz {
                key: KEY,
                symmetric,
            },
            version,
            udp: false,
            fields,
        }
    }

    #[test]
    fn ipv4_vectors_of_the_specification() {
        for (dst, dport, src, sport, addresses, tcp) in [
            (
                "161.142.100.80",
                1766,
                "66.9.149.187",
                2794,
                0x323e8fc2,
                0x51ccc178,
            ),
            (
                "65.69.140.83",
                4739,
                "199.92.111.2",
                14230,
                0xd718262a,
                0xc626b0ea,
            ),
            (
                "12.22.207.184",
                38024,
                "24.19.198.95",
                12898,
                0xd2d0a5de,
                0x5c2b394a,
            ),
            (
                "209.142.163.6",
                2217,
                "38.27.205.30",
                48228,
                0x82989176,
                0xafc7327f,
            ),
            (
                "202.188.127.2",
                1303,
                "153.39.163.191",
                44251,
                0x5d1809c5,
                0x10e828a2,
            ),
        ] {
            let frame = v4(src, sport, dst, dport);

            assert_eq!(with(Version::V4, 3, false).hash(&frame).value, addresses);
            assert_eq!(with(Version::V4, 0xf, false).hash(&frame).value, tcp);
        }
    }

    #[test]
    fn ipv6_vectors_of_the_specification() {
        for (dst, dport, src, sport, addresses, tcp) in [
            (
                "3ffe:2501:200:3::1",
                1766,
                "3ffe:2501:200:1fff::7",
                2794,
                0x2cc18cd5,
                0x40207d3d,
            ),
            (
                "ff02::1",
                4739,
                "3ffe:501:8::260:97ff:fe40:efab",
                14230,
                0x0f0c461c,
                0xdde51bbf,
            ),
            (
                "fe80::200:f8ff:fe21:67cf",
                38024,
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                0x4b61e985,
                0x02d1feef,
            ),
        ] {
            let frame = v6(src, sport, dst, dport);

            assert_eq!(with(Version::V6, 3, false).hash(&frame).value, addresses);
            assert_eq!(with(Version::V6, 0xf, false).hash(&frame).value, tcp);
        }
    }

    #[test]
    fn symmetric_hash_is_the_same_in_both_directions() {
        let there = v4("10.0.0.1", 1000, "10.0.0.2", 80);
        let back = v4("10.0.0.2", 80, "10.0.0.1", 1000);
        let plain = with(Version::V4, 0xf, false);
        let symmetric = with(Version::V4, 0xf, true);

        assert_eq!(symmetric.hash(&there), symmetric.hash(&back));
        assert_ne!(plain.hash(&there), plain.hash(&back));
    }

    #[test]
    fn types_in_the_completion_name_the_layers_hashed() {
        let frame = v4("10.0.0.1", 1000, "10.0.0.2", 80);

        assert_eq!(with(Version::V4, 0xf, false).hash(&frame).kind, 0x44);
        assert_eq!(with(Version::V4, 3, false).hash(&frame).kind, 0x04);
        assert_eq!(with(Version::V6, 3, false).hash(&frame).kind, 0);
    }

    #[test]
    fn inverted_xor_spreads_over_a_table_laid_out_by_inverted_index() {
        let xor = Selector {
            function: Function::InvertedXor8,
            version: Version::V4,
            udp: false,
            fields: 0xf,
        };
        for port in 0..256u16 {
            let hash = xor.hash(&v4("0.0.0.0", port, "0.0.0.0", 0));
            let plain = usize::from(port) & 0x7;

            // As the driver inverts three bits.
            let inverted = (plain & 1) << 2 | (plain & 2) | plain >> 2;
            assert_eq!(hash.entry(3), inverted);
            assert_eq!(hash.entry(0), 0);
            assert!(hash.entry(11) < 1 << 11);
        }
    }
}
