// SPDX-License-Identifier: GPL-2.0
//! Queue pairs: buffer, contexts and state transitions. Sending and receiving is in [`post`].
//!
//! One buffer holds the receive queue and, behind it, the send queue. Source of the fields for each
//! transition: `__mlx5_ib_modify_qp` and `opt_mask` in ib/qp.c.

pub(crate) mod datagram;
pub(crate) mod post;
pub(crate) mod query;
pub(crate) mod state;
mod transition;
pub(crate) mod user;

use kernel::{
    device::{
        Bound,
        Device, //
    },
    prelude::*, //
};
use kernel_ext::numa::Node;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    ring::Ring,
    span, //
};

use self::state::{
    QpState,
    Step, //
};
pub(crate) use self::transition::Path;
use crate::{
    buf::{
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
    doorbell::Doorbell,
    plain_command,
    record::{
        Record,
        Records, //
    },
    wq::{
        Window,
        RECV_WQE_BYTES,
        SEND_WQE_BYTES, //
    }, //
};

/// Transport service of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable datagrams: those that carry this Q_Key come in.
    Ud { qkey: u32 },
    /// Requests that change memory keys; no packets.
    Umr,
}

impl Service {
    /// Code in a QP context.
    const fn code(self) -> u32 {
        match self {
            Self::Rc => raw::MLX5_QP_ST_RC,
            Self::Ud { .. } => raw::MLX5_QP_ST_UD,
            Self::Umr => raw::MLX5_QP_ST_REG_UMR,
        }
    }

    /// Whether it has a receive queue.
    const fn receives(self) -> bool {
        !matches!(self, Self::Umr)
    }

    /// log2 of the WQEBBs of a send WQE. The address vector of a datagram needs a second one, and so does
    /// the context of a key.
    const fn log_blocks(self) -> u8 {
        match self {
            Self::Rc => 0,
            Self::Ud { .. } | Self::Umr => 1,
        }
    }
}

/// Memory of a QP with `1 << log` WQEs in each of its queues.
pub(crate) struct QpRing {
    buf: Buf,
    log: u8,
    service: Service,
}

impl QpRing {
    /// Allocates the queues. Sleeps.
    pub(crate) fn new(dev: &Device<Bound>, node: Node, log: u8, service: Service) -> Result<Self> {
        let entries = Ring::new(log).ok_or(EINVAL)?.entries() as usize;
        let receive = if service.receives() {
            RECV_WQE_BYTES
        } else {
            0
        };
        let bytes = entries
            .checked_mul(receive + (SEND_WQE_BYTES << service.log_blocks()))
            .ok_or(EINVAL)?;
        Ok(Self {
            buf: Buf::new(dev, node, bytes)?,
            log,
            service,
        })
    }

    /// log2 of the WQEBBs of the send queue.
    fn log_blocks(&self) -> u8 {
        self.log.saturating_add(self.service.log_blocks())
    }

    fn send_offset(&self) -> usize {
        if self.service.receives() {
            RECV_WQE_BYTES << self.log
        } else {
            0
        }
    }
}

/// Where a QP takes its receives from.
#[derive(Clone, Copy)]
enum Receives {
    /// Its own queue: log2 of the WQEs, log2 of the bytes of each.
    Own { log: u8, log_stride: u8 },
    /// A shared queue.
    Shared { srqn: u32 },
    /// It has none.
    Nowhere,
}

struct CreateQp<'a> {
    service: u32,
    memory: Option<Memory<'a>>,
    receives: Receives,
    /// log2 of the WQEBBs of the send queue, if there is one.
    log_send: Option<u8>,
    uar: u32,
    /// `None`: the device gets to know it with the first transition.
    pd: Option<u32>,
    /// CQs of sends and of receives.
    cqns: (u32, u32),
    record: u64,
    user_index: Option<u32>,
    /// XRC domain and its SRQ, for XRC.
    xrc: Option<(u32, u32)>,
    /// Datagrams to a group do not come back to whoever sent them.
    no_multicast_loopback: bool,
    /// Requests may fill memory regions.
    fast_registration: bool,
}

impl Command for CreateQp<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_QP;
    type In = ifc::create_qp_in;
    type Out = ifc::create_qp_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.memory.map_or(0, |memory| memory.pages() * 8)
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.with(span!(create_qp_in, qpc), |qpc| {
            qpc.set(field!(qpc, st), self.service.into())
                .set(
                    field!(qpc, pm_state),
                    raw::MLX5_QPC_PM_STATE_MIGRATED.into(),
                )
                .set(field!(qpc, uar_page), self.uar.into())
                .set(field!(qpc, cqn_snd), self.cqns.0.into())
                .set(field!(qpc, cqn_rcv), self.cqns.1.into())
                .set(field!(qpc, dbr_addr), self.record)
                .set_flag(field!(qpc, fre), self.fast_registration);
            match self.pd {
                Some(pd) => qpc.set(field!(qpc, pd), pd.into()),
                // Source: `create_kernel_qp` in ib/qp.c.
                None => qpc.set_flag(field!(qpc, latency_sensitive), true),
            };
            qpc.set_flag(field!(qpc, block_lb_mc), self.no_multicast_loopback);
            if let Some((xrcdn, srqn)) = self.xrc {
                qpc.set(field!(qpc, xrcd), xrcdn.into())
                    .set(field!(qpc, srqn_rmpn_xrqn), srqn.into());
            }
            match self.receives {
                Receives::Own { log, log_stride } => qpc
                    .set(field!(qpc, rq_type), raw::MLX5_NON_ZERO_RQ.into())
                    .set(field!(qpc, log_rq_size), log.into())
                    // Counted from 16 bytes, one scatter entry.
                    .set(
                        field!(qpc, log_rq_stride),
                        log_stride.wrapping_sub(4).into(),
                    ),
                Receives::Shared { srqn } => qpc
                    .set(field!(qpc, rq_type), raw::MLX5_SRQ_RQ.into())
                    .set(field!(qpc, srqn_rmpn_xrqn), srqn.into()),
                Receives::Nowhere => qpc.set(field!(qpc, rq_type), raw::MLX5_ZERO_LEN_RQ.into()),
            };
            match self.log_send {
                Some(log) => qpc.set(field!(qpc, log_sq_size), log.into()),
                None => qpc.set_flag(field!(qpc, no_sq), true),
            };
            if let Some(memory) = self.memory {
                qpc.set(field!(qpc, page_offset), memory.offset());
            }
            if let Some(index) = self.user_index {
                qpc.set(field!(qpc, user_index), index.into());
            }
        });
        match self.memory {
            Some(memory) => memory.write_pas(input.raw(span!(create_qp_in, pas))),
            None => Ok(()),
        }
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_qp_out, qpn)))
    }
}

