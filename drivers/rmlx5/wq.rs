// SPDX-License-Identifier: GPL-2.0
//! Work queue entries of an RC QP, and the account of what is posted.
//!
//! | term | meaning |
//! |---|---|
//! | WQE | work queue entry: one request of the driver |
//! | DS | 16-byte unit in which the control segment states the size of a WQE |
//! | WQEBB | 64-byte block, the unit in which a send queue counts |
//! | SGE | scatter entry: length, key and DMA address of one piece of memory |
//!
//! Every send WQE built here fits one WQEBB, so block index and WQE index are the same number and
//! no WQE wraps around the end of the queue; [`crate::qp::datagram`] has those of two. Layouts: `struct mlx5_wqe_*_seg` in
//! include/linux/mlx5/qp.h.

use mlx5_hw::{
    raw,
    ring::{Counter, Ring},
    wire,
    wire::{put, Member},
};

/// Bytes of a send WQE (one WQEBB).
pub(crate) const SEND_WQE_BYTES: usize = raw::MLX5_SEND_WQE_BB as usize;
/// Bytes of a receive WQE with one scatter entry.
pub(crate) const RECV_WQE_BYTES: usize = DS;

/// Bytes of a DS.
pub(crate) const DS: usize = raw::MLX5_SEND_WQE_DS as usize;
const RADDR: usize = DS;

/// One piece of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sge {
    /// DMA address (or address inside the MR).
    pub(crate) addr: u64,
    /// Local key.
    pub(crate) lkey: u32,
    /// Length in bytes, 1 to 2^31 - 1.
    pub(crate) len: u32,
}

/// One piece of the other side's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Address inside the remote MR.
    pub(crate) addr: u64,
    /// Remote key.
    pub(crate) rkey: u32,
}

/// What a send WQE asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// RDMA WRITE of `local` to `remote`.
    Write { remote: Remote, local: Sge },
    /// RDMA READ of `remote` into `local`.
    Read { remote: Remote, local: Sge },
    /// SEND of `local`.
    Send { local: Sge },
    /// SEND of `local` with 32 bits that arrive in the completion.
    SendImm { local: Sge, imm: u32 },
    /// Adds to 8 bytes at `remote`; the old value lands in `local`.
    FetchAdd {
        remote: Remote,
        add: u64,
        local: Sge,
    },
}

/// Whether the device reports the completion of a WQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A CQE is written.
    Completion,
    /// Nothing is written unless the WQE fails; a later CQE covers it.
    #[cfg_attr(MODULE, expect(dead_code, reason = "channels count every completion"))]
    Silent,
}

impl Request {
    /// Opcode of the control segment.
    pub(crate) const fn opcode(&self) -> u8 {
        // CAST: `MLX5_OPCODE_*` are below 256.
        (match self {
            Self::Write { .. } => raw::MLX5_OPCODE_RDMA_WRITE,
            Self::Read { .. } => raw::MLX5_OPCODE_RDMA_READ,
            Self::Send { .. } => raw::MLX5_OPCODE_SEND,
            Self::SendImm { .. } => raw::MLX5_OPCODE_SEND_IMM,
            Self::FetchAdd { .. } => raw::MLX5_OPCODE_ATOMIC_FA,
        }) as u8
    }

    /// The local scatter entry.
    #[cfg_attr(MODULE, expect(dead_code, reason = "for the device that tests use"))]
    pub(crate) const fn local(&self) -> &Sge {
        match self {
            Self::Write { local, .. }
            | Self::Read { local, .. }
            | Self::Send { local }
            | Self::SendImm { local, .. }
            | Self::FetchAdd { local, .. } => local,
        }
    }

    /// Builds the WQE for block `index` of the send queue of `qpn`.
    ///
    /// `None` when a value does not fit: a QPN above 24 bits, or a length that the data segment
    /// cannot say (0 means 2^31 bytes there, bit 31 means inline data).
    pub(crate) fn encode(
        &self,
        index: u16,
        qpn: u32,
        signal: Signal,
    ) -> Option<[u8; SEND_WQE_BYTES]> {
        if qpn > 0xff_ffff {
            return None;
        }
        let mut wqe = [0u8; SEND_WQE_BYTES];
        let (used, imm) = match *self {
            Self::Send { local } => (data_segment(&mut wqe, DS, &local)?, 0),
            Self::SendImm { local, imm } => (data_segment(&mut wqe, DS, &local)?, imm),
            Self::Write { remote, local } | Self::Read { remote, local } => {
                remote_segment(&mut wqe, &remote)?;
                (data_segment(&mut wqe, RADDR + DS, &local)?, 0)
            }
            Self::FetchAdd { remote, add, local } => {
                if local.len != 8 {
                    return None;
                }
                remote_segment(&mut wqe, &remote)?;
                let atomic = wqe.get_mut(RADDR + DS..)?;
                set(atomic, wire!(mlx5_wqe_atomic_seg, swap_add), add)?;
                (data_segment(&mut wqe, RADDR + 2 * DS, &local)?, 0)
            }
        };
        control_segment(&mut wqe, self.opcode(), index, qpn, used, signal)?;
        set(
            &mut wqe,
            wire!(
                mlx5_wqe_ctrl_seg,
                __bindgen_anon_1.trailer.__bindgen_anon_1.imm
            ),
            imm.into(),
        )?;
        Some(wqe)
    }
}

