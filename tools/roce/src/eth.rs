// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet header with an optional 802.1Q tag.

use crate::{
    read::Reader, //
    ParseError,
};
use std::fmt;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address in the low 48 bits of `value`.
    pub const fn from_u64(value: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// Whether it addresses a group (broadcast included).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// An 802.1Q tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible.
    pub dei: bool,
    /// VLAN id, 12 bits.
    pub id: u16,
}

impl Vlan {
    /// The tag control information.
    pub const fn tci(self) -> u16 {
        (self.pcp as u16 & 7) << 13 | (self.dei as u16) << 12 | self.id & 0xfff
    }

    /// The tag of a tag control information word.
    pub const fn from_tci(tci: u16) -> Self {
        Self {
            // CAST: three bits.
            pcp: (tci >> 13) as u8,
            dei: tci & 0x1000 != 0,
            id: tci & 0xfff,
        }
    }
}

/// Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination.
    pub dst: Mac,
    /// Source.
    pub src: Mac,
    /// 802.1Q tag.
    pub vlan: Option<Vlan>,
}

const TPID: u16 = 0x8100;

impl Ethernet {
    /// The header and the EtherType behind it.
    pub(crate) fn parse(input: &mut Reader<'_>) -> Result<(Self, u16), ParseError> {
        let short = ParseError::Short("Ethernet");
        let dst = Mac(input.take().ok_or(short)?);
        let src = Mac(input.take().ok_or(short)?);
        let mut kind = input.u16().ok_or(short)?;
        let mut vlan = None;
        if kind == TPID {
            vlan = Some(Vlan::from_tci(input.u16().ok_or(short)?));
            kind = input.u16().ok_or(short)?;
        }
        Ok((Self { dst, src, vlan }, kind))
    }

    pub(crate) fn emit(&self, kind: u16, mut put: impl FnMut(&[u8])) {
        put(&self.dst.0);
        put(&self.src.0);
        if let Some(vlan) = self.vlan {
            put(&TPID.to_be_bytes());
            put(&vlan.tci().to_be_bytes());
        }
        put(&kind.to_be_bytes());
    }
}
