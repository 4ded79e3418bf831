// SPDX-License-Identifier: GPL-2.0
//! Send doorbells: how a QP tells the device that it posted something.
//!
//! A doorbell is one of the send registers of a UAR page. Written with the first 8 bytes of the last
//! WQE it makes the device read the work queue. Through a write combining mapping it takes the whole
//! WQE (BlueFlame), which saves the device that read. A writer alternates between the halves of its
//! register, so that the two writes cannot meet in one combining buffer. Source: `mlx5r_ring_db` in
//! ib/wr.c, core/wc.c; `post_send_db` of libmlx5.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::pci::bar::write_barrier;

use crate::uar::{
    Mapping,
    Uar, //
};

/// A register, and the page it is in. One writer: what is written in parts must not mix.
pub(crate) struct Doorbell {
    uar: Arc<Uar>,
    /// Offset of the half that is next.
    at: usize,
    /// Bytes of a half; a power of two.
    half: usize,
    /// Plain doorbells so far.
    pub(crate) plain: u64,
    /// WQEs written through the register so far.
    pub(crate) pushed: u64,
}

impl Doorbell {
    /// Register `number` of a page, 1 << `log_size` bytes long. `ERANGE` if there is no such.
    pub(crate) fn new(uar: &Arc<Uar>, number: usize, log_size: u8) -> Result<Self> {
        let at = Uar::register(number, log_size)?;
        // CAST: checked by `register`.
        let half = (1usize << log_size) / 2;
        Ok(Self {
            uar: uar.clone(),
            at,
            half,
            plain: 0,
            pushed: 0,
        })
    }

    /// Number of the page, for the context of the QP.
    pub(crate) fn uar_index(&self) -> u32 {
        self.uar.index()
    }

    /// Whether a WQE of `bytes` bytes can be pushed.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        self.uar.mapping() == Mapping::WriteCombining && bytes <= self.half
    }

    fn turn(&mut self) -> usize {
        let at = self.at;
        self.at ^= self.half;
        at
    }

    /// Rings: `control` is the first 8 bytes of the last WQE. The doorbell record is written, with
    /// a `dma_wmb` behind it.
    #[inline]
    pub(crate) fn ring(&mut self, control: u64) -> Result {
        self.plain = self.plain.wrapping_add(1);
        let at = self.turn();
        match self.uar.mapping() {
            Mapping::Uncached => self.uar.send(at, control),
            Mapping::WriteCombining => {
                // Such a write may overtake others, and may be held back: neither must happen.
                write_barrier();
                self.uar.send(at, control)?;
                write_barrier();
                Ok(())
            }
        }
    }

    /// Rings with the WQE itself, which must be the only new one and one that the register
    /// [`takes`](Self::takes), in whole lines of 64 bytes. Order as for [`Doorbell::ring`].
    #[inline]
    pub(crate) fn push(&mut self, wqe: &[u8]) -> Result {
        self.pushed = self.pushed.wrapping_add(1);
        let at = self.turn();
        write_barrier();
        self.uar.blue_flame(at, wqe)
    }
}
