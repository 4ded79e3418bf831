// SPDX-License-Identifier: GPL-2.0
//! Queue pairs that a process posts to: the driver creates them, moves them and destroys them.
//!
//! The context of a transition comes from who knows the verbs; what belongs to the QP itself is added
//! here. Source of the fields: `create_user_qp` and `__mlx5_ib_modify_qp` in ib/qp.c.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mlx5_hw::{
    field,
    field::{
        bytes_of,
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use super::{
    query::{
        QueryQp,
        Snapshot, //
    },
    transition::{
        ToError,
        ToReset, //
    },
    CreateQp,
    DestroyQp,
    Receives, //
};
use crate::{
    buf::{
        user::{
            UserBuf,
            UserRecord, //
        },
        Buf,
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
    record::{
        Record,
        Records, //
    }, //
};

/// Bytes of the context of a QP.
pub(crate) const CONTEXT: usize = bytes_of::<ifc::qpc>();

/// Transport services of users' QPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
    /// Extended reliable connection, either end.
    Xrc,
    /// Unreliable datagrams to QP 1.
    Gsi,
}

impl Transport {
    const fn code(self) -> u32 {
        match self {
            Self::Rc => raw::MLX5_QP_ST_RC,
            Self::Uc => raw::MLX5_QP_ST_UC,
            Self::Ud => raw::MLX5_QP_ST_UD,
            Self::Xrc => raw::MLX5_QP_ST_XRC,
            Self::Gsi => raw::MLX5_QP_ST_QP1,
        }
    }
}

/// What a user's QP is made of.
pub(crate) struct Config {
    /// Transport service.
    pub(crate) transport: Transport,
    /// UAR page that it is rung through; 0 for one that sends nothing.
    pub(crate) uar: u32,
    /// Number of its domain.
    pub(crate) pd: u32,
    /// CQs of sends and of receives.
    pub(crate) cqns: (u32, u32),
    /// The shared queue that receives come from.
    pub(crate) srqn: Option<u32>,
    /// log2 of the WQEs of its own receive queue, and log2 of the bytes of each.
    pub(crate) receive: Option<(u8, u8)>,
    /// log2 of the WQEBBs of the send queue.
    pub(crate) send: Option<u8>,
    /// XRC domain and an SRQ that stands for those of the domain, for XRC.
    pub(crate) xrc: Option<(u32, u32)>,
    /// Datagrams to a group do not come back to whoever sent them.
    pub(crate) no_multicast_loopback: bool,
    /// What CQEs name the QP by, when they can carry that.
    pub(crate) user_index: Option<u32>,
}

/// A step between two states that carries a context. The optional parameters are a mask of
/// `MLX5_QP_OPTPAR_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// RST2INIT_QP.
    RstToInit,
    /// INIT2INIT_QP.
    InitToInit,
    /// INIT2RTR_QP.
    InitToRtr,
    /// RTR2RTS_QP.
    RtrToRts,
    /// RTS2RTS_QP.
    RtsToRts,
    /// SQERR2RTS_QP.
    SqErrToRts,
}

struct Request<'a> {
    number: u32,
    optional: u32,
    context: &'a [u8; CONTEXT],
}

macro_rules! transitions {
    ($($name:ident, $opcode:ident, $in:ident, $out:ident;)*) => {
        $(
            struct $name<'a>(Request<'a>);

            impl Command for $name<'_> {
                const OPCODE: u32 = raw::$opcode;
                type In = ifc::$in;
                type Out = ifc::$out;
                type Output = ();

                fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
                    input
                        .set(field!($in, qpn), self.0.number.into())
                        .set(field!($in, opt_param_mask), self.0.optional.into())
                        .raw(span!($in, qpc))
                        .copy_from_slice(self.0.context);
                    Ok(())
                }

                fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
                    Some(())
                }
            }
        )*
    };
}

transitions! {
    RstToInit, MLX5_CMD_OP_RST2INIT_QP, rst2init_qp_in, rst2init_qp_out;
    InitToInit, MLX5_CMD_OP_INIT2INIT_QP, init2init_qp_in, init2init_qp_out;
    InitToRtr, MLX5_CMD_OP_INIT2RTR_QP, init2rtr_qp_in, init2rtr_qp_out;
    RtrToRts, MLX5_CMD_OP_RTR2RTS_QP, rtr2rts_qp_in, rtr2rts_qp_out;
    RtsToRts, MLX5_CMD_OP_RTS2RTS_QP, rts2rts_qp_in, rts2rts_qp_out;
    SqErrToRts, MLX5_CMD_OP_SQERR2RTS_QP, sqerr2rts_qp_in, sqerr2rts_qp_out;
}

struct Multicast<'a, const ATTACH: bool> {
    number: u32,
    gid: &'a [u8; 16],
}

impl Command for Multicast<'_, true> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ATTACH_TO_MCG;
    type In = ifc::attach_to_mcg_in;
    type Out = ifc::attach_to_mcg_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(attach_to_mcg_in, qpn), self.number.into())
            .raw(span!(attach_to_mcg_in, multicast_gid))
            .copy_from_slice(self.gid);
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

impl Command for Multicast<'_, false> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DETACH_FROM_MCG;
    type In = ifc::detach_from_mcg_in;
    type Out = ifc::detach_from_mcg_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(detach_from_mcg_in, qpn), self.number.into())
            .raw(span!(detach_from_mcg_in, multicast_gid))
            .copy_from_slice(self.gid);
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// Queues of the driver's own, receives first, and their doorbell record.
pub(crate) struct OwnMemory {
    pub(crate) buf: Buf,
    pub(crate) records: Records,
}

