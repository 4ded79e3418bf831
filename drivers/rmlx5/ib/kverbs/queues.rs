// SPDX-License-Identifier: GPL-2.0
//! The queues of a QP of the kernel: what is posted, by whom, and what is done.
//!
//! Lock order: 1. the CQ, 2. the send queue or the receive queue. Posting takes the second only.
//!
//! Order of a post: WQE, `dma_wmb`, doorbell record, `dma_wmb`, one write to the doorbell.

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        barrier::{
            self,
            dma_mb, //
        },
        Arc,
        SpinLockIrq, //
    }, //
};
use kernel_ext::rdma::kverbs::{
    Completion,
    Completions,
    Outcome,
    QpHandle,
    Receives,
    Sends,
    Status, //
};
use mlx5_hw::ring::{
    Counter,
    Ring, //
};

use super::{
    cq::{
        Core,
        Key, //
    },
    send::{
        self,
        Fence, //
    },
    wqe::{
        self,
        Wqe, //
    }, //
};
use crate::{
    buf::BLOCK,
    doorbell::Doorbell,
    ib::Verbs,
    qp::user::OwnMemory,
    record::Record,
    wq::{
        Window,
        DS,
        SEND_WQE_BYTES, //
    }, //
};

/// Words of a QP's doorbell record. Source: `MLX5_RCV_DBR`, `MLX5_SND_DBR` in
/// include/linux/mlx5/qp.h.
const RECEIVE: usize = 0;
const SEND: usize = 1;
/// Bytes of the longest receive WQE. Source: `max_wqe_sz_rq` is at most this.
const MOST_RECEIVE: usize = 512;

/// A posted send, at its first block.
#[derive(Clone, Copy)]
struct Posted {
    id: u64,
    outcome: Outcome,
    blocks: u8,
}

struct SendQueue {
    window: Window,
    posted: KVVec<Posted>,
    doorbell: Doorbell,
    fence: Fence,
    /// Sends of an earlier life of the QP, which the driver flushes.
    flushed: KVVec<u64>,
}

impl SendQueue {
    /// The send at `at` is done, and all before it.
    fn complete(&mut self, at: Counter) -> Option<Posted> {
        let posted = *self.posted.get(self.window.slot(at))?;
        let rest = u32::from(posted.blocks).saturating_sub(1);
        self.window.complete(at.plus(rest));
        Some(posted)
    }

    /// The oldest send is done; `None` when nothing is posted.
    fn complete_oldest(&mut self) -> Option<Posted> {
        match self.window.used() {
            0 => None,
            _ => self.complete(self.window.tail()),
        }
    }
}

struct ReceiveQueue {
    window: Window,
    ids: KVVec<u64>,
    /// Bytes of a WQE.
    stride: usize,
}

impl ReceiveQueue {
    /// The receive at `at` is used, and all before it; what its owner knows it by.
    fn complete(&mut self, at: Counter) -> Option<u64> {
        let id = *self.ids.get(self.window.slot(at))?;
        self.window.complete(at);
        Some(id)
    }

    /// The oldest receive is used; `None` when nothing is posted.
    fn complete_oldest(&mut self) -> Option<u64> {
        match self.window.used() {
            0 => None,
            _ => self.complete(self.window.tail()),
        }
    }
}

/// Sizes of the queues, in logs: WQEBBs of the send queue; WQEs of the receive queue and bytes of each.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) send: Option<u8>,
    pub(super) receive: Option<(u8, u8)>,
}

impl Shape {
    /// Bytes of the receive queue, in whole blocks.
    fn receive_bytes(self) -> usize {
        self.receive.map_or(0, |(log, stride)| {
            (1usize << (log + stride)).next_multiple_of(SEND_WQE_BYTES)
        })
    }

    /// Bytes of both.
    pub(super) fn bytes(self) -> usize {
        self.receive_bytes() + self.send.map_or(0, |log| SEND_WQE_BYTES << log)
    }
}

/// Who and what a QP is, for its queues.
pub(super) struct Config {
    pub(super) handle: QpHandle,
    pub(super) signals_all: bool,
    pub(super) most_pieces: usize,
    /// Key of all memory, as whoever posts knows it.
    pub(super) local_key: u32,
    /// The same as the device knows it at first.
    pub(super) device_key: u32,
    /// Receives stay posted when a generation ends.
    pub(super) keeps_receives: bool,
    pub(super) shape: Shape,
    /// Whoever polls sends, and receives.
    pub(super) cqs: (Arc<Core>, Arc<Core>),
}

