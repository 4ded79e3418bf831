// SPDX-License-Identifier: GPL-2.0
//! What an event queue entry says, parsed once at the edge, and who hears of it.
//!
//! Source of codes and layouts: `enum mlx5_event`, `struct mlx5_eqe` in include/linux/mlx5/device.h.

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};
use mlx5_hw::{
    raw, wire,
    wire::{
        get,
        Member, //
    },
};

use crate::cmd::queue::Counter;

/// Bytes of an entry.
pub(crate) const EQE: usize = core::mem::size_of::<raw::mlx5_eqe>();

/// What happened to a queue pair, receive or send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpEvent {
    PathMigrated,
    Established,
    SqDrained,
    /// The context or the work queue is broken: "QP Catastrophic Error".
    Catastrophic,
    PathMigrationFailed,
    InvalidRequest,
    AccessError,
    /// The last WQE of an SRQ has been taken by a QP in error.
    LastWqe,
}

/// What happened to a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SrqEvent {
    Catastrophic,
    Limit,
}

/// An entry of an event queue. Numbers of objects are 24 bits wide and not checked for existence:
/// whoever looks one up handles a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A CQ that was armed has something.
    Completion { cqn: u32 },
    /// Command slots that finished.
    Command { slots: u32 },
    /// The firmware wants (`pages` > 0) or returns (< 0) pages. `flags` are not for us when set.
    PageRequest {
        flags: u16,
        function: u16,
        pages: i32,
    },
    /// A CQ failed; syndrome 1 is an overrun, 2 an access violation.
    CqError { cqn: u32, syndrome: u8 },
    /// Something happened to a QP (`queue` 0), RQ (1) or SQ (2).
    Qp {
        kind: QpEvent,
        number: u32,
        queue: u8,
    },
    /// Something happened to an SRQ.
    Srq { kind: SrqEvent, number: u32 },
    /// State of a port changed; `sub` 1 is down, 4 is active.
    Port { port: u8, sub: u8 },
    /// The firmware failed.
    Internal,
    /// Anything else.
    Other(u8),
}

/// Reads a member of the event data, which is 28 bytes at a fixed place.
fn data<S>(eqe: &[u8; EQE], member: Member<S>) -> u64 {
    let at = core::mem::offset_of!(raw::mlx5_eqe, data);
    eqe.get(at..)
        .and_then(|bytes| get(bytes, member))
        .unwrap_or(0)
}

/// Object numbers are 24 bits wide.
fn number(raw: u64) -> u32 {
    // CAST: masked.
    (raw & 0xff_ffff) as u32
}

impl Event {
    /// Parses an entry.
    #[inline(always)]
    pub(crate) fn parse(eqe: &[u8; EQE]) -> Self {
        // CAST: a byte.
        let code = get(eqe, wire!(mlx5_eqe, type_)).unwrap_or(0xff) as u8;
        match u32::from(code) {
            raw::MLX5_EVENT_TYPE_COMP => Self::Completion {
                cqn: number(data(eqe, wire!(mlx5_eqe_comp, cqn))),
            },
            raw::MLX5_EVENT_TYPE_CMD => Self::Command {
                // CAST: a dword.
                slots: data(eqe, wire!(mlx5_eqe_cmd, vector)) as u32,
            },
            _ => Self::parse_other(code, *eqe),
        }
    }

