// SPDX-License-Identifier: GPL-2.0
//! Send and receive queues of users that are not part of a QP of the device. Each has the states RST, RDY
//! and ERR.
//!
//! Source: `create_raw_packet_qp`, `modify_raw_packet_qp_rq` and `create_rq` in ib/qp.c.

use crate::{
    buf::{
        user::{
            UserBuf,
            UserRecord, //
        },
        Memory, //
    },
    census::{
        Counted,
        Kind, //
    },
    cmd::CmdError,
    cq::leak_if_in_doubt,
    home::{
        Home,
        Lent, //
    },
    queue_state::State,
    rq::{
        CreateRq,
        DestroyRq,
        MoveRq,
        QueryRq,
        Shape,
        LOG_SEGMENT, //
    },
    sq::{
        CreateSq,
        DestroySq,
        MoveSq,
        QuerySq, //
    },
};
use kernel::prelude::*;

/// Memory of a queue: WQEs and doorbell record.
pub(super) struct Lot {
    pub(super) buf: UserBuf,
    pub(super) record: UserRecord,
}

/// What a queue is made of beside its memory.
#[derive(Clone, Copy)]
pub(super) struct Config {
    pub(super) pd: u32,
    pub(super) cqn: u32,
    /// What CQEs name it by.
    pub(super) user_index: u32,
}

/// A queue, and the memory that it was given.
pub(super) struct Queue {
    number: u32,
    memory: Lent<Lot>,
    home: Home,
    is_send: bool,
    _counted: Counted,
}

impl Queue {
    /// Makes a send queue of `1 << log` WQEBBs that is rung through page `uar` and sends through TIS `tis`.
    /// Sleeps. `ENOMEM` when the device has no more.
    pub(super) fn send(
        home: &Home,
        config: Config,
        lot: Lot,
        log: u8,
        uar: u32,
        tis: u32,
    ) -> Result<Self> {
        let made = home.cmd().exec(&CreateSq {
            memory: Memory::User(&lot.buf),
            log,
            pd: config.pd,
            cqn: config.cqn,
            uar,
            record: lot.record.address(),
            tis: Some(tis),
            inline_mode: false,
            user_index: config.user_index,
        });
        Self::new(home, lot, made, true)
    }

    /// Makes a receive queue of `1 << log` WQEs of `1 << log_stride` bytes that counts in set `counter`, or
    /// in none. Tags stay in the frames. Sleeps. `ENOMEM` when the device has no more.
    pub(super) fn receive(
        home: &Home,
        config: Config,
        lot: Lot,
        (log, log_stride): (u8, u8),
        counter: u8,
    ) -> Result<Self> {
        let made = home.cmd().exec(&CreateRq {
            shape: Shape {
                log,
                log_segments: log_stride.saturating_sub(LOG_SEGMENT),
                keep_vlan: true,
            },
            pd: config.pd,
            cqn: config.cqn,
            counter,
            memory: Memory::User(&lot.buf),
            record: lot.record.address(),
            user_index: config.user_index,
        });
        Self::new(home, lot, made, false)
    }

    /// `made`: what the device said to the command that gave it the memory.
    fn new(home: &Home, lot: Lot, made: Result<u32, CmdError>, is_send: bool) -> Result<Self> {
        match made {
            Ok(number) => Ok(Self {
                number,
                memory: Lent::new(lot),
                home: home.clone(),
                is_send,
                _counted: Counted::new(if is_send { Kind::Sq } else { Kind::Rq }),
            }),
            Err(error) => {
                leak_if_in_doubt(&error, lot);
                Err(error.into())
            }
        }
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Asks the device. Sleeps.
    pub(super) fn state(&self) -> Result<State> {
        let number = self.number;
        Ok(match self.is_send {
            true => self.home.cmd().exec(&QuerySq { number })?,
            false => self.home.cmd().exec(&QueryRq { number })?,
        })
    }

    /// Moves it from a state that the user takes it to be in. Sleeps. `EINVAL` when it is not.
    pub(super) fn step(&self, from: State, to: State) -> Result {
        let number = self.number;
        match self.is_send {
            true => self.home.cmd().exec(&MoveSq { number, from, to })?,
            false => self.home.cmd().exec(&MoveRq { number, from, to })?,
        }
        Ok(())
    }

    /// Moves it there from where it is: the device may have stopped it by itself. Sleeps.
    pub(super) fn go(&self, to: State) -> Result {
        let from = self.state()?;
        match from == to {
            true => Ok(()),
            false => self.step(from, to),
        }
    }

    /// The generation that it belongs to.
    pub(super) fn home(&self) -> &Home {
        &self.home
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let number = self.number;
        let let_go = match self.is_send {
            true => self.home.end(&DestroySq { number }),
            false => self.home.end(&DestroyRq { number }),
        };
        self.memory.back(let_go);
    }
}