plain_command! {
    /// DESTROY_QP.
    DestroyQp, MLX5_CMD_OP_DESTROY_QP, destroy_qp_in, destroy_qp_out, number: u32 => qpn
}

/// log2 of the bytes of a receive WQE.
// CAST: 4.
const LOG_RECV_WQE: u8 = RECV_WQE_BYTES.trailing_zeros() as u8;

/// User index of QPs that do not want one.
const NO_USER_INDEX: u32 = 0xff_ffff;

/// What a QP is created with.
pub(crate) struct QpConfig {
    /// Where it rings.
    pub(crate) doorbell: Doorbell,
    /// Protection domain.
    pub(crate) pd: u32,
    /// CQ of both queues.
    pub(crate) cqn: u32,
    /// CQEs can carry a user index, so that one must be given.
    pub(crate) cqe_version: u8,
    /// Set of counters; 0: none.
    pub(crate) counter_set: u8,
}

/// A QP of the current device generation.
///
/// Has no lock of its own: its owner holds it exclusively.
pub(crate) struct Qp {
    number: u32,
    ring: QpRing,
    state: QpState,
    doorbell: Doorbell,
    pd: u32,
    cqn: u32,
    counter_set: u8,
    record: u64,
    /// Posted sends, counted in WQEBBs.
    sq: Window,
    /// Posted receives.
    rq: Window,
    /// What the doorbell has not been rung for.
    fresh: Option<post::Fresh>,
    _counted: Counted,
}

impl Qp {
    /// Creates the QP in RESET. `records` must outlive it. Sleeps.
    ///
    /// `ENOMEM` when the HCA has no more QPs. Memory that the device may use after an error is kept for ever; the
    /// records are the caller's to keep.
    pub(crate) fn create(
        cmd: &Cmd,
        config: QpConfig,
        records: &Records,
        ring: QpRing,
    ) -> Result<Self, CmdError> {
        let window = |log| Ring::new(log).and_then(Window::new);
        let windows = window(ring.log_blocks()).zip(window(ring.log));
        let Some((sq, rq)) = windows else {
            return Err(CmdError {
                // CAST: opcodes have 16 bits.
                opcode: raw::MLX5_CMD_OP_CREATE_QP as u16,
                op_mod: 0,
                cause: crate::cmd::Cause::Input(EINVAL),
            });
        };
        let record = records.address(Record::Qp);
        let command = CreateQp {
            service: ring.service.code(),
            memory: Some(Memory::Own(&ring.buf)),
            receives: match ring.service.receives() {
                true => Receives::Own {
                    log: ring.log,
                    log_stride: LOG_RECV_WQE,
                },
                false => Receives::Nowhere,
            },
            log_send: Some(ring.log_blocks()),
            uar: config.doorbell.uar_index(),
            pd: (ring.service != Service::Umr).then_some(config.pd),
            cqns: (config.cqn, config.cqn),
            record,
            user_index: (config.cqe_version != 0).then_some(NO_USER_INDEX),
            xrc: None,
            no_multicast_loopback: false,
            fast_registration: false,
        };
        match cmd.exec(&command) {
            Ok(number) => Ok(Self {
                number,
                ring,
                state: QpState::Reset,
                doorbell: config.doorbell,
                pd: config.pd,
                cqn: config.cqn,
                counter_set: config.counter_set,
                record,
                sq,
                rq,
                fresh: None,
                _counted: Counted::new(Kind::Qp),
            }),
            Err(error) => {
                leak_if_in_doubt(&error, ring);
                Err(error)
            }
        }
    }

    /// The number the device gave it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Doorbells so far: plain ones, and those that carried their WQE.
    pub(crate) fn doorbells(&self) -> (u64, u64) {
        (self.doorbell.plain, self.doorbell.pushed)
    }

    /// State as the driver knows it. The device may have moved the QP to ERROR since.
    pub(crate) fn state(&self) -> QpState {
        self.state
    }

    /// The device moved the QP to ERROR by itself.
    pub(crate) fn found_in_error(&mut self) {
        self.state = QpState::Error;
    }

    fn step(&mut self, step: Step) -> Result<QpState> {
        self.state.after(step).ok_or(EINVAL)
    }

    /// Destroys the QP. Memory that the device may still use is not freed.
    pub(crate) fn destroy(self, cmd: &Cmd) {
        if let Err(error) = cmd.exec(&DestroyQp {
            number: self.number,
        }) {
            leak_with_object(&error, self.ring);
        }
    }

    /// Takes the memory of a QP whose device generation is over, to be used again.
    pub(crate) fn into_ring(self) -> QpRing {
        self.ring
    }
}