    /// Parses an entry of the async EQ.
    fn parse_other(code: u8, eqe: [u8; EQE]) -> Self {
        let eqe = &eqe;
        // CAST: a byte.
        let sub = get(eqe, wire!(mlx5_eqe, sub_type)).unwrap_or(0) as u8;
        let qp = |kind| Self::Qp {
            kind,
            number: number(data(eqe, wire!(mlx5_eqe_qp_srq, qp_srq_n))),
            // CAST: a byte.
            queue: data(eqe, wire!(mlx5_eqe_qp_srq, type_)) as u8,
        };
        let srq = |kind| Self::Srq {
            kind,
            number: number(data(eqe, wire!(mlx5_eqe_qp_srq, qp_srq_n))),
        };
        match u32::from(code) {
            raw::MLX5_EVENT_TYPE_PAGE_REQUEST => Self::PageRequest {
                // CAST: members of 16, 16 and 32 bits, the last one signed.
                flags: data(eqe, wire!(mlx5_eqe_page_req, ec_function)) as u16,
                function: data(eqe, wire!(mlx5_eqe_page_req, func_id)) as u16,
                pages: data(eqe, wire!(mlx5_eqe_page_req, num_pages)) as u32 as i32,
            },
            raw::MLX5_EVENT_TYPE_CQ_ERROR => Self::CqError {
                cqn: number(data(eqe, wire!(mlx5_eqe_cq_err, cqn))),
                // CAST: a byte.
                syndrome: data(eqe, wire!(mlx5_eqe_cq_err, syndrome)) as u8,
            },
            raw::MLX5_EVENT_TYPE_PATH_MIG => qp(QpEvent::PathMigrated),
            raw::MLX5_EVENT_TYPE_COMM_EST => qp(QpEvent::Established),
            raw::MLX5_EVENT_TYPE_SQ_DRAINED => qp(QpEvent::SqDrained),
            raw::MLX5_EVENT_TYPE_WQ_CATAS_ERROR => qp(QpEvent::Catastrophic),
            raw::MLX5_EVENT_TYPE_PATH_MIG_FAILED => qp(QpEvent::PathMigrationFailed),
            raw::MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR => qp(QpEvent::InvalidRequest),
            raw::MLX5_EVENT_TYPE_WQ_ACCESS_ERROR => qp(QpEvent::AccessError),
            raw::MLX5_EVENT_TYPE_SRQ_LAST_WQE => qp(QpEvent::LastWqe),
            raw::MLX5_EVENT_TYPE_SRQ_CATAS_ERROR => srq(SrqEvent::Catastrophic),
            raw::MLX5_EVENT_TYPE_SRQ_RQ_LIMIT => srq(SrqEvent::Limit),
            raw::MLX5_EVENT_TYPE_PORT_CHANGE => Self::Port {
                // CAST: a nibble. The port is in the upper half of its byte.
                port: (data(eqe, wire!(mlx5_eqe_port_state, port)) >> 4) as u8,
                sub,
            },
            raw::MLX5_EVENT_TYPE_INTERNAL_ERROR => Self::Internal,
            _ => Self::Other(code),
        }
    }
}

/// Events that the async EQ is created for: those of [`Event`] but completions and commands.
/// Events of features that the driver does not switch on are left out.
pub(crate) const ASYNC_MASK: u64 = 1 << raw::MLX5_EVENT_TYPE_PATH_MIG
    | 1 << raw::MLX5_EVENT_TYPE_COMM_EST
    | 1 << raw::MLX5_EVENT_TYPE_SQ_DRAINED
    | 1 << raw::MLX5_EVENT_TYPE_CQ_ERROR
    | 1 << raw::MLX5_EVENT_TYPE_WQ_CATAS_ERROR
    | 1 << raw::MLX5_EVENT_TYPE_PATH_MIG_FAILED
    | 1 << raw::MLX5_EVENT_TYPE_PORT_CHANGE
    | 1 << raw::MLX5_EVENT_TYPE_PAGE_REQUEST
    | 1 << raw::MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR
    | 1 << raw::MLX5_EVENT_TYPE_WQ_ACCESS_ERROR
    | 1 << raw::MLX5_EVENT_TYPE_SRQ_CATAS_ERROR
    | 1 << raw::MLX5_EVENT_TYPE_SRQ_LAST_WQE
    | 1 << raw::MLX5_EVENT_TYPE_SRQ_RQ_LIMIT;

/// Somebody who wants to hear of asynchronous events.
pub(crate) trait Listener: Send + Sync {
    /// Hard interrupt context, interrupts off, under the lock of the registry: bounded, no sleep,
    /// no registering from here. Events of strangers come too.
    fn event(&self, event: Event);
}

/// Who hears of asynchronous events. Page requests do not come here, see [`crate::pages`].
#[pin_data]
pub(crate) struct Registry {
    #[pin]
    listeners: SpinLockIrq<KVec<Arc<dyn Listener>>>,
    /// Events of types nobody knows.
    pub(crate) unknown: Counter,
}

/// Listeners at most; they are parts of the driver, not objects.
const LISTENERS: usize = 8;

impl Registry {
    /// An initialiser of an empty registry.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            listeners <- new_spinlock_irq!(KVec::with_capacity(LISTENERS, GFP_KERNEL)?),
            unknown: Counter::default(),
        })
    }

    /// Adds a listener; it hears of every event from now on. `ENOSPC` when there are too many.
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) -> Result {
        let mut listeners = self.listeners.lock();
        if listeners.len() >= LISTENERS {
            return Err(ENOSPC);
        }
        listeners.push_within_capacity(listener).map_err(|_| ENOSPC)
    }

    /// Forgets all listeners, and thereby breaks the circle of references at unbind. No listener
    /// runs any more when this returns.
    pub(crate) fn clear(&self) {
        for _ in 0..LISTENERS {
            // One at a time, so that none is dropped under the lock.
            let listener = self.listeners.lock().pop();
            drop(listener);
        }
    }

    /// Tells everybody; `false` for a type nobody knows. Hard interrupt context.
    pub(crate) fn tell(&self, event: Event) -> bool {
        if let Event::Other(_) = event {
            self.unknown.inc();
            return false;
        }
        for listener in self.listeners.lock().iter() {
            listener.event(event);
        }
        true
    }
}
