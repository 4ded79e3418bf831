// SPDX-License-Identifier: GPL-2.0
//! Bringing a broken connection back: when, how often, and what is said about it.
//!
//! The connection is broken when a completion or an event says that the QP is in ERROR, or when the
//! device answers with what makes no sense. After a delay that grows with each attempt in vain the
//! end that saw it starts the handshake ([`super::handshake`]); the other end follows. How long an
//! end waits for an answer of another machine is in [`super::peer`].

use core::fmt;

use kernel::{
    prelude::*,
    time::Delta, //
};
use kernel_ext::time::now_ns;

use super::{
    Core,
    Inner, //
};
use crate::{
    cq::cqe::CqeSyndrome,
    qp::state::QpState,
    recovery::State, //
};

/// Why a connection broke.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    /// A send failed.
    Requester(CqeSyndrome),
    /// A receive failed.
    Responder(CqeSyndrome),
    /// Event: the QP's context is broken.
    QpCatastrophic,
    /// Event: the QP got an invalid request.
    QpRequest,
    /// Event: the QP got a request that it may not carry out.
    QpAccess,
    /// Event: more completions than the CQ holds.
    CqOverrun,
    /// Event: the CQ's memory cannot be written.
    CqAccess,
    /// A completion makes no sense.
    Malformed(&'static str, u32),
    /// The driver could not do what it had to.
    Driver(Error),
    /// The peer started over.
    Peer,
    /// The card was reset.
    Reset,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requester(syndrome) => write!(
                f,
                "send failed: {} (syndrome {:#x}, vendor {:#x})",
                syndrome.text(),
                syndrome.code,
                syndrome.vendor
            ),
            Self::Responder(syndrome) => write!(
                f,
                "receive failed: {} (syndrome {:#x}, vendor {:#x})",
                syndrome.text(),
                syndrome.code,
                syndrome.vendor
            ),
            Self::QpCatastrophic => f.write_str("QP Catastrophic Error"),
            Self::QpRequest => f.write_str("invalid request"),
            Self::QpAccess => f.write_str("access error"),
            Self::CqOverrun => f.write_str("CQ Overrun"),
            Self::CqAccess => f.write_str("CQ access violation"),
            Self::Malformed(what, value) => write!(f, "malformed completion: {what} {value:#x}"),
            Self::Driver(error) => write!(f, "error {}", error.to_errno()),
            Self::Peer => f.write_str("the peer started over"),
            Self::Reset => f.write_str("the card was reset"),
        }
    }
}

impl Cause {
    /// A flush tells less than anything else.
    fn is_flush(&self) -> bool {
        matches!(self, Self::Requester(syndrome) | Self::Responder(syndrome) if syndrome.is_flush())
    }

    /// Whether the other end, or nobody known, is behind it.
    fn is_passive(&self) -> bool {
        self.is_flush()
            || matches!(
                self,
                Self::Responder(_) | Self::QpRequest | Self::QpAccess | Self::Peer | Self::Reset
            )
    }

    /// Whether nothing went wrong here that a line should tell.
    fn is_silent(&self) -> bool {
        matches!(self, Self::Peer | Self::Reset)
    }

    /// Whether an event about the QP said so.
    fn is_qp_event(&self) -> bool {
        matches!(
            self,
            Self::QpCatastrophic | Self::QpRequest | Self::QpAccess
        )
    }

    /// Whether the CQ is of no use any more.
    fn is_cq(&self) -> bool {
        matches!(self, Self::CqOverrun | Self::CqAccess)
    }
}

/// A broken connection that waits for its recovery.
#[derive(Clone, Copy)]
pub(super) struct Breakage {
    cause: Cause,
    /// When it was found.
    ns: u64,
    /// When the next attempt is due; 0: the first one has not been planned.
    due: u64,
    /// Logged, or left out to keep the log short.
    told: bool,
}

impl Breakage {
    /// Whether the CQ is of no use any more.
    pub(super) fn is_cq(&self) -> bool {
        self.cause.is_cq()
    }
}

/// Counters of the steps of recovery.
#[derive(Clone, Copy, Default)]
pub(super) struct Steps {
    /// Connections that broke.
    pub(super) broken: u64,
    /// Of these, by an event that says QP Catastrophic Error.
    pub(super) catastrophic: u64,
    /// Of these, by a CQ overrun.
    pub(super) overruns: u64,
    /// Handshakes that this end started.
    pub(super) attempts: u64,
    /// Times the QP went RESET and INIT.
    pub(super) resets: u64,
    /// Times the QP reached RTS again.
    pub(super) recovered: u64,
    /// Attempts that failed.
    pub(super) failures: u64,
    /// Times the peer did not answer for so long that it counted as lost.
    pub(super) lost: u64,
    /// Letters that were not the peer's.
    pub(super) ignored: u64,
    /// Whether the channel was given up.
    pub(super) given_up: bool,
    /// Microseconds from finding the breakage to RTS, last and longest.
    pub(super) last_us: u64,
    pub(super) max_us: u64,
    logged_ns: u64,
    suppressed: u64,
}

/// Nanoseconds between two lines of one channel.
const LINE_INTERVAL: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

impl Inner {
    /// Notes that the connection is broken; the first cause that says something is kept.
    pub(super) fn break_up(&mut self, cause: Cause) {
        match &mut self.broken {
            Some(known) => {
                if known.cause.is_flush() || (cause.is_cq() && !known.cause.is_cq()) {
                    known.cause = cause;
                }
            }
            None => {
                self.steps.broken = self.steps.broken.wrapping_add(1);
                self.broken = Some(Breakage {
                    cause,
                    ns: now_ns(),
                    due: 0,
                    told: cause.is_silent(),
                });
            }
        }
    }

