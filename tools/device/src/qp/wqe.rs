// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Send work requests, parsed.
//!
//! A request is 1 to 63 units of 16 bytes: a control segment, the segments its opcode names, then
//! data segments. Source: include/linux/mlx5/qp.h, drivers/infiniband/hw/mlx5/wr.c.

use super::segments::Segments;
use crate::violation::Violation;
use mlx5_hw::{raw, wire, wire::get};
use roce::Mac;

/// Longest request: the size field has six bits.
pub const MAX_WQE: usize = 63 * 16;
/// Basic block, the unit of send queues.
pub const WQEBB: usize = 64;

/// What to do.
#[allow(missing_docs, reason = "the names are those of the interface")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Nop,
    Send,
    SendImm,
    SendInv,
    Write {
        va: u64,
        rkey: u32,
    },
    WriteImm {
        va: u64,
        rkey: u32,
    },
    Read {
        va: u64,
        rkey: u32,
    },
    CompareSwap {
        va: u64,
        rkey: u32,
        swap: u64,
        compare: u64,
    },
    FetchAdd {
        va: u64,
        rkey: u32,
        add: u64,
    },
    /// Executed from the raw bytes: see [`crate::mkey`].
    Umr,
}

impl Op {
    /// Whether it takes a response resource of the remote side.
    pub const fn is_read_or_atomic(&self) -> bool {
        matches!(
            self,
            Self::Read { .. } | Self::CompareSwap { .. } | Self::FetchAdd { .. }
        )
    }

    /// Whether nothing goes over the wire.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Nop | Self::Umr)
    }
}

/// When a good completion is reported.
#[allow(missing_docs, reason = "the names are those of the interface")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Only errors.
    Error,
    /// Always.
    Always,
}

/// Address vector of a datagram. Source: `struct mlx5_av`.
#[allow(missing_docs, reason = "the names are those of the interface")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Av {
    pub qkey: u32,
    pub qpn: u32,
    pub prio: u8,
    pub sport: u16,
    pub mac: Mac,
    pub tclass: u8,
    pub hop_limit: u8,
    pub sgid_index: u8,
    pub flow_label: u32,
    pub rgid: [u8; 16],
}

/// The control segment.
#[allow(missing_docs, reason = "the names are those of the interface")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    pub opmod: u8,
    pub index: u16,
    pub opcode: u8,
    pub qpn: u32,
    /// Size in units of 16 bytes.
    pub ds: u8,
    pub fence: u8,
    pub report: Report,
    pub solicited: bool,
    /// Immediate data, key to invalidate, or key to change.
    pub imm: [u8; 4],
}

/// A send work request.
#[allow(missing_docs, reason = "the names are those of the interface")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wqe {
    pub control: Control,
    pub op: Op,
    pub av: Option<Av>,
    /// Shared receive queue that an XRC request is for.
    pub xrc_srqn: u32,
    pub data: Segments,
}

/// Why a request is malformed: completes with a local QP operation error.
#[allow(missing_docs, reason = "the names are those of the interface")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWqe {
    #[error("size of {0} units")]
    Size(u8),
    #[error("opcode {0:#x} is not known on this queue")]
    Opcode(u8),
    #[error("request ends inside its {0}")]
    Short(&'static str),
    #[error("inline data of {0} bytes")]
    InlineLength(u32),
    #[error("index {found}, in place {expected}")]
    Index { found: u16, expected: u16 },
    #[error("QP number {found:#x} in the request of {expected:#x}")]
    Qpn { found: u32, expected: u32 },
    #[error("completion code {0}")]
    Report(u8),
    #[error("atomic result of {0} bytes")]
    AtomicSize(u64),
    #[error("inline data in a request that receives data")]
    InlineResponse,
}

impl BadWqe {
    /// The same in the table of all violations.
    pub const fn violation(self) -> Violation {
        match self {
            Self::Size(_) => Violation::Size,
            Self::Opcode(_) => Violation::Opcode,
            Self::Short(_) => Violation::Short,
            Self::InlineLength(_) => Violation::InlineLength,
            Self::Index { .. } => Violation::Index,
            Self::Qpn { .. } => Violation::Number,
            Self::Report(_) => Violation::Report,
            Self::AtomicSize(_) => Violation::AtomicSize,
            Self::InlineResponse => Violation::InlineResponse,
        }
    }
}

/// What kind of queue the request stands in.
#[allow(missing_docs, reason = "the names are those of the interface")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    Rc,
    Xrc,
    Uc,
    Ud,
    Umr,
}