/// The queues. The QP on the device goes before them.
#[pin_data]
pub(in crate::ib) struct Queues {
    config: Config,
    /// Generation and number of the QP on the device. They change together, under both locks.
    generation: Atomic<u32>,
    number: Atomic<u32>,
    /// Key of all memory, as the device knows it.
    key: Atomic<u32>,
    /// 1 when the device does not know the QP: nothing is rung, all that is posted is flushed. Who posts looks
    /// after posting, under the lock of the queue; then either it sees this, or the poll that follows the end
    /// sees what was posted.
    over: Atomic<u32>,
    memory: Arc<OwnMemory>,
    #[pin]
    send: SpinLockIrq<Option<SendQueue>>,
    #[pin]
    receive: SpinLockIrq<Option<ReceiveQueue>>,
}

fn window(log: u8) -> Result<Window> {
    Ring::new(log).and_then(Window::new).ok_or(EINVAL)
}

impl Queues {
    /// Empty queues. Sleeps.
    pub(super) fn new(
        config: Config,
        (generation, number): Key,
        memory: Arc<OwnMemory>,
        doorbell: Doorbell,
        fence: Fence,
    ) -> Result<Arc<Self>> {
        let nothing = Posted {
            id: 0,
            outcome: Outcome::Failed,
            blocks: 1,
        };
        let send = match config.shape.send {
            Some(log) => Some(SendQueue {
                window: window(log)?,
                posted: KVVec::from_elem(nothing, 1 << log, GFP_KERNEL)?,
                doorbell,
                fence,
                flushed: KVVec::new(),
            }),
            None => None,
        };
        let receive = match config.shape.receive {
            Some((log, stride)) => Some(ReceiveQueue {
                window: window(log)?,
                ids: KVVec::<u64>::zeroed(1 << log, GFP_KERNEL)?,
                stride: 1 << stride,
            }),
            None => None,
        };
        Arc::pin_init(
            pin_init!(Self {
                generation: Atomic::new(generation),
                number: Atomic::new(number),
                key: Atomic::new(config.device_key),
                over: Atomic::new(0),
                config,
                memory,
                send <- new_spinlock_irq!(send),
                receive <- new_spinlock_irq!(receive),
            }),
            GFP_KERNEL,
        )
    }

    /// Number of the QP on the device.
    fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// What its CQs know it by.
    pub(in crate::ib) fn key(&self) -> Key {
        (self.generation.load(Relaxed), self.number())
    }

    /// Whoever polls sends, and receives.
    pub(in crate::ib) fn cqs(&self) -> &(Arc<Core>, Arc<Core>) {
        &self.config.cqs
    }

    /// Whether the device knows the QP no more.
    pub(in crate::ib) fn is_over(&self) -> bool {
        self.over.load(Acquire) != 0
    }

    /// It does not any more. Any context.
    pub(super) fn end(&self) {
        self.over.store(1, Release);
    }

    /// The key that the device knows `key` by.
    fn device_key(&self, key: u32) -> u32 {
        if key == self.config.local_key {
            self.key.load(Relaxed)
        } else {
            key
        }
    }

    /// Posts sends. `ENOMEM` when the queue is full, `EINVAL` for what no WQE can express,
    /// `EOPNOTSUPP` for what the device does not do. Any context.
    pub(super) fn post_sends(&self, list: &mut Sends<'_, Verbs>) -> Result {
        let result = {
            let mut guard = self.send.lock();
            let queue = Option::as_mut(&mut *guard).ok_or(EINVAL)?;
            let mut last = None;
            let mut posted = Ok(());
            while let Some(request) = list.take() {
                match self.post_send(queue, list, &request) {
                    Ok(head) => last = Some(head),
                    Err(error) => {
                        posted = Err(error);
                        break;
                    }
                }
            }
            match last {
                Some(head) => self.ring(queue, head).and(posted),
                None => posted,
            }
        };
        if self.is_over() {
            self.config.cqs.0.wake();
        }
        result
    }

    /// Writes a WQE, and gives its first 8 bytes.
    fn post_send(
        &self,
        queue: &mut SendQueue,
        list: &Sends<'_, Verbs>,
        request: &kernel_ext::rdma::kverbs::Send<'_, Verbs>,
    ) -> Result<u64> {
        if request.pieces() > self.config.most_pieces {
            return Err(EINVAL);
        }
        let key = |key| self.device_key(key);
        let list_key = self.key.load(Relaxed);
        let mut wqe = Wqe::new();
        let mut built = send::build(&mut wqe, list, request, list_key, key, &mut queue.fence)?;
        built.control.signaled |= self.config.signals_all;
        let blocks = wqe.blocks();
        if queue.window.free() < blocks {
            return Err(ENOMEM);
        }
        let first = queue.window.head();
        let bytes = wqe
            .finish(&built.control, first.low16(), self.number())
            .ok_or(EINVAL)?;
        let start = self.config.shape.receive_bytes();
        for (block, at) in bytes.chunks_exact(BLOCK).zip(0u32..) {
            let slot = queue.window.slot(first.plus(at));
            let block = block.first_chunk().ok_or(EINVAL)?;
            self.memory.buf.write_block(start + slot * BLOCK, block)?;
        }
        let slot = queue.window.slot(first);
        *queue.posted.get_mut(slot).ok_or(EINVAL)? = Posted {
            id: request.id(),
            outcome: built.outcome,
            // CAST: at most 9.
            blocks: blocks as u8,
        };
        queue.window.post_blocks(blocks).ok_or(ENOMEM)?;
        let head = bytes.first_chunk::<8>().ok_or(EINVAL)?;
        Ok(u64::from_be_bytes(*head))
    }

