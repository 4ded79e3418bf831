// SPDX-License-Identifier: GPL-2.0
//! Doorbell records: words in host memory that say how far the driver got.
//!
//! | word | meaning |
//! |---|---|
//! | CQ 0 | consumer index, 24 bits |
//! | CQ 1 | arm word: sequence, command, consumer index |
//! | QP 0 | receive counter, 16 bits |
//! | QP 1 | send counter, 16 bits |
//!
//! The record is what counts; a doorbell only makes the device look. Source: struct mlx5_db users
//! in ib/cq.c and ib/qp.c.

use kernel::{
    device::{
        Bound,
        Device, //
    },
    dma::Coherent,
    io::io_write,
    prelude::*, //
};

/// Words between two records: each has a cache line of its own.
const STRIDE: usize = 16;

/// Which record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    Cq = 0,
    Qp = 1,
}

/// Number of records in a [`Records`].
const COUNT: usize = 2;

/// The doorbell records of one channel.
pub(crate) struct Records(Coherent<[u32]>);

impl Records {
    /// Allocates zeroed records. Sleeps.
    pub(crate) fn new(dev: &Device<Bound>) -> Result<Self> {
        Ok(Self(Coherent::zeroed_slice(
            dev,
            COUNT * STRIDE,
            GFP_KERNEL,
        )?))
    }

    /// Bus address of a record.
    pub(crate) fn address(&self, record: Record) -> u64 {
        // CAST: within a page.
        self.0
            .dma_address()
            .wrapping_add((record as usize * STRIDE * 4) as u64)
    }

    /// Writes word 0 or 1 of a record in one access. Ordering is the caller's.
    #[inline]
    pub(crate) fn set(&self, record: Record, word: usize, value: u32) -> Result {
        let at = record as usize * STRIDE + (word & 1);
        io_write!(self.0, [try: at], value.to_be());
        Ok(())
    }

    /// Both words back to zero, as a QP in RESET needs it.
    pub(crate) fn clear(&self, record: Record) -> Result {
        self.set(record, 0, 0)?;
        self.set(record, 1, 0)
    }
}