impl Control {
    /// Parses the first 16 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadWqe> {
        let short = BadWqe::Short("control segment");
        let word = |at: usize| -> Result<[u8; 4], BadWqe> {
            bytes
                .get(at..at + 4)
                .and_then(|word| word.try_into().ok())
                .ok_or(short)
        };
        let [opmod, i0, i1, opcode] = word(0)?;
        let [q0, q1, q2, ds] = word(4)?;
        let [_, _, _, flags] = word(8)?;
        let report = match flags >> 2 & 3 {
            0 => Report::Error,
            // 3 asks for an event as well: every CQE of an armed CQ raises one.
            2 | 3 => Report::Always,
            code => return Err(BadWqe::Report(code)),
        };
        Ok(Self {
            opmod,
            index: u16::from_be_bytes([i0, i1]),
            opcode,
            qpn: u32::from_be_bytes([0, q0, q1, q2]),
            ds: ds & 0x3f,
            fence: flags >> 5,
            report,
            solicited: flags & 2 != 0,
            imm: word(12)?,
        })
    }

    /// What can be said of a request whose control segment is malformed.
    pub fn broken(bytes: &[u8], index: u16) -> Self {
        Self {
            opmod: 0,
            index,
            opcode: bytes.get(3).copied().unwrap_or(0),
            qpn: 0,
            ds: bytes.get(7).copied().unwrap_or(0) & 0x3f,
            fence: 0,
            report: Report::Always,
            solicited: false,
            imm: [0; 4],
        }
    }

    /// The same at the index where it was found.
    #[must_use]
    pub fn at(self, index: u16) -> Self {
        Self { index, ..self }
    }

    /// Blocks of 64 bytes the request takes.
    pub fn blocks(&self) -> u16 {
        u16::from(self.ds).div_ceil(4)
    }
}

impl Wqe {
    /// A request of which only the control segment is known.
    pub fn empty(control: Control) -> Self {
        Self {
            control,
            op: Op::Nop,
            av: None,
            xrc_srqn: 0,
            data: Segments::default(),
        }
    }

