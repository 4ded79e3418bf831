// SPDX-License-Identifier: GPL-2.0
//! Send queues of the interface.

use kernel::prelude::*;
use mlx5_hw::ring::Ring;

use super::base::Base;
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
    sq::{
        CreateSq,
        DestroySq,
        MoveSq, //
    },
    wq::SEND_WQE_BYTES, //
};

struct Lot {
    buf: Buf,
    records: Records,
}

/// A send queue that is ready.
pub(super) struct Sq {
    number: u32,
    ring: Ring,
    memory: Lent<Lot>,
    home: Home,
    let_go: bool,
    _counted: Counted,
}

impl Sq {
    /// Makes a queue of `1 << log` basic blocks whose completions go to `cqn`. Sleeps.
    pub(super) fn new(
        home: &Home,
        base: &Base,
        cqn: u32,
        log: u8,
        inline_mode: bool,
    ) -> Result<Self> {
        let device = home.device();
        let ring = Ring::new(log).ok_or(EINVAL)?;
        // CAST: `usize` has 64 bits here.
        let bytes = ring.entries() as usize * SEND_WQE_BYTES;
        let memory = Lot {
            buf: Buf::new(device.pdev.device(), device.node, bytes)?,
            records: Records::new(device.pdev.device())?,
        };
        let made = home.cmd().exec(&CreateSq {
            memory: Memory::Own(&memory.buf),
            log: ring.log(),
            pd: base.pd(),
            cqn,
            uar: device.uar()?.index(),
            record: memory.records.address(Record::Qp),
            tis: Some(base.tis()),
            inline_mode,
            user_index: 0,
        });
        let number = match made {
            Ok(number) => number,
            Err(error) => {
                leak_if_in_doubt(&error, memory);
                return Err(error.into());
            }
        };
        let sq = Self {
            number,
            ring,
            memory: Lent::new(memory),
            home: home.clone(),
            let_go: false,
            _counted: Counted::new(Kind::Sq),
        };
        home.cmd().exec(&MoveSq {
            number,
            from: State::Reset,
            to: State::Ready,
        })?;
        Ok(sq)
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Its geometry, in basic blocks.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Its blocks.
    pub(super) fn buf(&self) -> Result<&Buf> {
        Ok(&self.memory.get()?.buf)
    }

    /// Its doorbell record.
    pub(super) fn records(&self) -> Result<&Records> {
        Ok(&self.memory.get()?.records)
    }

    /// Takes it from the card; whether the card has let go of its memory and of all packets.
    pub(super) fn end(&mut self) -> bool {
        if !self.let_go {
            self.let_go = self.home.end(&DestroySq {
                number: self.number,
            });
        }
        self.let_go
    }
}

impl Drop for Sq {
    fn drop(&mut self) {
        let let_go = self.end();
        self.memory.back(let_go);
    }
}
