// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extension headers behind the BTH.

use crate::{
    opcode::Layout, //
    read::Reader,
    ParseError,
};

/// RDMA header: where a WRITE goes or a READ comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Remote virtual address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub len: u32,
}

/// Atomic request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Remote virtual address, 8-byte aligned.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Value to swap in, or to add.
    pub swap_or_add: u64,
    /// Value to compare with; unused by fetch and add.
    pub compare: u64,
}

/// Reason of a NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nak {
    /// A PSN is missing.
    Sequence,
    /// The request is malformed or not possible on this QP.
    InvalidRequest,
    /// Key, range or rights do not fit.
    RemoteAccess,
    /// The responder cannot complete the request.
    RemoteOperation,
}

/// Meaning of the AETH syndrome byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Acknowledged; five bits of end-to-end credits, 31 = not limited.
    Ack(u8),
    /// Receiver not ready; five bits of timer code.
    Rnr(u8),
    /// Refused.
    Nak(Nak),
    /// A code the specification reserves.
    Reserved(u8),
}

impl Syndrome {
    /// Acknowledgement without credit limit.
    pub const ACK: Self = Self::Ack(31);

    fn from_code(code: u8) -> Self {
        match (code & 0xe0, code & 0x1f) {
            (0x00, credits) => Self::Ack(credits),
            (0x20, timer) => Self::Rnr(timer),
            (0x60, 0) => Self::Nak(Nak::Sequence),
            (0x60, 1) => Self::Nak(Nak::InvalidRequest),
            (0x60, 2) => Self::Nak(Nak::RemoteAccess),
            (0x60, 3) => Self::Nak(Nak::RemoteOperation),
            _ => Self::Reserved(code),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Ack(credits) => credits & 0x1f,
            Self::Rnr(timer) => 0x20 | timer & 0x1f,
            Self::Nak(Nak::Sequence) => 0x60,
            Self::Nak(Nak::InvalidRequest) => 0x61,
            Self::Nak(Nak::RemoteAccess) => 0x62,
            Self::Nak(Nak::RemoteOperation) => 0x63,
            Self::Reserved(code) => code,
        }
    }
}

/// Acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Verdict.
    pub syndrome: Syndrome,
    /// Messages completed by the responder, 24 bits.
    pub msn: u32,
}

/// Datagram header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Source QP number, 24 bits.
    pub src_qp: u32,
}

/// The extension headers of one packet: present are exactly those its opcode names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ext {
    /// XRC header: number of the shared receive queue, 24 bits.
    pub xrc: Option<u32>,
    /// Datagram header.
    pub deth: Option<Deth>,
    /// RDMA header.
    pub reth: Option<Reth>,
    /// Atomic request.
    pub atomic: Option<AtomicEth>,
    /// Acknowledgement.
    pub aeth: Option<Aeth>,
    /// Value that an atomic operation replaced.
    pub atomic_ack: Option<u64>,
    /// Immediate data: four bytes, given on as they are.
    pub imm: Option<[u8; 4]>,
    /// Remote key to invalidate.
    pub invalidate: Option<u32>,
}

impl Ext {
    pub(crate) fn parse(layout: Layout, input: &mut Reader<'_>) -> Result<Self, ParseError> {
        fn want<T>(
            present: bool,
            name: &'static str,
            take: impl FnOnce() -> Option<T>,
        ) -> Result<Option<T>, ParseError> {
            if !present {
                return Ok(None);
            }
            take().map(Some).ok_or(ParseError::Short(name))
        }
        let xrc = want(layout.xrc, "XRCETH", || Some(input.u32()? & 0xff_ffff))?;
        let deth = want(layout.deth, "DETH", || {
            Some(Deth {
                qkey: input.u32()?,
                src_qp: input.u32()? & 0xff_ffff,
            })
        })?;
        let reth = want(layout.reth, "RETH", || {
            Some(Reth {
                va: input.u64()?,
                rkey: input.u32()?,
                len: input.u32()?,
            })
        })?;
        let atomic = want(layout.atomic, "AtomicETH", || {
            Some(AtomicEth {
                va: input.u64()?,
                rkey: input.u32()?,
                swap_or_add: input.u64()?,
                compare: input.u64()?,
            })
        })?;
        let aeth = want(layout.aeth, "AETH", || {
            let word = input.u32()?;
            Some(Aeth {
                // CAST: the top byte.
                syndrome: Syndrome::from_code((word >> 24) as u8),
                msn: word & 0xff_ffff,
            })
        })?;
        let atomic_ack = want(layout.atomic_ack, "AtomicAckETH", || input.u64())?;
        let imm = want(layout.imm, "ImmDt", || input.take())?;
        let invalidate = want(layout.ieth, "IETH", || input.u32())?;
        want(layout.reserved, "CNP", || input.take::<16>())?;
        Ok(Self {
            xrc,
            deth,
            reth,
            atomic,
            aeth,
            atomic_ack,
            imm,
            invalidate,
        })
    }

    /// Writes the headers that `layout` names; one that is missing counts as zero.
    pub(crate) fn emit(&self, layout: Layout, mut put: impl FnMut(&[u8])) {
        if layout.xrc {
            put(&(self.xrc.unwrap_or(0) & 0xff_ffff).to_be_bytes());
        }
        if layout.deth {
            let deth = self.deth.unwrap_or(Deth { qkey: 0, src_qp: 0 });
            put(&deth.qkey.to_be_bytes());
            put(&(deth.src_qp & 0xff_ffff).to_be_bytes());
        }
        if layout.reth {
            let reth = self.reth.unwrap_or(Reth {
                va: 0,
                rkey: 0,
                len: 0,
            });
            put(&reth.va.to_be_bytes());
            put(&reth.rkey.to_be_bytes());
            put(&reth.len.to_be_bytes());
        }
        if layout.atomic {
            let atomic = self.atomic.unwrap_or(AtomicEth {
                va: 0,
                rkey: 0,
                swap_or_add: 0,
                compare: 0,
            });
            put(&atomic.va.to_be_bytes());
            put(&atomic.rkey.to_be_bytes());
            put(&atomic.swap_or_add.to_be_bytes());
            put(&atomic.compare.to_be_bytes());
        }
        if layout.aeth {
            let (syndrome, msn) = self.aeth.map_or((0, 0), |a| (a.syndrome.code(), a.msn));
            put(&(u32::from(syndrome) << 24 | msn & 0xff_ffff).to_be_bytes());
        }
        if layout.atomic_ack {
            put(&self.atomic_ack.unwrap_or(0).to_be_bytes());
        }
        if layout.imm {
            put(&self.imm.unwrap_or([0; 4]));
        }
        if layout.ieth {
            put(&self.invalidate.unwrap_or(0).to_be_bytes());
        }
        if layout.reserved {
            put(&[0; 16]);
        }
    }
}
