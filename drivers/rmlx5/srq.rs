// SPDX-License-Identifier: GPL-2.0
//! Shared receive queues that a process posts to.
//!
//! With ISSI 1 the hardware object is a receive memory pool (RMP); its number is what QPs and events
//! name. Those of extended reliable connections are objects of their own, in [`xrc`]. Source:
//! ib/srq_cmd.c.

mod xrc;

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use self::xrc::{
    ArmXrcSrq,
    QueryXrcSrq, //
};
pub(crate) use self::xrc::{
    CreateXrcSrq,
    DestroyXrcSrq,
    Xrc, //
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
        CmdError,
        Command, //
    },
    cq::{
        leak_if_in_doubt,
        leak_with_object, //
    },
    plain_command, //
};

struct CreateRmp<'a> {
    config: &'a Config,
    memory: Memory<'a>,
    record: u64,
}

impl Command for CreateRmp<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_RMP;
    type In = ifc::create_rmp_in;
    type Out = ifc::create_rmp_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.memory.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(
                field!(create_rmp_in, ctx.state),
                raw::MLX5_RMPC_STATE_RDY.into(),
            )
            .with(span!(create_rmp_in, ctx.wq), |wq| {
                wq.set(field!(wq, wq_type), raw::MLX5_WQ_TYPE_LINKED_LIST.into())
                    .set(field!(wq, log_wq_stride), self.config.log_stride.into())
                    .set(field!(wq, log_wq_sz), self.config.log_entries.into())
                    .set(field!(wq, page_offset), self.memory.offset())
                    .set(field!(wq, pd), self.config.pd.into())
                    .set(field!(wq, dbr_addr), self.record);
            });
        self.memory
            .write_pas(input.raw(span!(create_rmp_in, ctx.wq.pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_rmp_out, rmpn)))
    }
}

struct ArmRmp {
    number: u32,
    limit: u16,
}

impl Command for ArmRmp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_RMP;
    type In = ifc::modify_rmp_in;
    type Out = ifc::modify_rmp_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let ready = raw::MLX5_RMPC_STATE_RDY.into();
        input
            .set(field!(modify_rmp_in, rmp_state), ready)
            .set(field!(modify_rmp_in, rmpn), self.number.into())
            .set_flag(field!(modify_rmp_in, bitmask.lwm), true)
            .set(field!(modify_rmp_in, ctx.state), ready)
            .set(field!(modify_rmp_in, ctx.wq.lwm), self.limit.into());
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

struct QueryRmp {
    number: u32,
}

impl Command for QueryRmp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_RMP;
    type In = ifc::query_rmp_in;
    type Out = ifc::query_rmp_out;
    type Output = u16;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_rmp_in, rmpn), self.number.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u16> {
        // CAST: a field of 16 bits.
        Some(output.get(field!(query_rmp_out, rmp_context.wq.lwm)) as u16)
    }
}

plain_command! {
    /// DESTROY_RMP.
    DestroyRmp, MLX5_CMD_OP_DESTROY_RMP, destroy_rmp_in, destroy_rmp_out, number: u32 => rmpn
}

/// What a user's SRQ is made of.
pub(crate) struct Config {
    /// Number of its domain.
    pub(crate) pd: u32,
    /// log2 of the receives.
    pub(crate) log_entries: u8,
    /// log2 of the bytes of each.
    pub(crate) log_stride: u8,
    /// For extended reliable connections.
    pub(crate) xrc: Option<Xrc>,
}

/// A user's SRQ of the current device generation.
pub(crate) struct UserSrq {
    number: u32,
    is_xrc: bool,
    buf: UserBuf,
    record: UserRecord,
    _counted: Counted,
}

impl UserSrq {
    /// Creates the SRQ in `buf`, which has room for it. Sleeps. `ENOMEM` when the HCA has no more.
    pub(crate) fn create(
        cmd: &Cmd,
        config: &Config,
        buf: UserBuf,
        record: UserRecord,
    ) -> Result<Self, CmdError> {
        let memory = Memory::User(&buf);
        let created = match config.xrc {
            None => cmd.exec(&CreateRmp {
                config,
                memory,
                record: record.address(),
            }),
            Some(xrc) => cmd.exec(&CreateXrcSrq {
                config,
                xrc,
                memory,
                record: record.address(),
            }),
        };
        match created {
            Ok(number) => Ok(Self {
                number,
                is_xrc: config.xrc.is_some(),
                buf,
                record,
                _counted: Counted::new(Kind::Srq),
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

    /// Asks for one event when fewer than `limit` receives are left. Sleeps.
    pub(crate) fn arm(&self, cmd: &Cmd, limit: u16) -> Result<(), CmdError> {
        let number = self.number;
        match self.is_xrc {
            false => cmd.exec(&ArmRmp { number, limit }),
            true => cmd.exec(&ArmXrcSrq { number, limit }),
        }
    }

    /// The limit that is armed; 0: none. Sleeps.
    pub(crate) fn limit(&self, cmd: &Cmd) -> Result<u16, CmdError> {
        let number = self.number;
        match self.is_xrc {
            false => cmd.exec(&QueryRmp { number }),
            true => cmd.exec(&QueryXrcSrq { number }),
        }
    }

    /// Destroys the SRQ. Memory that the device may still use is not freed.
    pub(crate) fn destroy(self, cmd: &Cmd) {
        let number = self.number;
        let destroyed = match self.is_xrc {
            false => cmd.exec(&DestroyRmp { number }),
            true => cmd.exec(&DestroyXrcSrq { number }),
        };
        if let Err(error) = destroyed {
            leak_with_object(&error, (self.buf, self.record));
        }
    }
}
