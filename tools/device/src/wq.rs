// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What send and receive queues of the Ethernet face share: the cyclic work queue in host memory,
//! its doorbell record and the states RST, RDY and ERR.

use mlx5_hw::{field, field::Ref, ifc, raw};

use crate::{buffer::Buffer, cmd::Refused, env::Env, hca::Hca, host::DmaError, refuse};

/// State of an SQ or RQ. Source: `MLX5_SQC_STATE_*`, `MLX5_RQC_STATE_*` in mlx5_ifc.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Does nothing; its counters are 0.
    Reset,
    /// Works.
    Ready,
    /// Completes whatever is posted as flushed.
    Error,
}

impl State {
    /// Parses the 4-bit field.
    pub fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            raw::MLX5_SQC_STATE_RST => Self::Reset,
            raw::MLX5_SQC_STATE_RDY => Self::Ready,
            raw::MLX5_SQC_STATE_ERR => Self::Error,
            _ => return None,
        })
    }

    /// The 4-bit field.
    pub const fn code(self) -> u64 {
        (match self {
            Self::Reset => raw::MLX5_SQC_STATE_RST,
            Self::Ready => raw::MLX5_SQC_STATE_RDY,
            Self::Error => raw::MLX5_SQC_STATE_ERR,
        }) as u64
    }

    /// Checks the transition that a MODIFY command asks for: `from` is what the driver believes,
    /// `to` what it wants; `self` is what is.
    ///
    /// # Errors
    /// `BadResState` when `from` is wrong or there is no such transition (an error is only left
    /// through reset), `BadParam` for a number that is no state.
    pub fn transition(self, what: &str, from: u32, to: u32) -> Result<Self, Refused> {
        let (Some(from), Some(to)) = (Self::from_code(from), Self::from_code(to)) else {
            refuse!(BadParam, 0x7101, "{what}: states {from} -> {to}");
        };
        if from != self {
            refuse!(
                BadResState,
                0x7102,
                "{what} is in state {self:?}, not {from:?}"
            );
        }
        let legal = match (from, to) {
            (_, Self::Reset) => true,
            (Self::Reset | Self::Ready, Self::Ready) => true,
            (Self::Ready | Self::Error, Self::Error) => true,
            (Self::Error, Self::Ready) | (Self::Reset, Self::Error) => false,
        };
        if !legal {
            refuse!(
                BadResState,
                0x7103,
                "{what}: no transition {from:?} -> {to:?}"
            );
        }
        Ok(to)
    }
}

/// Word of a doorbell record.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    /// `MLX5_RCV_DBR`: WQEs posted to a receive queue.
    Receive,
    /// `MLX5_SND_DBR`: basic blocks posted to a send queue.
    Send,
}

/// A cyclic work queue.
#[derive(Debug)]
pub struct Wq {
    buffer: Buffer,
    /// log2 of the number of entries.
    pub log_size: u32,
    /// log2 of the length of an entry in bytes.
    pub log_stride: u32,
    /// Protection domain of the keys in its WQEs.
    pub pd: u32,
    /// Bus address of the doorbell record.
    dbr: u64,
}

/// No protection domain: legal for a receive queue that never gets a WQE. The stock drop RQ is one
/// (en_main.c, mlx5e_build_drop_rq_param); a scatter entry used on it finds no key.
pub const NO_PD: u32 = 0;