    /// Parses a whole request: `bytes` are its `16 * ds` bytes.
    pub fn parse(control: Control, bytes: &[u8], queue: Queue) -> Result<Self, BadWqe> {
        let mut at = 16;
        let mut segment = |len: usize, name: &'static str| -> Result<&[u8], BadWqe> {
            let part = bytes.get(at..at + len).ok_or(BadWqe::Short(name))?;
            at += len;
            Ok(part)
        };
        let mut av = None;
        if queue == Queue::Ud && u32::from(control.opcode) != raw::MLX5_OPCODE_NOP {
            av = Some(Av::parse(segment(48, "address vector")?)?);
        }
        let mut xrc_srqn = 0;
        // Only what goes to the other side says to which SRQ.
        let local = [raw::MLX5_OPCODE_NOP, raw::MLX5_OPCODE_UMR];
        if queue == Queue::Xrc && !local.contains(&control.opcode.into()) {
            const NAME: &str = "XRC segment";
            let bytes = segment(16, NAME)?;
            let srqn = get(bytes, wire!(mlx5_wqe_xrc_seg, xrc_srqn)).ok_or(BadWqe::Short(NAME))?;
            // CAST: masked to 24 bits.
            xrc_srqn = srqn as u32 & 0xff_ffff;
        }
        let op = Self::operation(&control, queue, &mut segment)?;
        let data = match op {
            Op::Umr | Op::Nop => Segments::default(),
            _ => Segments::of_send(bytes.get(at..).unwrap_or(&[]))?,
        };
        match op {
            Op::CompareSwap { .. } | Op::FetchAdd { .. } if data.len() != 8 => {
                return Err(BadWqe::AtomicSize(data.len()));
            }
            _ if op.is_read_or_atomic() && data.has_inline() => {
                return Err(BadWqe::InlineResponse);
            }
            _ => {}
        }
        Ok(Self {
            control,
            op,
            av,
            xrc_srqn,
            data,
        })
    }

    fn operation<'a>(
        control: &Control,
        queue: Queue,
        segment: &mut dyn FnMut(usize, &'static str) -> Result<&'a [u8], BadWqe>,
    ) -> Result<Op, BadWqe> {
        const RADDR: &str = "remote address segment";
        const ATOMIC: &str = "atomic segment";
        let opcode = i64::from(control.opcode);
        let is = |code: i64| opcode == code;
        let rc = matches!(queue, Queue::Rc | Queue::Xrc);
        let connected = rc || queue == Queue::Uc;
        let sends = connected || queue == Queue::Ud;
        let mut remote = || -> Result<(u64, u32), BadWqe> {
            let bytes = segment(16, RADDR)?;
            let short = BadWqe::Short(RADDR);
            let va = get(bytes, wire!(mlx5_wqe_raddr_seg, raddr)).ok_or(short)?;
            let rkey = get(bytes, wire!(mlx5_wqe_raddr_seg, rkey)).ok_or(short)?;
            // CAST: four bytes.
            Ok((va, rkey as u32))
        };
        Ok(match () {
            () if is(raw::MLX5_OPCODE_NOP.into()) => Op::Nop,
            () if is(raw::MLX5_OPCODE_SEND.into()) && sends => Op::Send,
            () if is(raw::MLX5_OPCODE_SEND_IMM.into()) && sends => Op::SendImm,
            () if is(raw::MLX5_OPCODE_SEND_INVAL.into()) && rc => Op::SendInv,
            () if is(raw::MLX5_OPCODE_RDMA_WRITE.into()) && connected => {
                let (va, rkey) = remote()?;
                Op::Write { va, rkey }
            }
            () if is(raw::MLX5_OPCODE_RDMA_WRITE_IMM.into()) && connected => {
                let (va, rkey) = remote()?;
                Op::WriteImm { va, rkey }
            }
            () if is(raw::MLX5_OPCODE_RDMA_READ.into()) && rc => {
                let (va, rkey) = remote()?;
                Op::Read { va, rkey }
            }
            () if (is(raw::MLX5_OPCODE_ATOMIC_CS.into())
                || is(raw::MLX5_OPCODE_ATOMIC_FA.into()))
                && rc =>
            {
                let (va, rkey) = remote()?;
                let bytes = segment(16, ATOMIC)?;
                let short = BadWqe::Short(ATOMIC);
                let swap_add = get(bytes, wire!(mlx5_wqe_atomic_seg, swap_add)).ok_or(short)?;
                let compare = get(bytes, wire!(mlx5_wqe_atomic_seg, compare)).ok_or(short)?;
                if is(raw::MLX5_OPCODE_ATOMIC_CS.into()) {
                    Op::CompareSwap {
                        va,
                        rkey,
                        swap: swap_add,
                        compare,
                    }
                } else {
                    Op::FetchAdd {
                        va,
                        rkey,
                        add: swap_add,
                    }
                }
            }
            () if is(raw::MLX5_OPCODE_UMR.into()) && (connected || queue == Queue::Umr) => Op::Umr,
            () => return Err(BadWqe::Opcode(control.opcode)),
        })
    }
}

impl Av {
    fn parse(bytes: &[u8]) -> Result<Self, BadWqe> {
        const NAME: &str = "address vector";
        let short = BadWqe::Short(NAME);
        let value = |member| get::<raw::mlx5_av>(bytes, member).ok_or(short);
        let array = |at: usize, len: usize| bytes.get(at..at + len).ok_or(short);
        // Bit 30 says "with GRH" on InfiniBand. RoCE always has one, and the bit is reserved:
        // mlx5_ib sets it (ah.c, create_ib_ah), libmlx5 does not (verbs.c, mlx5_create_ah).
        let grh = value(wire!(mlx5_av, grh_gid_fl))?;
        let rmac = core::mem::offset_of!(raw::mlx5_av, rmac);
        let rgid = core::mem::offset_of!(raw::mlx5_av, rgid);
        // CAST: each member is as wide as the type it becomes, or masked to it.
        Ok(Self {
            qkey: value(wire!(mlx5_av, key.qkey.qkey))? as u32,
            qpn: value(wire!(mlx5_av, dqp_dct))? as u32 & 0xff_ffff,
            prio: value(wire!(mlx5_av, stat_rate_sl))? as u8 >> 1 & 7,
            sport: value(wire!(mlx5_av, __bindgen_anon_1.udp_sport))? as u16,
            mac: Mac(array(rmac, 6)?.try_into().map_err(|_| short)?),
            tclass: value(wire!(mlx5_av, tclass))? as u8,
            hop_limit: value(wire!(mlx5_av, hop_limit))? as u8,
            sgid_index: (grh >> 20) as u8,
            flow_label: grh as u32 & 0xf_ffff,
            rgid: array(rgid, 16)?.try_into().map_err(|_| short)?,
        })
    }
}
