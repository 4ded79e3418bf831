// SPDX-License-Identifier: GPL-2.0
//! Completion queue entries, parsed once at the edge.
//!
//! Layouts: `struct mlx5_cqe64` and `struct mlx5_err_cqe` in include/linux/mlx5/device.h. A CQE
//! comes from a device that may lie: everything that is not defined is [`Cqe::Malformed`], and a
//! number in it means nothing until the owner of the queue has found it in what it posted.

use mlx5_hw::{
    raw,
    status::Syndrome,
    wire,
    wire::{get, Member},
};

/// Bytes of a CQE.
pub(crate) const CQE_BYTES: usize = core::mem::size_of::<raw::mlx5_cqe64>();
/// `op_own` of an entry that the device has never written: opcode 15, owner 1.
/// Source: `init_cq_frag_buf` in ib/cq.c.
pub(crate) const OP_OWN_UNUSED: u8 = (raw::MLX5_CQE_INVALID as u8) << 4 | 1;
/// Offset of `op_own` in a CQE.
pub(crate) const OP_OWN: usize = wire!(mlx5_cqe64, op_own).offset();

/// How a receive was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm(u32),
    /// RDMA WRITE with immediate data.
    WriteImm(u32),
    /// SEND that made a key of this end invalid.
    SendInvalidate(u32),
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cqe {
    /// A send WQE, and every one before it, is done.
    Requester {
        qpn: u32,
        wqe_counter: u16,
        opcode: u8,
        byte_cnt: u32,
    },
    /// A receive WQE was used. `source_qpn` says who sent it, for datagrams.
    Responder {
        qpn: u32,
        wqe_counter: u16,
        byte_cnt: u32,
        kind: Received,
        source_qpn: u32,
    },
    /// A send WQE failed or was flushed.
    RequesterError {
        qpn: u32,
        wqe_counter: u16,
        opcode: u8,
        syndrome: CqeSyndrome,
    },
    /// A receive WQE failed or was flushed.
    ResponderError {
        qpn: u32,
        wqe_counter: u16,
        syndrome: CqeSyndrome,
    },
    /// The device goes on in the new buffer.
    Resize,
    /// Not defined by the interface.
    Malformed { opcode: u8, qpn: u32 },
}

/// Why a WQE failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CqeSyndrome {
    /// The number on the wire.
    pub(crate) code: u8,
    /// Vendor's own number.
    pub(crate) vendor: u8,
}

impl CqeSyndrome {
    /// The defined syndrome, if it is one.
    pub(crate) fn known(self) -> Option<Syndrome> {
        Syndrome::from_code(self.code)
    }

    /// Whether the WQE was only flushed because its QP is in ERROR.
    pub(crate) fn is_flush(self) -> bool {
        self.known() == Some(Syndrome::Flushed)
    }

    /// A few words for a log line.
    pub(crate) fn text(self) -> &'static str {
        self.known().map_or("unknown syndrome", Syndrome::text)
    }
}

/// Whether software owns an entry whose `op_own` byte is `op_own`, on a lap with owner bit `owner`.
pub(crate) const fn is_valid(op_own: u8, owner: u8) -> bool {
    op_own & 1 == owner && (op_own >> 4) as u32 != raw::MLX5_CQE_INVALID
}

/// How a received packet was wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    /// RoCE v1.
    Grh,
    /// RoCE v2 over IPv6.
    Ipv6,
    /// RoCE v2 over IPv4.
    Ipv4,
}

/// What a received packet had around its payload. Source: `handle_responder` in ib/cq.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// A GRH is before the payload of a datagram.
    pub(crate) grh: bool,
    pub(crate) wrapping: Wrapping,
    /// Tag: VLAN id and priority.
    pub(crate) vlan: Option<(u16, u8)>,
}

impl Envelope {
    /// Of the completion of a receive.
    pub(crate) fn parse(bytes: &[u8; CQE_BYTES]) -> Self {
        let flags = read(bytes, wire!(mlx5_cqe64, flags_rqpn));
        let tagged = read(bytes, wire!(mlx5_cqe64, l4_l3_hdr_type)) & 1 != 0;
        // CAST, below: parts of 16 bits.
        let tag = read(bytes, wire!(mlx5_cqe64, vlan_info)) as u16;
        Self {
            grh: flags >> 28 & 3 != 0,
            wrapping: match flags >> 24 & 3 {
                raw::MLX5_CQE_ROCE_L3_HEADER_TYPE_IPV4 => Wrapping::Ipv4,
                raw::MLX5_CQE_ROCE_L3_HEADER_TYPE_IPV6 => Wrapping::Ipv6,
                _ => Wrapping::Grh,
            },
            vlan: tagged.then_some((tag & 0xfff, (tag >> 13) as u8)),
        }
    }
}

impl Cqe {
    /// Parses an entry that [`is_valid`].
    pub(crate) fn parse(bytes: &[u8; CQE_BYTES]) -> Self {
        let opcode = read(bytes, wire!(mlx5_cqe64, op_own)) >> 4;
        let sop = read(bytes, wire!(mlx5_cqe64, sop_drop_qpn));
        let qpn = sop & 0xff_ffff;
        // CAST: the members are 8 and 16 bits wide.
        let wqe_opcode = (sop >> 24) as u8;
        let wqe_counter = read(bytes, wire!(mlx5_cqe64, wqe_counter)) as u16;
        let byte_cnt = read(bytes, wire!(mlx5_cqe64, byte_cnt));
        let imm = read(bytes, wire!(mlx5_cqe64, __bindgen_anon_2.immediate));
        let source_qpn = read(bytes, wire!(mlx5_cqe64, flags_rqpn)) & 0xff_ffff;
        let received = |kind| Self::Responder {
            qpn,
            wqe_counter,
            byte_cnt,
            kind,
            source_qpn,
        };
        match opcode {
            raw::MLX5_CQE_REQ => Self::Requester {
                qpn,
                wqe_counter,
                opcode: wqe_opcode,
                byte_cnt,
            },
            raw::MLX5_CQE_RESP_SEND => received(Received::Send),
            raw::MLX5_CQE_RESP_SEND_IMM => received(Received::SendImm(imm)),
            raw::MLX5_CQE_RESP_WR_IMM => received(Received::WriteImm(imm)),
            // The key is where immediate data would be.
            raw::MLX5_CQE_RESP_SEND_INV => received(Received::SendInvalidate(imm)),
            raw::MLX5_CQE_REQ_ERR => Self::RequesterError {
                qpn,
                wqe_counter,
                opcode: wqe_opcode,
                syndrome: syndrome(bytes),
            },
            raw::MLX5_CQE_RESP_ERR => Self::ResponderError {
                qpn,
                wqe_counter,
                syndrome: syndrome(bytes),
            },
            raw::MLX5_CQE_RESIZE_CQ => Self::Resize,
            // CAST: four bits.
            other => Self::Malformed {
                opcode: other as u8,
                qpn,
            },
        }
    }
}

fn syndrome(bytes: &[u8; CQE_BYTES]) -> CqeSyndrome {
    // CAST: one byte each.
    CqeSyndrome {
        code: read(bytes, wire!(mlx5_err_cqe, syndrome)) as u8,
        vendor: read(bytes, wire!(mlx5_err_cqe, vendor_err_synd)) as u8,
    }
}

fn read<S>(bytes: &[u8; CQE_BYTES], member: Member<S>) -> u32 {
    // Both structures are as long as the array, so there always is a value.
    // CAST: no member read here is wider than 32 bits.
    get(bytes, member).unwrap_or(0) as u32
}
