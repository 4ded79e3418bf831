// SPDX-License-Identifier: GPL-2.0
//! Receive queues of the interface.

use kernel::prelude::*;
use mlx5_hw::ring::Ring;

use super::{
    base::Base,
    q_counter::QCounter, //
};
use crate::{
    buf::{
        Buf,
        Memory, //
    },
    census::{
        Counted,
        Kind, //
    },
    cq::leak_if_in_doubt,
    home::{
        Home,
        Lent, //
    },
    queue_state::State,
    record::{
        Record,
        Records, //
    },
    rq::{
        CreateRq,
        DestroyRq,
        MoveRq,
        Shape,
        LOG_SEGMENT, //
    },
};

struct Lot {
    buf: Buf,
    records: Records,
}

/// A receive queue that is ready.
pub(super) struct Rq {
    number: u32,
    ring: Ring,
    log_segments: u8,
    memory: Lent<Lot>,
    home: Home,
    let_go: bool,
    _counted: Counted,
}

impl Rq {
    /// Makes a queue whose completions go to `cqn`. Sleeps.
    pub(super) fn new(home: &Home, base: &Base, cqn: u32, shape: Shape) -> Result<Self> {
        let device = home.device();
        let ring = Ring::new(shape.log).ok_or(EINVAL)?;
        let stride = LOG_SEGMENT + shape.log_segments;
        // CAST: `usize` has 64 bits here.
        let bytes = (ring.entries() as usize) << stride;
        let memory = Lot {
            buf: Buf::new(device.pdev.device(), device.node, bytes)?,
            records: Records::new(device.pdev.device())?,
        };
        let made = home.cmd().exec(&CreateRq {
            shape,
            pd: base.pd(),
            cqn,
            counter: base.counter().map_or(0, QCounter::number),
            memory: Memory::Own(&memory.buf),
            record: memory.records.address(Record::Qp),
            user_index: 0,
        });
        let number = match made {
            Ok(number) => number,
            Err(error) => {
                leak_if_in_doubt(&error, memory);
                return Err(error.into());
            }
        };
        let rq = Self {
            number,
            ring,
            log_segments: shape.log_segments,
            memory: Lent::new(memory),
            home: home.clone(),
            let_go: false,
            _counted: Counted::new(Kind::Rq),
        };
        home.cmd().exec(&MoveRq {
            number,
            from: State::Reset,
            to: State::Ready,
        })?;
        Ok(rq)
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Its geometry, in WQEs.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Bytes of a WQE.
    pub(super) fn stride(&self) -> usize {
        1 << (LOG_SEGMENT + self.log_segments)
    }

    /// Scatter entries of a WQE.
    pub(super) fn segments(&self) -> usize {
        1 << self.log_segments
    }

    /// Its WQEs.
    pub(super) fn buf(&self) -> Result<&Buf> {
        Ok(&self.memory.get()?.buf)
    }

    /// Its doorbell record.
    pub(super) fn records(&self) -> Result<&Records> {
        Ok(&self.memory.get()?.records)
    }

    /// Takes it from the card; whether the card has let go of its memory and of all pages.
    pub(super) fn end(&mut self) -> bool {
        if !self.let_go {
            self.let_go = self.home.end(&DestroyRq {
                number: self.number,
            });
        }
        self.let_go
    }
}

impl Drop for Rq {
    fn drop(&mut self) {
        let let_go = self.end();
        self.memory.back(let_go);
    }
}
