// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive queue: taking requests, from the queue of the QP or from a shared one.

use super::{Qp, Segments};
use crate::{
    host::DmaError, //
    srq::{Srq, TakeError},
    table::Table,
};

/// Where receives come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere.
    None,
    /// The QP's own queue.
    Own {
        /// log2 of the requests.
        log: u8,
        /// log2 of the bytes of a request.
        log_stride: u8,
    },
    /// A shared queue of this number.
    Shared(u32),
}

/// Position in the receive queue. Counters are in requests and run freely.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveQueue {
    /// Where requests come from.
    pub source: Source,
    /// Next request.
    pub next: u16,
}

impl ReceiveQueue {
    /// Fresh counters.
    pub fn reset(&mut self) {
        self.next = 0;
    }
}

/// A receive request taken from its queue.
#[derive(Debug)]
pub struct Received {
    /// What its completion carries as counter.
    pub counter: u16,
    /// Where the data goes.
    pub data: Segments,
    /// The shared queue fell below its limit: its number.
    pub limit: Option<u32>,
}

/// Why no request can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// None posted.
    #[error("no receive posted")]
    Empty,
    /// The record is more than a queue ahead.
    #[error("doorbell record is {0} requests ahead, more than the queue")]
    Overposted(u16),
    /// The queue or its record cannot be read.
    #[error("DMA error: {0}")]
    Dma(#[from] DmaError),
    /// The shared queue is broken.
    #[error("shared receive queue {srqn:#x}: {why}")]
    Shared {
        /// Its number.
        srqn: u32,
        /// What is wrong.
        why: TakeError,
    },
}

impl Qp {
    /// Requests posted to the QP's own queue and not taken.
    fn ready(&self, env: &mut crate::env::Env, log: u8) -> Result<u16, ReceiveError> {
        // CAST: counters are 16 bits wide.
        let posted = env.read_be32(self.record)? as u16;
        let ready = posted.wrapping_sub(self.rq.next);
        if u32::from(ready) > 1 << log {
            return Err(ReceiveError::Overposted(ready));
        }
        Ok(ready)
    }

    /// Requests that were ever posted to the QP's own queue, as the record says now; those that were taken when
    /// there is no such queue or the record cannot be read.
    pub fn posted_receives(&self, env: &mut crate::env::Env) -> u16 {
        match self.rq.source {
            // CAST: counters are 16 bits wide.
            Source::Own { .. } => env
                .read_be32(self.record)
                .map_or(self.rq.next, |posted| posted as u16),
            _ => self.rq.next,
        }
    }

    /// Takes the next receive request.
    pub fn take(
        &mut self,
        env: &mut crate::env::Env,
        srqs: &mut Table<Srq>,
    ) -> Result<Received, ReceiveError> {
        match self.receive_source() {
            Source::None => Err(ReceiveError::Empty),
            Source::Own { log, log_stride } => {
                if self.ready(env, log)? == 0 {
                    return Err(ReceiveError::Empty);
                }
                let slot = u64::from(self.rq.next) & ((1 << log) - 1);
                let mut raw = [0; 2048];
                // PANIC: the stride code has three bits: at most 2 KiB.
                let raw = &mut raw[..1 << log_stride];
                self.buffer.read(env, slot << log_stride, raw)?;
                let counter = self.rq.next;
                self.rq.next = counter.wrapping_add(1);
                Ok(Received {
                    counter,
                    data: Segments::of_receive(raw),
                    limit: None,
                })
            }
            Source::Shared(srqn) => {
                let srq = srqs.get_mut(srqn).ok_or(ReceiveError::Empty)?;
                match srq.take(env) {
                    Ok(taken) => Ok(Received {
                        counter: taken.index,
                        data: taken.data,
                        limit: taken.limit.then_some(srqn),
                    }),
                    Err(TakeError::Empty) => Err(ReceiveError::Empty),
                    Err(why) => Err(ReceiveError::Shared { srqn, why }),
                }
            }
        }
    }

    /// Counter of the next posted request of the own queue, which is then used up; for flushing.
    pub fn skip_receive(&mut self, env: &mut crate::env::Env) -> Result<Option<u16>, ReceiveError> {
        let Source::Own { log, .. } = self.rq.source else {
            return Ok(None);
        };
        if self.ready(env, log)? == 0 {
            return Ok(None);
        }
        let counter = self.rq.next;
        self.rq.next = counter.wrapping_add(1);
        Ok(Some(counter))
    }
}