    /// Tells the device of all sends so far.
    fn ring(&self, queue: &mut SendQueue, head: u64) -> Result {
        dma_mb(barrier::Write);
        self.memory
            .records
            .set(Record::Qp, SEND, queue.window.head().low16().into())?;
        dma_mb(barrier::Write);
        if self.is_over() {
            return Ok(());
        }
        queue.doorbell.ring(head)
    }

    /// Posts receives. Errors as for [`Queues::post_sends`]. Any context.
    pub(super) fn post_receives(&self, list: &mut Receives<'_>) -> Result {
        let result = {
            let mut guard = self.receive.lock();
            let queue = Option::as_mut(&mut *guard).ok_or(EINVAL)?;
            let mut posted = Ok(());
            while let Some(request) = list.take() {
                posted = self.post_receive(queue, &request);
                if posted.is_err() {
                    break;
                }
            }
            self.publish(queue).and(posted)
        };
        if self.is_over() {
            self.config.cqs.1.wake();
        }
        result
    }

    /// Tells the device of all receives so far.
    fn publish(&self, queue: &ReceiveQueue) -> Result {
        if self.is_over() {
            return Ok(());
        }
        dma_mb(barrier::Write);
        self.memory
            .records
            .set(Record::Qp, RECEIVE, queue.window.head().low16().into())
    }

    fn post_receive(
        &self,
        queue: &mut ReceiveQueue,
        request: &kernel_ext::rdma::kverbs::Receive<'_>,
    ) -> Result {
        if queue.window.free() == 0 {
            return Err(ENOMEM);
        }
        let mut bytes = [0u8; MOST_RECEIVE];
        let wqe = bytes.get_mut(..queue.stride).ok_or(EINVAL)?;
        let pieces = request
            .scatter()
            .map(|piece| (piece.address, piece.length, self.device_key(piece.lkey)));
        wqe::receive(wqe, pieces).ok_or(EINVAL)?;
        let slot = queue.window.slot(queue.window.head());
        // An end right behind the pieces is enough.
        let used = (request.pieces() + 1).saturating_mul(DS).min(queue.stride);
        self.memory
            .buf
            .write(slot * queue.stride, wqe.get(..used).ok_or(EINVAL)?)?;
        *queue.ids.get_mut(slot).ok_or(EINVAL)? = request.id();
        queue.window.post().ok_or(ENOMEM)?;
        Ok(())
    }

    /// The send that the device names `counter` is done, and all before it. `None` for one that is not
    /// posted.
    pub(super) fn sent(
        &self,
        counter: u16,
        status: Status,
        vendor: u32,
        bytes: u32,
    ) -> Option<Completion> {
        let mut guard = self.send.lock();
        let queue = Option::as_mut(&mut *guard)?;
        let at = queue.window.locate(counter)?;
        let posted = queue.complete(at)?;
        let outcome = match (status, posted.outcome) {
            (Status::Success, Outcome::Read(_)) => Outcome::Read(bytes),
            (Status::Success, outcome) => outcome,
            _ => Outcome::Failed,
        };
        Some(self.completion(posted.id, status, outcome, vendor))
    }

    /// The receive that the device names `counter` is used. `None` for one that is not posted.
    pub(super) fn received(
        &self,
        counter: u16,
        status: Status,
        vendor: u32,
        outcome: Outcome,
    ) -> Option<Completion> {
        let mut guard = self.receive.lock();
        let queue = Option::as_mut(&mut *guard)?;
        let at = queue.window.locate(counter)?;
        let id = queue.complete(at)?;
        Some(self.completion(id, status, outcome, vendor))
    }

    fn completion(&self, id: u64, status: Status, outcome: Outcome, vendor: u32) -> Completion {
        Completion {
            id,
            qp: self.config.handle,
            status,
            outcome,
            vendor,
        }
    }

