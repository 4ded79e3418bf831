// SPDX-License-Identifier: GPL-2.0
//! Completion queues that a process polls: the driver knows where they are, not what is in them.
//!
//! Who polls sees [`Cqe::Resize`](super::cqe::Cqe::Resize) too, and copies what is left in the old
//! buffer by itself. Source: `mlx5_resize_cq` of libmlx5.

use kernel::prelude::*;

use super::{
    leak_if_in_doubt,
    leak_with_object,
    CreateCq,
    DestroyCq,
    ModerateCq,
    Moderation,
    ResizeCq, //
};
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
    cmd::{
        Cmd,
        CmdError, //
    },
};

/// What a user's CQ is made of.
pub(crate) struct Config {
    /// UAR page that it is armed through.
    pub(crate) uar: u32,
    /// EQ of its events.
    pub(crate) eqn: u8,
    /// Entries of 128 bytes instead of 64.
    pub(crate) long: bool,
    /// The user promises that there is always room.
    pub(crate) ignore_overrun: bool,
}

/// A user's CQ of the current device generation.
pub(crate) struct UserCq {
    number: u32,
    long: bool,
    buf: UserBuf,
    record: UserRecord,
    _counted: Counted,
}

impl UserCq {
    /// Creates a CQ with `1 << log` entries in `buf`, which has room for them. Sleeps. `ENOMEM` when
    /// the HCA has no more CQs.
    pub(crate) fn create(
        cmd: &Cmd,
        config: &Config,
        log: u8,
        buf: UserBuf,
        record: UserRecord,
    ) -> Result<Self, CmdError> {
        let created = cmd.exec(&CreateCq {
            memory: Memory::User(&buf),
            log,
            long: config.long,
            ignore_overrun: config.ignore_overrun,
            uar: config.uar,
            eqn: config.eqn,
            record: record.address(),
            moderation: Moderation::default(),
        });
        match created {
            Ok(number) => Ok(Self {
                number,
                long: config.long,
                buf,
                record,
                _counted: Counted::new(Kind::Cq),
            }),
            Err(error) => {
                leak_if_in_doubt(&error, (buf, record));
                Err(error)
            }
        }
    }

    /// The number the device gave it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Bytes of an entry.
    pub(crate) fn entry_bytes(&self) -> usize {
        if self.long {
            128
        } else {
            64
        }
    }

    /// Goes on with `1 << log` entries in `buf`. The device has left the old buffer when this
    /// succeeds; otherwise nothing has changed. Sleeps.
    pub(crate) fn resize(&mut self, cmd: &Cmd, log: u8, buf: UserBuf) -> Result<(), CmdError> {
        let resized = cmd.exec(&ResizeCq {
            cqn: self.number,
            memory: Memory::User(&buf),
            log,
            long: self.long,
        });
        match resized {
            Ok(()) => {
                self.buf = buf;
                Ok(())
            }
            Err(error) => {
                leak_if_in_doubt(&error, buf);
                Err(error)
            }
        }
    }

    /// Sets when the event is raised. Sleeps.
    pub(crate) fn moderate(&self, cmd: &Cmd, moderation: Moderation) -> Result<(), CmdError> {
        cmd.exec(&ModerateCq {
            cqn: self.number,
            moderation,
        })
    }

    /// Destroys the CQ. Memory that the device may still write is not freed.
    pub(crate) fn destroy(self, cmd: &Cmd) {
        if let Err(error) = cmd.exec(&DestroyCq {
            number: self.number,
        }) {
            leak_with_object(&error, (self.buf, self.record));
        }
    }
}
