// SPDX-License-Identifier: GPL-2.0
//! Completions of Ethernet queues, parsed once at the edge.
//!
//! Layouts: `struct mlx5_cqe64`, `struct mlx5_err_cqe` in include/linux/mlx5/device.h. A CQE comes from
//! a device that may lie: numbers in it mean nothing until the owner of the ring has found them in what
//! it posted.

use mlx5_hw::{
    raw, wire,
    wire::{get, Member},
};

/// Bytes of a CQE.
const CQE_BYTES: usize = core::mem::size_of::<raw::mlx5_cqe64>();

/// Bits of `hds_ip_ext`: `CQE_L3_OK`, `CQE_L4_OK`.
const L3_OK: u32 = 1 << 1;
const L4_OK: u32 = 1 << 2;
/// Bit of `l4_l3_hdr_type`: a tag was taken out (`cqe_has_vlan`).
const HAS_TAG: u32 = 1;
/// Bits of `l4_l3_hdr_type` with the kind of IP header, 0 for none.
const L3_KIND: u32 = 3 << 2;
/// Bits of `rss_hash_type`: `CQE_RSS_HTYPE_IP`, `CQE_RSS_HTYPE_L4`.
const HASH_IP: u32 = 3 << 2;
const HASH_L4: u32 = 3 << 6;

/// Why an entry failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Syndrome of the interface.
    pub(crate) syndrome: u8,
    /// Vendor's own number.
    pub(crate) vendor: u8,
}

/// A completion of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The WQE that begins at this block, and all before it, are done.
    Done { index: u16 },
    /// It failed or was flushed.
    Failed { index: u16, failure: Failure },
    /// Not defined for a send queue.
    Malformed { opcode: u8 },
}

/// What a hash has taken into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hashed {
    /// Nothing.
    No,
    /// Addresses.
    Addresses,
    /// Addresses and ports.
    Ports,
}

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// WQE that took it.
    pub(crate) index: u16,
    /// Bytes.
    pub(crate) len: u32,
    /// Checksum over the IP datagram, if it is one.
    pub(crate) sum: Option<u16>,
    /// IP header and transport checksum are good.
    pub(crate) good: bool,
    /// Hash.
    pub(crate) hash: u32,
    /// What it is about.
    pub(crate) hashed: Hashed,
    /// Customer tag that was taken out.
    pub(crate) tag: Option<u16>,
}

/// A completion of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A frame is in a WQE.
    Frame(Arrived),
    /// A WQE failed or was flushed.
    Failed { index: u16, failure: Failure },
    /// Not defined for a receive queue.
    Malformed { opcode: u8 },
}

fn read<S>(bytes: &[u8; CQE_BYTES], member: Member<S>) -> u32 {
    // Both structures are as long as the array, so there always is a value.
    // CAST: no member read here is wider than 32 bits.
    get(bytes, member).unwrap_or(0) as u32
}

fn index(bytes: &[u8; CQE_BYTES]) -> u16 {
    // CAST: 16 bits wide.
    read(bytes, wire!(mlx5_cqe64, wqe_counter)) as u16
}

fn failure(bytes: &[u8; CQE_BYTES]) -> Failure {
    // CAST: one byte each.
    Failure {
        syndrome: read(bytes, wire!(mlx5_err_cqe, syndrome)) as u8,
        vendor: read(bytes, wire!(mlx5_err_cqe, vendor_err_synd)) as u8,
    }
}

fn opcode(bytes: &[u8; CQE_BYTES]) -> u32 {
    read(bytes, wire!(mlx5_cqe64, op_own)) >> 4
}

impl Sent {
    /// Parses an entry that software owns.
    pub(crate) fn parse(bytes: &[u8; CQE_BYTES]) -> Self {
        match opcode(bytes) {
            raw::MLX5_CQE_REQ => Self::Done {
                index: index(bytes),
            },
            raw::MLX5_CQE_REQ_ERR => Self::Failed {
                index: index(bytes),
                failure: failure(bytes),
            },
            // CAST: four bits.
            other => Self::Malformed {
                opcode: other as u8,
            },
        }
    }
}

impl Received {
    /// Parses an entry that software owns.
    pub(crate) fn parse(bytes: &[u8; CQE_BYTES]) -> Self {
        match opcode(bytes) {
            raw::MLX5_CQE_RESP_SEND => Self::Frame(Arrived::parse(bytes)),
            raw::MLX5_CQE_RESP_ERR => Self::Failed {
                index: index(bytes),
                failure: failure(bytes),
            },
            // CAST: four bits.
            other => Self::Malformed {
                opcode: other as u8,
            },
        }
    }
}

impl Arrived {
    fn parse(bytes: &[u8; CQE_BYTES]) -> Self {
        let verdict = read(bytes, wire!(mlx5_cqe64, hds_ip_ext));
        let kinds = read(bytes, wire!(mlx5_cqe64, l4_l3_hdr_type));
        let hash_kind = read(bytes, wire!(mlx5_cqe64, rss_hash_type));
        // CAST, twice: 16 bits wide.
        let sum = read(bytes, wire!(mlx5_cqe64, check_sum)) as u16;
        let tag = read(bytes, wire!(mlx5_cqe64, vlan_info)) as u16;
        Self {
            index: index(bytes),
            len: read(bytes, wire!(mlx5_cqe64, byte_cnt)),
            sum: (kinds & L3_KIND != 0).then_some(sum),
            good: verdict & (L3_OK | L4_OK) == L3_OK | L4_OK,
            hash: read(bytes, wire!(mlx5_cqe64, rss_hash_result)),
            hashed: if hash_kind & HASH_L4 != 0 {
                Hashed::Ports
            } else if hash_kind & HASH_IP != 0 {
                Hashed::Addresses
            } else {
                Hashed::No
            },
            tag: (kinds & HAS_TAG != 0).then_some(tag),
        }
    }
}
