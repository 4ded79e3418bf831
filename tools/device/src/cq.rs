// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queues: the ring and its doorbell record; arming is in `notify`.
//!
//! | term | meaning |
//! |---|---|
//! | PI, CI | producer index (ours), consumer index (the driver's, word 0 of the record) |
//! | arm | the driver asks for one event for the next CQE past its CI, or the next solicited one |
//! | sequence | two bits of the arm request; software steps them with every event it has seen |
//!
//! Source: include/linux/mlx5/cq.h, drivers/infiniband/hw/mlx5/cq.c.

mod commands;
mod entry;
mod events;
mod notify;
pub use commands::{CreateCq, DestroyCq, ModifyCq, QueryCq};
pub use entry::{Completion, Cqe, CQE_LEN};
pub use events::{arm, expire};
pub(crate) use notify::Moderation;

use crate::{
    buffer::Buffer,
    env::Env, //
    host::DmaError,
    table::{Kind, Object},
};
use mlx5_hw::ring::{Counter, Ring};
use notify::Notify;
use std::time::Duration;

/// Life of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    /// Overrun.
    Overrun,
    /// The ring could not be written.
    Broken,
}

/// What became of a CQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// In the ring; `event` says that a completion event is due now.
    Stored { event: bool },
    /// The ring was full: the queue has just failed.
    Overrun,
    /// The ring could not be written: the queue has just failed.
    Broken(DmaError),
    /// The queue had failed before.
    Dead,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    pub(crate) eqn: u32,
    pub(crate) uar: u32,
    /// 128-byte entries; the completion is in the second half.
    pub(crate) wide: bool,
    /// All completions go to entry 0.
    pub(crate) collapsed: bool,
    /// Overrun is ignored.
    pub(crate) overrun_ignore: bool,
    notify: Notify,
    pub(crate) health: Health,
    ring: Ring,
    buffer: Buffer,
    record: u64,
    pi: Counter,
    /// CI as last read from the record.
    ci: u32,
}

impl Object for Cq {
    const KIND: Kind = Kind::Cq;

    fn footprint(&self) -> u64 {
        footprint(self.buffer.len())
    }
}

/// Context and one translation entry for each page of the ring.
fn footprint(bytes: u64) -> u64 {
    128 + 8 * bytes.div_ceil(4096)
}

const INDEX: u32 = 0xff_ffff;

/// Fixed properties of a new queue.
pub(crate) struct Shape {
    pub(crate) eqn: u32,
    pub(crate) uar: u32,
    pub(crate) wide: bool,
    pub(crate) collapsed: bool,
    pub(crate) overrun_ignore: bool,
    pub(crate) moderation: Moderation,
    pub(crate) ring: Ring,
    pub(crate) buffer: Buffer,
    pub(crate) record: u64,
}

impl Cq {
    /// An empty queue. The driver has preset the owner bits.
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            eqn: shape.eqn,
            uar: shape.uar,
            wide: shape.wide,
            collapsed: shape.collapsed,
            overrun_ignore: shape.overrun_ignore,
            notify: Notify::new(shape.moderation),
            health: Health::Good,
            ring: shape.ring,
            buffer: shape.buffer,
            record: shape.record,
            pi: Counter::new(0),
            ci: 0,
        }
    }

    /// Geometry.
    pub(crate) fn ring(&self) -> Ring {
        self.ring
    }

    /// Address of the doorbell record.
    pub(crate) fn record(&self) -> u64 {
        self.record
    }

    /// Producer index, 24 bits.
    pub(crate) fn producer(&self) -> u32 {
        self.pi.low24()
    }

    /// Consumer index as last seen, 24 bits.
    pub(crate) fn consumer(&self) -> u32 {
        self.ci
    }

    fn outstanding(&self) -> u32 {
        self.pi.low24().wrapping_sub(self.ci) & INDEX
    }

    /// CQEs the driver has not consumed yet, by its record.
    pub(crate) fn refresh(&mut self, env: &mut Env) -> Result<u32, DmaError> {
        self.ci = env.read_be32(self.record)? & INDEX;
        Ok(self.outstanding())
    }

    fn is_full(&mut self, env: &mut Env) -> Result<bool, DmaError> {
        if self.outstanding() < self.ring.entries() {
            return Ok(false);
        }
        Ok(self.refresh(env)? >= self.ring.entries())
    }

    /// Writes a completion.
    pub(crate) fn push(&mut self, env: &mut Env, now: Duration, cqe: Cqe) -> Pushed {
        if self.health != Health::Good {
            return Pushed::Dead;
        }
        match self.is_full(env) {
            Ok(true) if !self.overrun_ignore => {
                self.health = Health::Overrun;
                return Pushed::Overrun;
            }
            Ok(_) => {}
            Err(error) => return self.broken(error),
        }
        let alarming = cqe.wakes_solicited();
        if let Err(error) = self.store(env, cqe) {
            return self.broken(error);
        }
        Pushed::Stored {
            event: self.notify.completed(self.pi, alarming, now),
        }
    }

    /// Nothing can be written any more; whether something could before.
    pub(crate) fn lose(&mut self) -> bool {
        let good = self.health == Health::Good;
        if good {
            self.health = Health::Broken;
        }
        good
    }

    fn broken(&mut self, error: DmaError) -> Pushed {
        self.health = Health::Broken;
        Pushed::Broken(error)
    }

    /// Writes an entry and steps the PI.
    fn store(&mut self, env: &mut Env, cqe: Cqe) -> Result<(), DmaError> {
        let slot = if self.collapsed {
            0
        } else {
            self.ring.slot(self.pi)
        };
        let (stride, half) = if self.wide { (128, 64) } else { (64, 0) };
        let bytes = cqe.owned(self.ring.owner(self.pi));
        self.buffer
            .publish(env, u64::from(slot) * stride + half, &bytes)?;
        self.pi = self.pi.plus(1);
        Ok(())
    }

    /// An arm doorbell: sequence in bits 29:28, command in bit 24, CI in the low 24 bits.
    /// Whether a completion event is due now.
    pub(crate) fn arm(&mut self, word: u32, now: Duration) -> bool {
        if self.health != Health::Good {
            return false;
        }
        self.notify.arm(word, now)
    }

    /// One line for a dump.
    pub fn describe(&self, cqn: u32) -> String {
        format!(
            "CQ {cqn:#x}: EQ {:#x} entries {} pi {:#x} ci {:#x} {:?} {}",
            self.eqn,
            self.ring.entries(),
            self.pi.low24(),
            self.ci,
            self.health,
            self.notify,
        )
    }

    /// Moves to a new buffer: one resize CQE ends the old one, all later CQEs go to the new one.
    ///
    /// # Errors
    /// [`ResizeError::TooSmall`] when the unconsumed CQEs and the resize CQE do not fit the new
    /// ring or the old one has no room for it; nothing has changed then.
    pub(crate) fn resize(
        &mut self,
        env: &mut Env,
        ring: Ring,
        buffer: Buffer,
        wide: bool,
    ) -> Result<(), ResizeError> {
        let outstanding = self.refresh(env)?;
        if outstanding >= ring.entries() || outstanding >= self.ring.entries() {
            return Err(ResizeError::TooSmall(outstanding));
        }
        self.store(env, Cqe::resize())?;
        self.ring = ring;
        self.buffer = buffer;
        self.wide = wide;
        Ok(())
    }
}

/// Why a queue cannot be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResizeError {
    #[error("{0} CQEs are not consumed yet")]
    TooSmall(u32),
    #[error(transparent)]
    Dma(#[from] DmaError),
}
