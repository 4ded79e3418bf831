// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions of SQs and RQs. Layout: `struct mlx5_cqe64` in include/linux/mlx5/device.h; which
//! members mlx5e reads: `mlx5e_build_rx_skb` in core/en_rx.c.

use mlx5_hw::{raw, status::Syndrome, wire, wire::put};

use super::{
    frame::{Headers, Version, L4},
    offload::Verdict,
    rss::Hash,
};
use crate::{
    cq::{Completion, Cqe, CQE_LEN},
    hca::Hca,
    violation::Failure,
};

/// Bits of `hds_ip_ext`: `CQE_L2_OK`, `CQE_L3_OK`, `CQE_L4_OK`.
const L2_OK: u64 = 1 << 0;
const L3_OK: u64 = 1 << 1;
const L4_OK: u64 = 1 << 2;

/// Bits of `l4_l3_hdr_type`.
mod kind {
    /// The VLAN tag was taken out.
    pub(super) const VLAN: u64 = 1 << 0;
    pub(super) const IPV6: u64 = 1 << 2;
    pub(super) const IPV4: u64 = 2 << 2;
    /// `CQE_L4_HDR_TYPE_*` in bits 6:4.
    pub(super) const TCP_NO_ACK: u64 = 1 << 4;
    pub(super) const UDP: u64 = 2 << 4;
    pub(super) const TCP_ACK_NO_DATA: u64 = 3 << 4;
    pub(super) const TCP_ACK_AND_DATA: u64 = 4 << 4;
}

/// TCP flag ACK.
const ACK: u16 = 0x10;

/// A send WQE.
pub(super) struct Send {
    pub(super) sqn: u32,
    pub(super) user_index: u32,
    pub(super) opcode: u8,
    pub(super) index: u16,
    pub(super) solicited: bool,
}

impl Send {
    // CAST: opcodes of CQEs have four bits.
    fn completion(&self, opcode: u32) -> Completion {
        Completion {
            opcode: opcode as u8,
            qpn: self.sqn,
            user_index: self.user_index,
            wqe_opcode: self.opcode,
            wqe_counter: self.index,
            byte_count: 0,
            imm: [0; 4],
            flags_rqpn: 0,
            solicited: self.solicited,
            vlan: None,
        }
    }
}

/// A send WQE is done; false when the CQ cannot take the CQE.
pub(super) fn send_done(hca: &mut Hca, cqn: u32, report: &Send) -> bool {
    let cqe = Cqe::good(report.completion(raw::MLX5_CQE_REQ));
    hca.complete(cqn, cqe)
}

/// A send WQE failed.
pub(super) fn send_error(
    hca: &mut Hca,
    cqn: u32,
    report: &Send,
    failure: impl Into<Failure>,
) -> bool {
    let cqe = Cqe::error(report.completion(raw::MLX5_CQE_REQ_ERR), failure);
    hca.complete(cqn, cqe)
}

/// A receive WQE.
pub(super) struct Receive<'a> {
    pub(super) rqn: u32,
    pub(super) user_index: u32,
    pub(super) index: u16,
    pub(super) byte_count: u32,
    pub(super) tag: u32,
    pub(super) hash: Hash,
    pub(super) verdict: Verdict,
    pub(super) headers: &'a Headers,
    pub(super) stripped: Option<u16>,
}

impl Receive<'_> {
    fn header_types(&self) -> u64 {
        let l3 = match self.headers.ip.map(|ip| ip.version) {
            Some(Version::V4) => kind::IPV4,
            Some(Version::V6) => kind::IPV6,
            None => 0,
        };
        let l4 = match (self.headers.l4, self.headers.ip) {
            (
                Some(L4::Tcp {
                    flags, header_len, ..
                }),
                Some(ip),
            ) => {
                if flags & ACK == 0 {
                    kind::TCP_NO_ACK
                } else if ip.payload_at + header_len < ip.end {
                    kind::TCP_ACK_AND_DATA
                } else {
                    kind::TCP_ACK_NO_DATA
                }
            }
            (Some(L4::Udp { .. }), _) => kind::UDP,
            _ => 0,
        };
        let vlan = if self.stripped.is_some() {
            kind::VLAN
        } else {
            0
        };
        l3 | l4 | vlan
    }

    fn good(&self) -> Cqe {
        let mut bytes = [0; CQE_LEN];
        let mut set = |member, value| {
            let fits = put(&mut bytes, member, value);
            debug_assert!(fits, "every value is as wide as its member");
        };
        set(wire!(mlx5_cqe64, rss_hash_result), self.hash.value.into());
        set(wire!(mlx5_cqe64, rss_hash_type), self.hash.kind.into());
        set(wire!(mlx5_cqe64, check_sum), self.verdict.sum.into());
        let mut ok = L2_OK;
        if self.verdict.l3_ok {
            ok |= L3_OK;
        }
        if self.verdict.l4_ok {
            ok |= L4_OK;
        }
        set(wire!(mlx5_cqe64, hds_ip_ext), ok);
        set(wire!(mlx5_cqe64, l4_l3_hdr_type), self.header_types());
        set(
            wire!(mlx5_cqe64, vlan_info),
            self.stripped.unwrap_or(0).into(),
        );
        set(wire!(mlx5_cqe64, srqn), self.user_index.into());
        set(wire!(mlx5_cqe64, byte_cnt), self.byte_count.into());
        // A receive queue behind steering shows the flow tag here, not its number.
        set(
            wire!(mlx5_cqe64, sop_drop_qpn),
            u64::from(self.tag & 0xff_ffff),
        );
        set(wire!(mlx5_cqe64, wqe_counter), self.index.into());
        // CAST: opcodes of CQEs have four bits.
        bytes[CQE_LEN - 1] = (raw::MLX5_CQE_RESP_SEND as u8) << 4;
        Cqe::from_bytes(bytes)
    }
}

fn failed(rqn: u32, user_index: u32, index: u16, failure: impl Into<Failure>) -> Cqe {
    let completion = Completion {
        // CAST: opcodes of CQEs have four bits.
        opcode: raw::MLX5_CQE_RESP_ERR as u8,
        qpn: rqn,
        user_index,
        wqe_opcode: 0,
        wqe_counter: index,
        byte_count: 0,
        imm: [0; 4],
        flags_rqpn: 0,
        vlan: None,
        solicited: false,
    };
    Cqe::error(completion, failure)
}

/// A frame is in its WQE; false when the CQ cannot take the CQE.
pub(super) fn receive_done(hca: &mut Hca, cqn: u32, report: &Receive<'_>) -> bool {
    hca.complete(cqn, report.good())
}

/// A receive WQE could not take its frame.
pub(super) fn receive_error(hca: &mut Hca, cqn: u32, report: &Receive<'_>, failure: Failure) {
    let cqe = failed(report.rqn, report.user_index, report.index, failure);
    hca.complete(cqn, cqe);
}

/// A receive WQE is flushed; false when the CQ cannot take the CQE.
pub(super) fn receive_flushed(
    hca: &mut Hca,
    cqn: u32,
    rqn: u32,
    user_index: u32,
    index: u16,
) -> bool {
    let cqe = failed(rqn, user_index, index, Syndrome::Flushed);
    hca.complete(cqn, cqe)
}