/// Builds a receive WQE with one scatter entry, for a receive queue of that stride.
pub(crate) fn encode_recv(sge: &Sge) -> Option<[u8; RECV_WQE_BYTES]> {
    let mut wqe = [0u8; RECV_WQE_BYTES];
    data_segment(&mut wqe, 0, sge)?;
    Some(wqe)
}

/// Writes the control segment of a WQE of `used` bytes, without immediate data.
pub(crate) fn control_segment(
    wqe: &mut [u8],
    opcode: u8,
    index: u16,
    qpn: u32,
    used: usize,
    signal: Signal,
) -> Option<()> {
    let head = u64::from(index) << raw::MLX5_WQE_CTRL_WQE_INDEX_SHIFT | u64::from(opcode);
    set(wqe, wire!(mlx5_wqe_ctrl_seg, opmod_idx_opcode), head)?;
    let qpn_ds = u64::from(qpn) << raw::MLX5_WQE_CTRL_QPN_SHIFT | (used / DS) as u64;
    set(wqe, wire!(mlx5_wqe_ctrl_seg, qpn_ds), qpn_ds)?;
    if signal == Signal::Completion {
        set(
            wqe,
            wire!(mlx5_wqe_ctrl_seg, __bindgen_anon_1.trailer.fm_ce_se),
            u64::from(raw::MLX5_WQE_CTRL_CQ_UPDATE),
        )?;
    }
    Some(())
}

fn set<S>(bytes: &mut [u8], member: Member<S>, value: u64) -> Option<()> {
    put(bytes, member, value).then_some(())
}

fn remote_segment(wqe: &mut [u8], remote: &Remote) -> Option<()> {
    let segment = wqe.get_mut(RADDR..)?;
    set(segment, wire!(mlx5_wqe_raddr_seg, raddr), remote.addr)?;
    set(segment, wire!(mlx5_wqe_raddr_seg, rkey), remote.rkey.into())
}

/// Writes a data segment and says where it ends.
pub(crate) fn data_segment(wqe: &mut [u8], at: usize, sge: &Sge) -> Option<usize> {
    if sge.len == 0 || sge.len >> 31 != 0 {
        return None;
    }
    let segment = wqe.get_mut(at..)?;
    set(
        segment,
        wire!(mlx5_wqe_data_seg, byte_count),
        sge.len.into(),
    )?;
    set(segment, wire!(mlx5_wqe_data_seg, lkey), sge.lkey.into())?;
    set(segment, wire!(mlx5_wqe_data_seg, addr), sge.addr)?;
    Some(at + DS)
}

/// Account of one work queue: what the driver posted and what the device finished.
///
/// Both counters run free; the device sees the low 16 bits of the producer in the doorbell record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    ring: Ring,
    head: Counter,
    tail: Counter,
}

impl Window {
    /// An empty queue. At most 2^15 entries, so that a 16-bit counter says which WQE is meant.
    pub(crate) fn new(ring: Ring) -> Option<Self> {
        (ring.log() <= 15).then_some(Self {
            ring,
            head: Counter::new(0),
            tail: Counter::new(0),
        })
    }

    /// Entries that are posted and not finished.
    pub(crate) fn used(&self) -> u32 {
        self.head.since(self.tail)
    }

    /// Entries that can still be posted.
    pub(crate) fn free(&self) -> u32 {
        self.ring.entries().saturating_sub(self.used())
    }

    /// Whether nothing is posted.
    #[cfg_attr(MODULE, expect(dead_code, reason = "tests ask"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.used() == 0
    }

    /// Producer counter: what the doorbell record must say.
    pub(crate) fn head(&self) -> Counter {
        self.head
    }

    /// Oldest unfinished entry.
    pub(crate) fn tail(&self) -> Counter {
        self.tail
    }

    /// Ring slot of a counter.
    pub(crate) fn slot(&self, counter: Counter) -> usize {
        self.ring.slot(counter) as usize
    }

    /// Takes the next entry; `None` when the queue is full.
    pub(crate) fn post(&mut self) -> Option<Counter> {
        self.post_blocks(1)
    }

    /// Takes the next entries, `count` of them, and gives the first; `None` when there are fewer.
    pub(crate) fn post_blocks(&mut self, count: u32) -> Option<Counter> {
        if self.free() < count {
            return None;
        }
        let at = self.head;
        self.head = at.plus(count);
        Some(at)
    }

    /// The counter that the device means by the 16 bits `wqe_counter`; `None` when no posted,
    /// unfinished entry has that number.
    pub(crate) fn locate(&self, wqe_counter: u16) -> Option<Counter> {
        let ahead = u32::from(wqe_counter.wrapping_sub(self.tail.low16()));
        (ahead < self.used()).then(|| self.tail.plus(ahead))
    }

    /// Finishes every entry up to and including `upto`, which [`Window::locate`] returned, and
    /// says how many those are.
    pub(crate) fn complete(&mut self, upto: Counter) -> u32 {
        let done = upto.plus(1).since(self.tail).min(self.used());
        self.tail = self.tail.plus(done);
        done
    }

    /// Forgets everything, as the device does at 2RST.
    pub(crate) fn reset(&mut self) {
        self.head = Counter::new(0);
        self.tail = Counter::new(0);
    }
}
