// SPDX-License-Identifier: GPL-2.0
//! Posting to a QP, and finding what a completion is about.
//!
//! Order: WQE, `dma_wmb`, doorbell record, `dma_wmb`, one write to the doorbell. A single new WQE goes
//! with the doorbell where that works.

use kernel::{
    prelude::*,
    sync::barrier::{
        self,
        dma_mb, //
    }, //
};
use mlx5_hw::ring::Counter;

use super::{
    datagram::Datagram,
    Qp,
    Service, //
};
use crate::{
    record::{
        Record,
        Records, //
    },
    wq::{
        encode_recv,
        Request,
        Sge,
        Signal,
        Window,
        RECV_WQE_BYTES,
        SEND_WQE_BYTES, //
    }, //
};

/// Words of a QP's doorbell record. Source: `MLX5_RCV_DBR`, `MLX5_SND_DBR` in
/// include/linux/mlx5/qp.h.
const RECEIVE: usize = 0;
const SEND: usize = 1;

/// Bytes of a WQE of two blocks.
pub(crate) const PAIR_BYTES: usize = 2 * SEND_WQE_BYTES;

/// Posted WQEs that the device has not been told of.
pub(super) struct Fresh {
    /// The last one.
    wqe: [u8; SEND_WQE_BYTES],
    /// Whether it is the only one.
    alone: bool,
}

impl Qp {
    /// Account of the send queue.
    pub(crate) fn sq(&self) -> &Window {
        &self.sq
    }

    /// Account of the receive queue.
    pub(crate) fn rq(&self) -> &Window {
        &self.rq
    }

    /// Finishes sends up to and including the one that begins at `upto`, and says how many WQEBBs
    /// those are.
    pub(crate) fn sent(&mut self, upto: Counter) -> u32 {
        let rest = (1 << self.ring.service.log_blocks()) - 1;
        self.sq.complete(upto.plus(rest))
    }

    /// Finishes receives up to and including `upto`, and says how many.
    pub(crate) fn received(&mut self, upto: Counter) -> u32 {
        self.rq.complete(upto)
    }

    /// Writes a send WQE; the device sees it after [`Qp::ring`]. `ENOSPC` when the queue is full,
    /// `EINVAL` for a request that no WQE can express, or a QP that is not connected.
    pub(crate) fn post_send(&mut self, request: &Request, signal: Signal) -> Result<usize> {
        if self.ring.service != Service::Rc {
            return Err(EINVAL);
        }
        if self.sq.free() == 0 {
            return Err(ENOSPC);
        }
        let wqe = request
            .encode(self.sq.head().low16(), self.number, signal)
            .ok_or(EINVAL)?;
        let slot = self.sq.slot(self.sq.head());
        self.ring
            .buf
            .write(self.ring.send_offset() + slot * SEND_WQE_BYTES, &wqe)?;
        self.sq.post().ok_or(ENOSPC)?;
        let alone = self.fresh.is_none();
        self.fresh = Some(Fresh { wqe, alone });
        Ok(slot)
    }

    /// Slot of a datagram that is posted next; `None` when the queue is full.
    pub(crate) fn next_datagram(&self) -> Option<usize> {
        let log = self.ring.service.log_blocks();
        (self.sq.free() >> log != 0).then(|| self.sq.slot(self.sq.head()) >> log)
    }

    /// Writes the WQE of a datagram, with a completion; the device sees it after [`Qp::ring`].
    /// `ENOSPC` when the queue is full, `EINVAL` for one that no WQE can express, or an RC QP.
    pub(crate) fn post_datagram(&mut self, datagram: &Datagram) -> Result {
        if !matches!(self.ring.service, Service::Ud { .. }) {
            return Err(EINVAL);
        }
        self.post_pair(|index, qpn| datagram.encode(index, qpn))
    }

    /// Writes the WQE of a change of a key, which `encode` makes from block and QP; the device sees it after
    /// [`Qp::ring`]. Errors as for [`Qp::post_datagram`].
    pub(crate) fn post_umr(
        &mut self,
        encode: impl FnOnce(u16, u32) -> Option<[u8; PAIR_BYTES]>,
    ) -> Result {
        if self.ring.service != Service::Umr {
            return Err(EINVAL);
        }
        self.post_pair(encode)
    }

    /// Writes a WQE of two blocks.
    fn post_pair(&mut self, encode: impl FnOnce(u16, u32) -> Option<[u8; PAIR_BYTES]>) -> Result {
        self.next_datagram().ok_or(ENOSPC)?;
        let wqe = encode(self.sq.head().low16(), self.number).ok_or(EINVAL)?;
        // Two blocks never wrap: their number in the queue is even.
        let slot = self.sq.slot(self.sq.head());
        self.ring
            .buf
            .write(self.ring.send_offset() + slot * SEND_WQE_BYTES, &wqe)?;
        for _ in 0..1 << self.ring.service.log_blocks() {
            self.sq.post().ok_or(ENOSPC)?;
        }
        // Its first block; too long for the register as a whole.
        let head = wqe.first_chunk::<SEND_WQE_BYTES>().ok_or(EINVAL)?;
        self.fresh = Some(Fresh {
            wqe: *head,
            alone: false,
        });
        Ok(())
    }

    /// Tells the device of all sends posted since the last call.
    pub(crate) fn ring(&mut self, records: &Records) -> Result {
        let Some(fresh) = self.fresh.take() else {
            return Ok(());
        };
        dma_mb(barrier::Write);
        records.set(Record::Qp, SEND, self.sq.head().low16().into())?;
        dma_mb(barrier::Write);
        if fresh.alone && self.doorbell.takes(SEND_WQE_BYTES) {
            return self.doorbell.push(&fresh.wqe);
        }
        let [a, b, c, d, e, f, g, h, ..] = fresh.wqe;
        self.doorbell
            .ring(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// Slot that the next receive gets; `None` when the queue is full.
    pub(crate) fn next_receive(&self) -> Option<usize> {
        (self.rq.free() != 0).then(|| self.rq.slot(self.rq.head()))
    }

    /// Writes a receive WQE; the device sees it after [`Qp::publish_receives`].
    pub(crate) fn post_receive(&mut self, sge: &Sge) -> Result {
        let slot = self.next_receive().ok_or(ENOSPC)?;
        let wqe = encode_recv(sge).ok_or(EINVAL)?;
        self.ring.buf.write(slot * RECV_WQE_BYTES, &wqe)?;
        self.rq.post().ok_or(ENOSPC)?;
        Ok(())
    }

    /// Tells the device of all receives posted so far. There is no doorbell for them.
    pub(crate) fn publish_receives(&self, records: &Records) -> Result {
        dma_mb(barrier::Write);
        records.set(Record::Qp, RECEIVE, self.rq.head().low16().into())
    }
}
