// SPDX-License-Identifier: GPL-2.0
//! How fast an Ethernet port runs, in the terms of InfiniBand: lanes, and the speed of one.
//!
//! PTYS says it as one bit of a set of Ethernet protocols; newer cards have a second, extended set.
//! Source: `enum mlx5e_link_mode` and `enum mlx5e_ext_link_mode` in include/linux/mlx5/port.h, and
//! `translate_eth_proto_oper` in ib/main.c.

/// Speed of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// 2.5 Gb/s and below.
    Sdr,
    /// 5 Gb/s.
    Ddr,
    /// 10 Gb/s.
    Qdr,
    /// 14 Gb/s.
    Fdr,
    /// 25 Gb/s.
    Edr,
    /// 50 Gb/s.
    Hdr,
    /// 100 Gb/s.
    Ndr,
    /// 200 Gb/s.
    Xdr,
}

/// Lanes and their speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speed {
    /// 1, 2, 4 or 8.
    pub(crate) lanes: u8,
    pub(crate) lane: Lane,
}

const fn speed(lanes: u8, lane: Lane) -> Option<Speed> {
    Some(Speed { lanes, lane })
}

impl Speed {
    /// What the C driver reports of a port without a protocol, or with one it does not know.
    pub(crate) const UNKNOWN: Self = Self {
        lanes: 4,
        lane: Lane::Qdr,
    };

    /// Mb/s; `None` for the slowest, which are several.
    pub(crate) const fn megabits(self) -> Option<u32> {
        let lane = match self.lane {
            Lane::Sdr => return None,
            Lane::Ddr => 5_000,
            Lane::Qdr => 10_000,
            Lane::Fdr => 14_000,
            Lane::Edr => 25_000,
            Lane::Hdr => 50_000,
            Lane::Ndr => 100_000,
            Lane::Xdr => 200_000,
        };
        // CAST: at most 8.
        Some(lane * self.lanes as u32)
    }

    /// The one protocol in force, from the first set. `None` for none, several or an unknown one.
    pub(crate) fn of_legacy(protocols: u32) -> Option<Self> {
        match single(protocols)? {
            0 | 1 | 24 | 25 => speed(1, Lane::Sdr),
            2..=4 | 12..=14 | 26 => speed(1, Lane::Qdr),
            6 | 7 | 15 | 16 => speed(4, Lane::Qdr),
            8 => speed(4, Lane::Fdr),
            18 | 30 | 31 => speed(1, Lane::Hdr),
            20..=23 => speed(4, Lane::Edr),
            27..=29 => speed(1, Lane::Edr),
            _ => None,
        }
    }

    /// The same from the extended set.
    pub(crate) fn of_extended(protocols: u32) -> Option<Self> {
        match single(protocols)? {
            0 | 1 => speed(1, Lane::Sdr),
            3 => speed(1, Lane::Ddr),
            4 => speed(1, Lane::Qdr),
            5 => speed(4, Lane::Qdr),
            6 => speed(1, Lane::Edr),
            7 => speed(2, Lane::Edr),
            8 => speed(1, Lane::Hdr),
            9 => speed(4, Lane::Edr),
            10 => speed(2, Lane::Hdr),
            11 => speed(1, Lane::Ndr),
            12 => speed(4, Lane::Hdr),
            13 => speed(2, Lane::Ndr),
            14 => speed(1, Lane::Xdr),
            15 => speed(8, Lane::Hdr),
            16 => speed(4, Lane::Ndr),
            17 => speed(2, Lane::Xdr),
            19 => speed(8, Lane::Ndr),
            20 => speed(4, Lane::Xdr),
            23 => speed(8, Lane::Xdr),
            _ => None,
        }
    }
}

/// The number of the only bit that is set.
fn single(bits: u32) -> Option<u32> {
    bits.is_power_of_two().then(|| bits.trailing_zeros())
}
