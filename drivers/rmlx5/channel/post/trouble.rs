// SPDX-License-Identifier: GPL-2.0
//! What breaks the control QP, and what brings it back.

use core::fmt;

use kernel::{
    prelude::*,
    sync::atomic::ordering::{
        Full,
        Relaxed, //
    },
    time::Delta, //
};

use super::{
    refill,
    Inner,
    Post, //
};
use crate::{
    cq::cqe::CqeSyndrome,
    recovery::State, //
};

/// Why the control QP is of no use.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    /// A send or receive failed.
    Completion(CqeSyndrome),
    /// An event named the QP.
    QpEvent,
    /// An event named the CQ.
    CqEvent,
    /// A completion makes no sense.
    Malformed,
    /// The driver could not do what it had to.
    Driver(Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completion(syndrome) => {
                write!(f, "{} (syndrome {:#x})", syndrome.text(), syndrome.code)
            }
            Self::QpEvent => f.write_str("QP event"),
            Self::CqEvent => f.write_str("CQ event"),
            Self::Malformed => f.write_str("malformed completion"),
            Self::Driver(error) => write!(f, "error {}", error.to_errno()),
        }
    }
}

impl Post {
    /// Looks at what asynchronous events said.
    pub(super) fn hear_alarms(&self, inner: &mut Inner) {
        if self.cq_alarm.xchg(0, Full) != 0 {
            self.fail(inner, Trouble::CqEvent);
        }
        if self.qp_alarm.xchg(0, Full) != 0 {
            self.fail(inner, Trouble::QpEvent);
        }
    }

    /// Notes that the QP is of no use; the first reason is kept, but for a CQ that is gone too.
    pub(super) fn fail(&self, inner: &mut Inner, trouble: Trouble) {
        match inner.trouble {
            None => {
                inner.counts.broken = inner.counts.broken.wrapping_add(1);
                inner.trouble = Some(trouble);
            }
            Some(_) if matches!(trouble, Trouble::CqEvent) => inner.trouble = Some(trouble),
            Some(_) => {}
        }
    }

    /// Plans an attempt, or makes it. Says when to look again.
    pub(super) fn recover(&self, inner: &mut Inner) -> Option<Delta> {
        if self.device.recovery.state() != State::Up {
            // The device's own recovery brings the QP back.
            return None;
        }
        let trouble = inner.trouble?;
        let number = self.qpn();
        if !inner.planned {
            let Some(ms) = inner.backoff.next() else {
                if !core::mem::replace(&mut inner.given_up, true) {
                    dev_err!(
                        self.device.pdev,
                        "control QP {:#x} does not come back after {} attempts, given up\n",
                        number,
                        inner.backoff.attempts()
                    );
                }
                return None;
            };
            inner.planned = true;
            return Some(Delta::from_millis(ms.into()));
        }
        inner.planned = false;
        dev_warn!(
            self.device.pdev,
            "control QP {:#x} in ERROR: {}; recovering\n",
            number,
            format_args!("{trouble}")
        );
        if let Err(error) = self.revive(inner, trouble) {
            if inner.hw.is_none() {
                dev_err!(
                    self.device.pdev,
                    "control QP: not made anew, error {}\n",
                    error.to_errno()
                );
                return None;
            }
            inner.trouble = Some(Trouble::Driver(error));
            return Some(Delta::ZERO);
        }
        inner.trouble = None;
        inner.counts.recovered = inner.counts.recovered.wrapping_add(1);
        Some(Delta::ZERO)
    }

    /// RESET and back to RTS. Letters that are under way are lost.
    fn revive(&self, inner: &mut Inner, trouble: Trouble) -> Result {
        if matches!(trouble, Trouble::CqEvent) {
            let hw = self.retire(inner).ok_or(ENODEV)?;
            let hw = hw.renew(&inner.records)?;
            self.publish(inner, hw);
        } else {
            let hw = inner.hw.as_mut().ok_or(ENODEV)?;
            hw.qp.reset(&self.device.cmd)?;
            // The device writes no more completions of this QP; those that are there are of no use.
            for _ in 0..hw.cq.entries() {
                if hw.cq.poll().is_none() {
                    break;
                }
            }
        }
        self.start(inner)
    }

    /// From RESET to RTS, with all receives posted.
    pub(super) fn start(&self, inner: &mut Inner) -> Result {
        // What events said so far was about the objects before.
        self.qp_alarm.store(0, Relaxed);
        self.cq_alarm.store(0, Relaxed);
        let cmd = &self.device.cmd;
        let hw = inner.hw.as_mut().ok_or(ENODEV)?;
        hw.qp.restart(cmd, &inner.records)?;
        refill(inner)?;
        let hw = inner.hw.as_mut().ok_or(ENODEV)?;
        hw.qp.open(cmd)
    }
}
