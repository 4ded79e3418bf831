// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queue pairs: context, state, work queues. What they do with packets is in [`crate::transport`].
//!
//! | term | meaning |
//! |---|---|
//! | WQEBB | 64-byte block; the SQ counts in them |
//! | flight | send requests fetched and not completed yet, oldest first |
//! | una | first PSN not acknowledged |
//! | EPSN | the PSN that the responder expects |

mod attributes;
mod commands;
mod modify;
mod receive;
mod segments;
mod send;
pub mod wqe;

pub use attributes::{Attributes, Path};
pub use commands::{CreateQp, DestroyQp, QueryQp};
pub use modify::*;
pub use receive::{ReceiveError, ReceiveQueue, Received, Source};
pub use segments::{Owner, Segments};
pub use send::{FetchError, Flight, SendQueue};

use crate::{
    buffer::Buffer,
    cong::Reaction,
    table::{self, Object}, //
    transport::{Requester, Responder},
};
use mlx5_hw::{field::bytes_of, ifc, raw};

/// Service type. Source: `MLX5_QP_ST_*` in include/linux/mlx5/qp.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection: an RC whose receives come from the XRC SRQ that each request
    /// names.
    Xrc,
    /// Unreliable datagram.
    Ud,
    /// The general service interface, QP 1 on the wire.
    Gsi,
    /// Registers memory, sends nothing.
    Umr,
}

impl Kind {
    fn from_code(code: u32) -> Option<Self> {
        Some(match i64::from(code) {
            code if code == i64::from(raw::MLX5_QP_ST_RC) => Self::Rc,
            code if code == i64::from(raw::MLX5_QP_ST_UC) => Self::Uc,
            code if code == i64::from(raw::MLX5_QP_ST_XRC) => Self::Xrc,
            code if code == i64::from(raw::MLX5_QP_ST_UD) => Self::Ud,
            code if code == i64::from(raw::MLX5_QP_ST_QP1) => Self::Gsi,
            code if code == i64::from(raw::MLX5_QP_ST_REG_UMR) => Self::Umr,
            _ => return None,
        })
    }

    /// Whether it has one peer.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc | Self::Uc)
    }

    /// Whether it has one peer that acknowledges.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc)
    }

    /// Whether it sends datagrams.
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::Ud | Self::Gsi)
    }
}

/// State. Source: `enum mlx5_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Reset: no queue is touched.
    Rst = 0,
    /// Receives may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// The send queue failed.
    Sqer = 4,
    /// Failed: everything posted is flushed.
    Err = 6,
}

/// Bytes of a context.
pub const CONTEXT: usize = bytes_of::<ifc::qpc>();

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    /// Its number.
    pub qpn: u32,
    /// Service type.
    pub kind: Kind,
    /// State.
    pub state: State,
    /// The context as set by commands; live values are put in when it is queried.
    pub context: [u8; CONTEXT],
    /// What the context says, in terms of the engine.
    pub attr: Attributes,
    /// Doorbell page.
    pub uar: u32,
    /// Protection domain, and whether this QP counts as its user (a UMR QP names it late).
    pub pd: u32,
    /// See [`Qp::pd`].
    pub holds_pd: bool,
    /// XRC domain: only its SRQs can be named by requests to this QP.
    pub xrcd: u32,
    /// CQ of the send queue.
    pub send_cqn: u32,
    /// CQ of the receive queue.
    pub recv_cqn: u32,
    /// Work queues in host memory: receive queue first.
    pub buffer: Buffer,
    /// Doorbell record: RQ counter, SQ counter.
    pub record: u64,
    /// Send queue.
    pub sq: SendQueue,
    /// Receive queue.
    pub rq: ReceiveQueue,
    /// Sending side.
    pub requester: Requester,
    /// Receiving side.
    pub responder: Responder,
    /// Its rate, after notifications of congestion.
    pub reaction: Reaction,
    /// The last WQE event of a shared receive queue was raised since the QP failed.
    pub last_wqe: bool,
}

impl Object for Box<Qp> {
    const KIND: table::Kind = table::Kind::Qp;

    fn footprint(&self) -> u64 {
        footprint(self.buffer.len())
    }
}

/// Context, response resources, and one translation entry for each page of the queues.
fn footprint(bytes: u64) -> u64 {
    512 + 8 * bytes.div_ceil(4096)
}

impl Qp {
    /// Who it is to memory keys.
    pub fn owner(&self) -> Owner {
        Owner {
            pd: self.pd,
            qpn: self.qpn,
            reserved: self.attr.reserved_key,
        }
    }

    /// The service of its packets.
    pub fn service(&self) -> roce::Service {
        match self.kind {
            Kind::Rc => roce::Service::Rc,
            Kind::Xrc => roce::Service::Xrc,
            Kind::Uc => roce::Service::Uc,
            Kind::Ud | Kind::Gsi | Kind::Umr => roce::Service::Ud,
        }
    }

    /// Back to fresh queues, as after creation.
    pub fn reset(&mut self) {
        self.state = State::Rst;
        self.sq.reset();
        self.rq.reset();
        self.requester = Requester::default();
        self.responder = Responder::default();
        self.reaction = Reaction::default();
        self.last_wqe = false;
    }

    /// Whether packets that ask for something are accepted.
    pub fn can_receive(&self) -> bool {
        matches!(self.state, State::Rtr | State::Rts | State::Sqer)
    }

    /// One line for a dump.
    pub fn describe(&self) -> String {
        format!(
            "QP {:#x}: {:?} {:?} pd {:#x} cqs {:#x} {:#x} sq {}/{} flight {} rq {:?} remote {:#x} \
             una {:#x} next {:#x} epsn {:#x}{}",
            self.qpn,
            self.kind,
            self.state,
            self.pd,
            self.send_cqn,
            self.recv_cqn,
            self.sq.next,
            self.sq.posted,
            self.requester.flight.len(),
            self.rq.source,
            self.attr.remote_qpn,
            self.requester.una.value(),
            self.requester.next_psn.value(),
            self.responder.epsn.value(),
            self.reaction
                .rate()
                .map_or(String::new(), |rate| format!(" limited to {rate} Mb/s")),
        )
    }
}