impl Wq {
    /// Parses a `wq` context with its page list.
    ///
    /// # Errors
    /// `BadParam` for what the card does not offer and for limits, `BadRes` for an unknown PD.
    pub fn parse(hca: &Hca, wq: Ref<'_, ifc::wq>, pas: &[u8]) -> Result<Self, Refused> {
        let kind = wq.get32(field!(wq, wq_type));
        if kind != raw::MLX5_WQ_TYPE_CYCLIC {
            refuse!(BadParam, 0x7110, "work queue of type {kind}");
        }
        for (name, asked) in [
            ("wq_signature", wq.flag(field!(wq, wq_signature))),
            ("cd_slave", wq.flag(field!(wq, cd_slave))),
            (
                "hds_skip_first_sge",
                wq.flag(field!(wq, hds_skip_first_sge)),
            ),
            ("log2_hds_buf_size", wq.flag(field!(wq, log2_hds_buf_size))),
            ("dbr_umem_valid", wq.flag(field!(wq, dbr_umem_valid))),
            ("wq_umem_valid", wq.flag(field!(wq, wq_umem_valid))),
            ("two_byte_shift_en", wq.flag(field!(wq, two_byte_shift_en))),
            ("shampo_enable", wq.flag(field!(wq, shampo_enable))),
            (
                "log_wqe_num_of_strides",
                wq.flag(field!(wq, log_wqe_num_of_strides)),
            ),
        ] {
            if asked {
                refuse!(BadParam, 0x7111, "work queue with {name}");
            }
        }
        let log_size = wq.get32(field!(wq, log_wq_sz));
        if u64::from(log_size) > hca.caps.get(field!(cmd_hca_cap, log_max_wq_sz)) {
            refuse!(BadParam, 0x7112, "work queue of 2^{log_size} entries");
        }
        let log_stride = wq.get32(field!(wq, log_wq_stride));
        let pd = wq.get32(field!(wq, pd));
        if pd != NO_PD {
            hca.pds.find(pd)?;
        }
        let dbr = wq.get(field!(wq, dbr_addr));
        if dbr % 8 != 0 {
            refuse!(BadParam, 0x7113, "doorbell record at {dbr:#x}");
        }
        let buffer = Buffer::parse(
            pas,
            wq.get32(field!(wq, log_wq_pg_sz)),
            wq.get32(field!(wq, page_offset)),
            1 << (log_size + log_stride),
        )?;
        Ok(Self {
            buffer,
            log_size,
            log_stride,
            pd,
            dbr,
        })
    }

    /// Firmware memory of a queue of this geometry, in bytes: its context and one translation
    /// entry a page.
    pub fn footprint_of(wq: Ref<'_, ifc::wq>) -> u64 {
        let log = wq.get32(field!(wq, log_wq_sz)) + wq.get32(field!(wq, log_wq_stride));
        footprint(1 << log)
    }

    /// The same for this queue.
    pub fn footprint(&self) -> u64 {
        footprint(self.buffer.len())
    }

    /// Number of entries.
    pub fn entries(&self) -> u32 {
        1 << self.log_size
    }

    /// What the doorbell record says: a free running counter of 16 bits.
    ///
    /// # Errors
    /// When the DMA access fails.
    pub fn posted(&self, env: &mut Env, record: Record) -> Result<u16, DmaError> {
        let offset = match record {
            Record::Receive => 0,
            Record::Send => 4,
        };
        // CAST: the upper half means nothing.
        env.read_be32(self.dbr + offset).map(|word| word as u16)
    }

    /// Reads `buf.len()` bytes from entry `index` on; goes on at the start of the ring behind its
    /// end.
    ///
    /// # Errors
    /// When the DMA access fails or `buf` is longer than the ring.
    pub fn read(&self, env: &mut Env, index: u16, buf: &mut [u8]) -> Result<(), DmaError> {
        let size = self.buffer.len();
        let at = u64::from(u32::from(index) & (self.entries() - 1)) << self.log_stride;
        // CAST: a queue is shorter than 2^36 bytes and `buf` than 64 KiB.
        let first = (size - at).min(buf.len() as u64) as usize;
        let (head, tail) = buf.split_at_mut(first);
        self.buffer.read(env, at, head)?;
        if tail.is_empty() {
            return Ok(());
        }
        self.buffer.read(env, 0, tail)
    }
}

fn footprint(bytes: u64) -> u64 {
    256 + 8 * bytes.div_ceil(4096)
}
