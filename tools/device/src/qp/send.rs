// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The send queue: fetching requests.

use super::wqe::{BadWqe, Control, Queue, Wqe, MAX_WQE, WQEBB};
use super::{Kind, Qp};
use crate::{env::Env, host::DmaError, push::Pushed, violation::Failure};
use roce::Psn;

/// Position in the send queue. Counters are in WQEBBs and run freely.
#[derive(Clone, Debug)]
pub struct SendQueue {
    /// log2 of the WQEBBs; `None` without send queue.
    pub log: Option<u8>,
    /// Where it starts in the buffer.
    pub start: u64,
    /// Next block to fetch.
    pub next: u16,
    /// Blocks posted, as last read from the record.
    pub posted: u16,
    /// The next request, when its doorbell brought it.
    pub pushed: Option<Pushed>,
}

/// A request on its way.
#[derive(Debug)]
pub struct Flight {
    /// The request.
    pub wqe: Wqe,
    /// First PSN, once it has one.
    pub first: Option<Psn>,
    /// PSNs it takes.
    pub packets: u32,
    /// Response packets received (READ).
    pub received: u32,
    /// Ready to be reported when it is the oldest.
    pub done: bool,
    /// Failed: reported when it is the oldest.
    pub error: Option<Failure>,
    /// Bytes of a UMR request.
    pub umr: Vec<u8>,
}

impl Flight {
    /// A request that has just been fetched.
    pub fn new(wqe: Wqe, packets: u32) -> Self {
        Self {
            wqe,
            first: None,
            packets,
            received: 0,
            done: false,
            error: None,
            umr: Vec::new(),
        }
    }

    /// The PSN behind its last one.
    pub fn end(&self) -> Option<Psn> {
        self.first.map(|first| first.plus(self.packets))
    }
}

/// Why nothing can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Everything posted has been fetched.
    #[error("nothing posted")]
    Empty,
    /// The record is more than a queue ahead.
    #[error("doorbell record {posted} is more than the queue ahead of {next}")]
    Overposted {
        /// Blocks posted.
        posted: u16,
        /// Next block.
        next: u16,
    },
    /// The queue or its record cannot be read.
    #[error("DMA error: {0}")]
    Dma(#[from] DmaError),
}

impl SendQueue {
    /// Fresh counters.
    pub fn reset(&mut self) {
        self.next = 0;
        self.posted = 0;
        self.pushed = None;
    }
}

impl Qp {
    /// Reads the producer counter from the doorbell record.
    pub fn refresh_sq(&mut self, env: &mut Env) -> Result<(), FetchError> {
        let Some(log) = self.sq.log else {
            return Ok(());
        };
        // CAST: counters are 16 bits wide.
        self.sq.posted = env.read_be32(self.record + 4)? as u16;
        let ahead = self.sq.posted.wrapping_sub(self.sq.next);
        if u32::from(ahead) > 1 << log {
            return Err(FetchError::Overposted {
                posted: self.sq.posted,
                next: self.sq.next,
            });
        }
        Ok(())
    }

    /// Takes the request that came with a doorbell, if it is the next one: what was posted before
    /// it has been fetched, so nothing older can be overtaken.
    pub fn push(&mut self, pushed: Option<Pushed>) {
        self.sq.pushed = pushed.filter(|pushed| pushed.index() == self.sq.next);
    }

    /// First block of the next request, with the blocks that are posted; nothing is consumed.
    fn control(&self, env: &mut Env, raw: &mut [u8]) -> Result<u16, FetchError> {
        let log = self.sq.log.ok_or(FetchError::Empty)?;
        let ready = self.sq.posted.wrapping_sub(self.sq.next);
        if ready == 0 {
            return Err(FetchError::Empty);
        }
        if let Some(pushed) = &self.sq.pushed {
            pushed.copy_to(raw);
            return Ok(ready);
        }
        let mask = (1u64 << log) - 1;
        let at = self.sq.start + (u64::from(self.sq.next) & mask) * WQEBB as u64;
        self.buffer.read(env, at, raw)?;
        Ok(ready)
    }

    /// Fetches the next request: `raw` gets its bytes. A malformed one takes its blocks all the
    /// same.
    pub fn fetch(
        &mut self,
        env: &mut Env,
        raw: &mut [u8; MAX_WQE],
    ) -> Result<(Control, Result<Wqe, BadWqe>), FetchError> {
        // PANIC: one block is shorter than the longest request.
        let ready = self.control(env, &mut raw[..WQEBB])?;
        let pushed = self.sq.pushed.take();
        let index = self.sq.next;
        let control = match Control::parse(&raw[..16]) {
            Ok(control) => control,
            Err(bad) => {
                self.sq.next = index.wrapping_add(1);
                return Ok((Control::broken(&raw[..16], index), Err(bad)));
            }
        };
        let blocks = control.blocks().max(1);
        self.sq.next = index.wrapping_add(blocks.min(ready));
        let checked = if blocks > ready || control.ds == 0 {
            Err(BadWqe::Size(control.ds))
        } else if control.index != index {
            Err(BadWqe::Index {
                found: control.index,
                expected: index,
            })
        } else if control.qpn != self.qpn {
            Err(BadWqe::Qpn {
                found: control.qpn,
                expected: self.qpn,
            })
        } else {
            Ok(())
        };
        if let Err(bad) = checked {
            return Ok((control.at(index), Err(bad)));
        }
        if let Some(pushed) = pushed {
            env.counters.blueflame_taken += 1;
            pushed.copy_to(raw);
            // PANIC: `ds` has six bits.
            let bytes = &raw[..usize::from(control.ds) * 16];
            return Ok((control, Wqe::parse(control, bytes, self.queue())));
        }
        let log = self.sq.log.unwrap_or(0);
        let mask = (1u16 << log.min(15)).wrapping_sub(1);
        for block in 1..blocks {
            let slot = index.wrapping_add(block) & mask;
            let at = self.sq.start + u64::from(slot) * WQEBB as u64;
            let from = usize::from(block) * WQEBB;
            let to = (from + WQEBB).min(MAX_WQE);
            // PANIC: at most 16 blocks, the last one cut.
            self.buffer.read(env, at, &mut raw[from..to])?;
        }
        // PANIC: `ds` has six bits.
        let bytes = &raw[..usize::from(control.ds) * 16];
        Ok((control, Wqe::parse(control, bytes, self.queue())))
    }

    /// Takes the next request without looking at more than its control segment.
    pub fn skip(&mut self, env: &mut Env) -> Result<Control, FetchError> {
        let mut raw = [0; 16];
        let ready = self.control(env, &mut raw)?;
        self.sq.pushed = None;
        let index = self.sq.next;
        let control = Control::parse(&raw).unwrap_or_else(|_| Control::broken(&raw, index));
        let blocks = control.blocks().clamp(1, ready);
        self.sq.next = index.wrapping_add(blocks);
        Ok(control.at(index))
    }

    fn queue(&self) -> Queue {
        match self.kind {
            Kind::Rc => Queue::Rc,
            Kind::Xrc => Queue::Xrc,
            Kind::Uc => Queue::Uc,
            Kind::Ud | Kind::Gsi => Queue::Ud,
            Kind::Umr => Queue::Umr,
        }
    }
}