/// Memory of the queues and their doorbell record.
pub(crate) enum QueueMemory {
    /// Of a process; a QP without queues of its own has no buffer.
    User(Option<UserBuf>, UserRecord),
    /// Of the driver, for others in the kernel.
    Own(Arc<OwnMemory>),
    /// There are no queues.
    Nothing,
}

impl QueueMemory {
    fn buffer(&self) -> Option<Memory<'_>> {
        match self {
            Self::User(buf, _) => buf.as_ref().map(Memory::User),
            Self::Own(own) => Some(Memory::Own(&own.buf)),
            Self::Nothing => None,
        }
    }

    fn record(&self) -> u64 {
        match self {
            Self::User(_, record) => record.address(),
            Self::Own(own) => own.records.address(Record::Qp),
            Self::Nothing => 0,
        }
    }
}

/// A QP of the current device generation that others post to: a process, or somebody in the kernel.
pub(crate) struct UserQp {
    number: u32,
    config: Config,
    memory: QueueMemory,
    _counted: Counted,
}

impl UserQp {
    /// Creates the QP in RESET. The memory holds the receive queue and, behind it, the send queue; a QP
    /// without either has none, and need not have a doorbell record. Sleeps. `ENOMEM` when the HCA has no more QPs.
    pub(crate) fn create(cmd: &Cmd, config: Config, memory: QueueMemory) -> Result<Self, CmdError> {
        let receives = match (config.srqn, config.receive) {
            (Some(srqn), _) => Receives::Shared { srqn },
            (None, Some((log, log_stride))) => Receives::Own { log, log_stride },
            (None, None) => Receives::Nowhere,
        };
        let created = cmd.exec(&CreateQp {
            service: config.transport.code(),
            memory: memory.buffer(),
            receives,
            log_send: config.send,
            uar: config.uar,
            pd: Some(config.pd),
            cqns: config.cqns,
            record: memory.record(),
            user_index: config.user_index,
            xrc: config.xrc,
            no_multicast_loopback: config.no_multicast_loopback,
            fast_registration: matches!(memory, QueueMemory::Own(_)),
        });
        match created {
            Ok(number) => Ok(Self {
                number,
                config,
                memory,
                _counted: Counted::new(Kind::Qp),
            }),
            Err(error) => {
                leak_if_in_doubt(&error, memory);
                Err(error)
            }
        }
    }

    /// The number the device gave it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Moves the QP. `fill` sets what the user said; the rest is set here. Sleeps.
    pub(crate) fn transit(
        &self,
        cmd: &Cmd,
        transition: Transition,
        optional: u32,
        fill: impl FnOnce(&mut Mut<'_, ifc::qpc>),
    ) -> Result {
        let mut bytes = KBox::new([0u8; CONTEXT], GFP_KERNEL)?;
        let mut qpc = Mut::<ifc::qpc>::new(&mut *bytes).ok_or(EINVAL)?;
        qpc.set(field!(qpc, st), self.config.transport.code().into())
            .set(
                field!(qpc, pm_state),
                raw::MLX5_QPC_PM_STATE_MIGRATED.into(),
            )
            .set(field!(qpc, pd), self.config.pd.into())
            .set(field!(qpc, cqn_snd), self.config.cqns.0.into())
            .set(field!(qpc, cqn_rcv), self.config.cqns.1.into());
        if transition == Transition::RstToInit && self.config.receive.is_some() {
            qpc.set(field!(qpc, dbr_addr), self.memory.record());
        }
        fill(&mut qpc);
        if qpc.overflowed() {
            return Err(EINVAL);
        }
        let request = Request {
            number: self.number,
            optional,
            context: &bytes,
        };
        match transition {
            Transition::RstToInit => cmd.exec(&RstToInit(request)),
            Transition::InitToInit => cmd.exec(&InitToInit(request)),
            Transition::InitToRtr => cmd.exec(&InitToRtr(request)),
            Transition::RtrToRts => cmd.exec(&RtrToRts(request)),
            Transition::RtsToRts => cmd.exec(&RtsToRts(request)),
            Transition::SqErrToRts => cmd.exec(&SqErrToRts(request)),
        }?;
        Ok(())
    }

    /// To ERROR: everything that is posted is flushed. Sleeps.
    pub(crate) fn fail(&self, cmd: &Cmd) -> Result<(), CmdError> {
        cmd.exec(&ToError {
            number: self.number,
        })
    }

    /// To RESET: the device forgets everything that is posted. Sleeps.
    pub(crate) fn reset(&self, cmd: &Cmd) -> Result<(), CmdError> {
        cmd.exec(&ToReset {
            number: self.number,
        })
    }

    /// Asks the device. Sleeps.
    pub(crate) fn query(&self, cmd: &Cmd) -> Result<Snapshot, CmdError> {
        cmd.exec(&QueryQp {
            number: self.number,
        })
    }

    /// Datagrams to `gid` come here too. Sleeps.
    pub(crate) fn attach(&self, cmd: &Cmd, gid: &[u8; 16]) -> Result<(), CmdError> {
        cmd.exec(&Multicast::<true> {
            number: self.number,
            gid,
        })
    }

    /// They do not any more. Sleeps.
    pub(crate) fn detach(&self, cmd: &Cmd, gid: &[u8; 16]) -> Result<(), CmdError> {
        cmd.exec(&Multicast::<false> {
            number: self.number,
            gid,
        })
    }

    /// Destroys the QP. Memory that the device may still use is not freed.
    pub(crate) fn destroy(self, cmd: &Cmd) {
        if let Err(error) = cmd.exec(&DestroyQp {
            number: self.number,
        }) {
            leak_with_object(&error, self.memory);
        }
    }
}
