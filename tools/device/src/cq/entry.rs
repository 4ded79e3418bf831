// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queue entries. Source: `struct mlx5_cqe64`, `struct mlx5_err_cqe`.

use crate::violation::Failure;
use mlx5_hw::{raw, wire, wire::put};

/// Bytes of an entry; wide rings use the second half of 128.
pub const CQE_LEN: usize = 64;

/// A completion without its owner bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe([u8; CQE_LEN]);

/// What every completion of a QP has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// `MLX5_CQE_*`.
    pub opcode: u8,
    /// Number of the queue.
    pub qpn: u32,
    /// User index of the queue, or of its SRQ.
    pub user_index: u32,
    /// Opcode of the send request; 0 for receives.
    pub wqe_opcode: u8,
    /// Index of the request.
    pub wqe_counter: u16,
    /// Bytes moved.
    pub byte_count: u32,
    /// Immediate data or invalidated key.
    pub imm: [u8; 4],
    /// Source QP number and header flags of a datagram.
    pub flags_rqpn: u32,
    /// Tag of a datagram that came with one.
    pub vlan: Option<u16>,
    /// The sender asked for an event.
    pub solicited: bool,
}

fn set<S>(bytes: &mut [u8], member: mlx5_hw::wire::Member<S>, value: u64) {
    let fits = put(bytes, member, value);
    debug_assert!(fits, "every value is as wide as its member or masked");
}

impl Cqe {
    /// An entry of raw bytes, for queues that fill more than [`Completion`] knows. The owner bit is
    /// set later.
    pub fn from_bytes(bytes: [u8; CQE_LEN]) -> Self {
        Self(bytes)
    }

    /// A good completion.
    pub fn good(c: Completion) -> Self {
        let mut raw = [0; CQE_LEN];
        let op = (u64::from(c.wqe_opcode)) << 24 | u64::from(c.qpn & 0xff_ffff);
        set(&mut raw, wire!(mlx5_cqe64, flags_rqpn), c.flags_rqpn.into());
        set(&mut raw, wire!(mlx5_cqe64, srqn), c.user_index.into());
        set(&mut raw, wire!(mlx5_cqe64, byte_cnt), c.byte_count.into());
        set(&mut raw, wire!(mlx5_cqe64, sop_drop_qpn), op);
        set(
            &mut raw,
            wire!(mlx5_cqe64, wqe_counter),
            c.wqe_counter.into(),
        );
        set(
            &mut raw,
            wire!(mlx5_cqe64, __bindgen_anon_2.immediate),
            u32::from_be_bytes(c.imm).into(),
        );
        if let Some(tci) = c.vlan {
            set(&mut raw, wire!(mlx5_cqe64, vlan_info), tci.into());
            set(&mut raw, wire!(mlx5_cqe64, l4_l3_hdr_type), 1);
        }
        Self::finish(raw, c)
    }

    /// A failed one.
    pub fn error(c: Completion, failure: impl Into<Failure>) -> Self {
        let failure = failure.into();
        let mut raw = [0; CQE_LEN];
        let op = (u64::from(c.wqe_opcode)) << 24 | u64::from(c.qpn & 0xff_ffff);
        set(&mut raw, wire!(mlx5_err_cqe, srqn), c.user_index.into());
        set(
            &mut raw,
            wire!(mlx5_err_cqe, syndrome),
            failure.syndrome.code().into(),
        );
        set(
            &mut raw,
            wire!(mlx5_err_cqe, vendor_err_synd),
            failure.vendor.into(),
        );
        set(&mut raw, wire!(mlx5_err_cqe, s_wqe_opcode_qpn), op);
        set(
            &mut raw,
            wire!(mlx5_err_cqe, wqe_counter),
            c.wqe_counter.into(),
        );
        Self::finish(raw, c)
    }

    /// Ends the old buffer of a resized queue.
    pub fn resize() -> Self {
        let mut raw = [0; CQE_LEN];
        // CAST: opcodes have four bits.
        raw[CQE_LEN - 1] = (raw::MLX5_CQE_RESIZE_CQ as u8) << 4;
        Self(raw)
    }

    fn finish(mut raw: [u8; CQE_LEN], c: Completion) -> Self {
        raw[CQE_LEN - 1] = c.opcode << 4 | u8::from(c.solicited) << 1;
        Self(raw)
    }

    /// With a time stamp in ticks of the free running clock. A failed completion has no room for one: the syndrome is in
    /// its place.
    pub(crate) fn stamped(mut self, ticks: u64) -> Self {
        if !self.is_error() {
            set(&mut self.0, wire!(mlx5_cqe64, timestamp_h), ticks >> 32);
            set(
                &mut self.0,
                wire!(mlx5_cqe64, timestamp_l),
                ticks & u64::from(u32::MAX),
            );
        }
        self
    }

    /// Whether it reports a failure.
    pub fn is_error(&self) -> bool {
        let error = [raw::MLX5_CQE_REQ_ERR, raw::MLX5_CQE_RESP_ERR].map(i64::from);
        error.contains(&self.opcode())
    }

    fn opcode(&self) -> i64 {
        i64::from(self.0[CQE_LEN - 1] >> 4)
    }

    /// Whether it satisfies a request for solicited completions: solicited, or an error.
    pub fn wakes_solicited(&self) -> bool {
        self.0[CQE_LEN - 1] & 2 != 0 || self.is_error()
    }

    /// With bits of the dword at byte `at` turned over; nothing is, behind the end.
    pub fn turned(mut self, at: usize, bits: u32) -> Self {
        let dword = self.0.iter_mut().skip(at);
        for (byte, bits) in dword.zip(bits.to_be_bytes()) {
            *byte ^= bits;
        }
        self
    }

    /// The bytes with owner bit `owner`.
    pub fn owned(mut self, owner: u8) -> [u8; CQE_LEN] {
        self.0[CQE_LEN - 1] = self.0[CQE_LEN - 1] & !1 | owner & 1;
        self.0
    }
}
