// SPDX-License-Identifier: GPL-2.0
//! The Toeplitz hash that spreads packets over rings.

use kernel_ext::net::ethtool::{
    Flow,
    HashFields, //
};

use super::tir::{
    Hashed,
    Traffic, //
};

/// Bytes of the key.
pub(super) const KEY_LEN: usize = 40;

/// It. TIRs have it: another one needs new TIRs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash {
    /// Its key.
    pub(super) key: [u8; KEY_LEN],
    /// What it is made of, for each [`Flow`].
    fields: [HashFields; 4],
}

const fn place(flow: Flow) -> usize {
    match flow {
        Flow::TcpV4 => 0,
        Flow::TcpV6 => 1,
        Flow::UdpV4 => 2,
        Flow::UdpV6 => 3,
    }
}

impl Hash {
    /// One of all addresses and ports.
    pub(super) const fn new(key: [u8; KEY_LEN]) -> Self {
        Self {
            key,
            fields: [HashFields::ALL; 4],
        }
    }

    /// What it is made of for such packets.
    pub(super) fn fields(&self, flow: Flow) -> HashFields {
        self.fields
            .get(place(flow))
            .copied()
            .unwrap_or(HashFields::ALL)
    }

    /// Makes it of something else.
    pub(super) fn set_fields(&mut self, flow: Flow, fields: HashFields) {
        if let Some(slot) = self.fields.get_mut(place(flow)) {
            *slot = fields;
        }
    }

    /// What a TIR for such packets hashes. What has no ports has its addresses.
    pub(super) fn hashed(&self, traffic: Traffic) -> Hashed {
        Hashed {
            v6: traffic.ethertype() == Some(0x86dd),
            udp: traffic.protocol() == Some(17),
            fields: match traffic {
                Traffic::TcpV4 => self.fields(Flow::TcpV4),
                Traffic::TcpV6 => self.fields(Flow::TcpV6),
                Traffic::UdpV4 => self.fields(Flow::UdpV4),
                Traffic::UdpV6 => self.fields(Flow::UdpV6),
                Traffic::V4 | Traffic::V6 => HashFields {
                    source: true,
                    destination: true,
                    ..HashFields::NONE
                },
                Traffic::Other => HashFields::NONE,
            },
        }
    }
}
