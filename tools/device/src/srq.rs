// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared receive queues: SRQ, XRC SRQ and RMP, one number space, one linked list of requests.
//!
//! A request starts with a 16-byte segment that names the next one; the driver keeps the links, the
//! card follows them from index 0. Word 0 of the record counts posted requests. Source:
//! `mlx5_wqe_srq_next_seg` in include/linux/mlx5/device.h, drivers/infiniband/hw/mlx5/srq.c.

mod commands;

pub use commands::*;

use crate::{
    buffer::Buffer,
    env::Env, //
    host::DmaError,
    qp::Segments,
    table,
    table::Object,
};

/// Which command family made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CREATE_SRQ.
    Srq,
    /// CREATE_XRC_SRQ.
    Xrc {
        /// Completions of XRC receives go here.
        cqn: u32,
        /// What they carry as user index.
        user_index: u32,
    },
    /// CREATE_RMP.
    Rmp,
}

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {
    pub(crate) kind: Kind,
    pub(crate) pd: u32,
    pub(crate) xrcd: u32,
    /// log2 of the number of requests.
    pub(crate) log_size: u8,
    /// log2 of the bytes of a request.
    pub(crate) log_stride: u8,
    pub(crate) record: u64,
    pub(crate) buffer: Buffer,
    /// Limit event below this many free requests; 0 when not armed.
    pub(crate) limit: u16,
    /// Raised the catastrophic event: takes and gives nothing any more.
    pub(crate) failed: bool,
    head: u16,
    consumed: u16,
}

impl Object for Srq {
    const KIND: table::Kind = table::Kind::Srq;

    fn footprint(&self) -> u64 {
        footprint(self.buffer.len())
    }
}

/// Context and one translation entry for each page of the queue.
fn footprint(bytes: u64) -> u64 {
    128 + 8 * bytes.div_ceil(4096)
}

/// A request taken from the queue.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) index: u16,
    pub(crate) data: Segments,
    /// The number of free requests fell below the limit: raise the event.
    pub(crate) limit: bool,
}

/// Why none can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TakeError {
    #[error("nothing posted")]
    Empty,
    #[error("request {index} links to {next}, beyond the queue")]
    Link { index: u16, next: u16 },
    #[error("more requests posted than the queue holds")]
    Overposted,
    #[error("the queue has failed")]
    Failed,
    #[error("DMA error: {0}")]
    Dma(#[from] DmaError),
}

/// Fixed properties of a new queue.
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) pd: u32,
    pub(crate) xrcd: u32,
    pub(crate) log_size: u8,
    pub(crate) log_stride: u8,
    pub(crate) record: u64,
    pub(crate) buffer: Buffer,
    pub(crate) limit: u16,
}

impl Srq {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            kind: shape.kind,
            pd: shape.pd,
            xrcd: shape.xrcd,
            log_size: shape.log_size,
            log_stride: shape.log_stride,
            record: shape.record,
            buffer: shape.buffer,
            limit: shape.limit,
            failed: false,
            head: 0,
            consumed: 0,
        }
    }

    /// One line for a dump.
    pub fn describe(&self, number: u32) -> String {
        format!(
            "SRQ {number:#x}: {:?} pd {:#x} 2^{} requests of 2^{} bytes, head {} consumed {} limit {}{}",
            self.kind,
            self.pd,
            self.log_size,
            self.log_stride,
            self.head,
            self.consumed,
            self.limit,
            if self.failed { " FAILED" } else { "" },
        )
    }

    /// Requests posted and not taken.
    pub(crate) fn free(&self, env: &mut Env) -> Result<u16, DmaError> {
        // CAST: the record counts modulo 2^16.
        Ok((env.read_be32(self.record)? as u16).wrapping_sub(self.consumed))
    }

    /// Takes the next request.
    pub(crate) fn take(&mut self, env: &mut Env) -> Result<Taken, TakeError> {
        if self.failed {
            return Err(TakeError::Failed);
        }
        let free = self.free(env)?;
        if free == 0 {
            return Err(TakeError::Empty);
        }
        let size = 1u32 << self.log_size;
        if u32::from(free) > size {
            return Err(TakeError::Overposted);
        }
        let index = self.head;
        let mut raw = [0; 2048];
        // PANIC: creation bounds the stride to the size of the array.
        let raw = &mut raw[..1 << self.log_stride];
        self.buffer
            .read(env, u64::from(index) << self.log_stride, raw)?;
        let next = u16::from_be_bytes([raw[2], raw[3]]);
        if u32::from(next) >= size {
            return Err(TakeError::Link { index, next });
        }
        self.head = next;
        self.consumed = self.consumed.wrapping_add(1);
        let limit = self.limit != 0 && free - 1 < self.limit;
        if limit {
            self.limit = 0;
        }
        Ok(Taken {
            index,
            data: Segments::of_receive(&raw[16..]),
            limit,
        })
    }
}