    /// Flushes what the device will not complete.
    pub(super) fn flush(&self, sends: bool, receives: bool, to: &mut Completions<'_>) {
        let over = self.is_over();
        if sends {
            if let Some(queue) = &mut *self.send.lock() {
                while !to.is_full() {
                    let Some(id) = queue.flushed.pop() else {
                        break;
                    };
                    to.push(&self.completion(id, Status::Flushed, Outcome::Failed, 0));
                }
                while over && !to.is_full() {
                    let Some(posted) = queue.complete_oldest() else {
                        break;
                    };
                    to.push(&self.completion(posted.id, Status::Flushed, Outcome::Failed, 0));
                }
            }
        }
        if receives && over && !self.config.keeps_receives {
            if let Some(queue) = &mut *self.receive.lock() {
                while !to.is_full() {
                    let Some(id) = queue.complete_oldest() else {
                        break;
                    };
                    to.push(&self.completion(id, Status::Flushed, Outcome::Failed, 0));
                }
            }
        }
    }

    /// Whether there is something to flush.
    pub(super) fn is_busy(&self, sends: bool, receives: bool) -> bool {
        let over = self.is_over();
        let sending = || match &*self.send.lock() {
            Some(queue) => !queue.flushed.is_empty() || (over && queue.window.used() != 0),
            None => false,
        };
        let receiving = || match &*self.receive.lock() {
            Some(queue) => over && !self.config.keeps_receives && queue.window.used() != 0,
            None => false,
        };
        (sends && sending()) || (receives && receiving())
    }

    /// The QP went to RESET: the device has forgotten what was posted. So do we.
    pub(in crate::ib) fn reset(self: &Arc<Self>) -> Result {
        if let Some(queue) = &mut *self.send.lock() {
            queue.window.reset();
        }
        if let Some(queue) = &mut *self.receive.lock() {
            queue.window.reset();
        }
        self.config.cqs.0.forget_past(self.key());
        self.config.cqs.1.forget_past(self.key());
        self.memory.records.clear(Record::Qp)
    }

    /// The QP lives on as `name`, in RTS and with empty queues, on a device that knows all memory by
    /// `key`. Receives that are posted are posted to it; sends are flushed. Sleeps.
    pub(super) fn renew(&self, name: Key, key: u32, doorbell: Doorbell) -> Result {
        let sends = self.config.shape.send.map_or(0, |log| 1usize << log);
        // Those of this life, and those of an earlier one that nobody has polled.
        let mut flushed = KVVec::with_capacity(2 * sends, GFP_KERNEL)?;
        let (log, stride) = self.config.shape.receive.unwrap_or((0, 4));
        let mut saved = KVVec::<u8>::zeroed(1 << (log + stride), GFP_KERNEL)?;
        let mut ids = KVVec::<u64>::zeroed(1 << log, GFP_KERNEL)?;
        // Only here are both held.
        let mut receive = self.receive.lock();
        let mut send = self.send.lock();
        if let Some(queue) = &mut *receive {
            self.move_receives(queue, key, &mut saved, &mut ids)?;
        }
        if let Some(queue) = &mut *send {
            for id in queue.flushed.iter() {
                // One that does not fit was not polled through two generations.
                let _ = flushed.push_within_capacity(*id);
            }
            while let Some(posted) = queue.complete_oldest() {
                let _ = flushed.push_within_capacity(posted.id);
            }
            // They are taken from the end.
            flushed.reverse();
            core::mem::swap(&mut queue.flushed, &mut flushed);
            queue.window.reset();
            queue.doorbell = doorbell;
        }
        self.generation.store(name.0, Relaxed);
        self.number.store(name.1, Relaxed);
        self.key.store(key, Relaxed);
        self.over.store(0, Release);
        let published = match &*receive {
            Some(queue) => self.publish(queue),
            None => Ok(()),
        };
        drop(send);
        drop(receive);
        drop(flushed);
        published
    }

    /// Moves what is posted to the front of the queue, as the device counts from 0, with the key that the
    /// device knows.
    fn move_receives(
        &self,
        queue: &mut ReceiveQueue,
        key: u32,
        saved: &mut [u8],
        ids: &mut [u64],
    ) -> Result {
        let old = self.key.load(Relaxed);
        let stride = queue.stride;
        let count = queue.window.used();
        let places = saved.chunks_exact_mut(stride).zip(ids.iter_mut());
        for ((bytes, id), at) in places.zip(0..count) {
            let slot = queue.window.slot(queue.window.tail().plus(at));
            self.memory.buf.read(slot * stride, bytes)?;
            wqe::change_key(bytes, old, key);
            *id = *queue.ids.get(slot).ok_or(EINVAL)?;
        }
        queue.window.reset();
        let places = saved.chunks_exact(stride).zip(ids.iter());
        for ((bytes, id), slot) in places.zip(0..count as usize) {
            self.memory.buf.write(slot * stride, bytes)?;
            *queue.ids.get_mut(slot).ok_or(EINVAL)? = *id;
            queue.window.post().ok_or(EINVAL)?;
        }
        Ok(())
    }
}