    /// The other end has begun to bring the connection back: no attempt of this end is needed.
    pub(super) fn follow(&mut self) {
        if let Some(broken) = &mut self.broken {
            broken.due = broken.due.max(1);
        }
    }

    /// This end could not follow the other one: it makes an attempt of its own.
    pub(super) fn fail_to_follow(&mut self, error: Error) {
        self.steps.failures = self.steps.failures.wrapping_add(1);
        self.break_up(Cause::Driver(error));
        if let Some(broken) = &mut self.broken {
            broken.cause = Cause::Driver(error);
            broken.due = 0;
        }
    }

    /// The connection is up (again); whether it was broken.
    pub(super) fn mended(&mut self) -> bool {
        let Some(broken) = self.broken.take() else {
            return false;
        };
        let us = now_ns().saturating_sub(broken.ns) / 1000;
        self.steps.recovered = self.steps.recovered.wrapping_add(1);
        self.steps.last_us = us;
        self.steps.max_us = self.steps.max_us.max(us);
        true
    }
}

impl Core {
    /// Plans the next attempt, or makes it when it is due. Says when to look again.
    pub(super) fn recover(&self) -> Option<Delta> {
        if self.device.recovery.state() != State::Up {
            // The device's own recovery brings the channels back.
            return None;
        }
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let now = now_ns();
        let Some(broken) = inner.broken else {
            // The other end was faster.
            return Some(Delta::ZERO);
        };
        if inner.is_asking() {
            return self.await_peer(inner);
        }
        if broken.due > now {
            // CAST: a delay of at most a second.
            return Some(Delta::from_nanos((broken.due - now) as i64));
        }
        if broken.due == 0 {
            return self.plan(inner, now);
        }
        // An event that says more than a flush may have come meanwhile.
        self.hear_alarms(inner);
        if self.is_stale(inner) {
            inner.broken = None;
            return Some(Delta::ZERO);
        }
        self.tell(inner);
        inner.steps.attempts = inner.steps.attempts.wrapping_add(1);
        drop(guard);
        let result = self.reconnect();
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if let Err(error) = result {
            inner.break_up(Cause::Driver(error));
        }
        if inner.broken.is_none() {
            return Some(Delta::ZERO);
        }
        if inner.is_asking() {
            return self.await_peer(inner);
        }
        // The ends have not come together: later again.
        inner.steps.failures = inner.steps.failures.wrapping_add(1);
        self.plan(inner, now_ns())
    }

    /// Sets the time of the next attempt, or gives the channel up.
    fn plan(&self, inner: &mut Inner, now: u64) -> Option<Delta> {
        if inner
            .broken
            .is_some_and(|broken| broken.due == 0 && broken.cause.is_passive())
        {
            // What the other end does to the connection is no attempt of this end in vain.
            inner.backoff.succeeded();
        }
        let Some(ms) = inner.backoff.next() else {
            if !inner.steps.given_up {
                dev_err!(
                    self.device.pdev,
                    "channel {}: QP {:#x} does not come back after {} attempts, given up\n",
                    self.index,
                    inner.qpn(),
                    inner.backoff.attempts()
                );
            }
            inner.steps.given_up = true;
            inner.disconnect();
            inner.flow.abandon();
            inner.broken = None;
            inner.finish_run();
            return None;
        };
        if let Some(broken) = &mut inner.broken {
            broken.due = now.saturating_add(u64::from(ms) * MS).max(1);
        }
        Some(Delta::from_millis(ms.into()))
    }

    /// Whether only an event says that the QP is in ERROR, and the device knows better: the event
    /// was about the QP before its last reset.
    fn is_stale(&self, inner: &mut Inner) -> bool {
        if !inner
            .broken
            .is_some_and(|broken| broken.cause.is_qp_event())
        {
            return false;
        }
        let state = inner.hw.as_ref().map(|hw| hw.qp.query(&self.device.cmd));
        matches!(state, Some(Ok(QpState::Rts)))
    }

    /// Says what broke the connection, at most one line a second.
    fn tell(&self, inner: &mut Inner) {
        let Some(broken) = inner.broken.as_mut().filter(|broken| !broken.told) else {
            return;
        };
        broken.told = true;
        let cause = broken.cause;
        let qpn = inner.qpn();
        let cqn = inner.hw.as_ref().map_or(0, |hw| hw.cq.number());
        let steps = &mut inner.steps;
        match cause {
            Cause::QpCatastrophic => steps.catastrophic = steps.catastrophic.wrapping_add(1),
            Cause::CqOverrun => steps.overruns = steps.overruns.wrapping_add(1),
            _ => {}
        }
        let now = now_ns();
        if steps.logged_ns != 0 && now.saturating_sub(steps.logged_ns) < LINE_INTERVAL {
            steps.suppressed = steps.suppressed.wrapping_add(1);
            return;
        }
        dev_warn!(
            self.device.pdev,
            "channel {}: QP {:#x} (CQ {:#x}) in ERROR: {}; recovering ({} more unlogged)\n",
            self.index,
            qpn,
            cqn,
            format_args!("{cause}"),
            steps.suppressed
        );
        steps.logged_ns = now;
        steps.suppressed = 0;
    }
}
