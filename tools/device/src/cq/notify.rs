// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arming and moderation of a completion queue: when a completion event is due.
//!
//! An event says "there is something new": it covers every CQE that is in the ring when it is
//! raised. A request is answered as soon as there is a CQE past both its CI and the last event,
//! which may be at once. A CQE an event has told of already does not answer another request, even
//! if it is not consumed yet: programs ask again before they poll, and must not be woken for
//! nothing (ib_send_lat -e polls once for each event, and posts whatever it found).
//! Nobody sleeps too long: who asks and polls until the queue is empty has seen all that an event
//! told of, and what comes later is new.
//!
//! Source: ibv_req_notify_cq(3), `mlx5_arm_cq` of libmlx5, `mlx5_cq_arm` in include/linux/mlx5/cq.h,
//! `last_notified_index` and `last_solicit_index` of the CQ context in mlx5_ifc.h.

use mlx5_hw::ring::Counter;
use std::{fmt, time::Duration};

/// Indexes have 24 bits.
const INDEX: u32 = 0xff_ffff;

/// What the driver waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Any CQE.
    Next,
    /// A solicited or an error CQE.
    Solicited,
}

/// A pending request for one event.
#[derive(Clone, Copy, Debug)]
struct Armed {
    want: Want,
    /// The driver has consumed the CQEs before this place.
    consumed: Place,
    sequence: u8,
}

/// Event moderation: an event is held back until `count` CQEs came or `period` passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moderation {
    /// Microseconds; 0 switches moderation off.
    pub(crate) period: u16,
    /// CQEs; 0 means the period alone counts.
    pub(crate) count: u16,
    /// The period starts with the first CQE instead of the last event.
    pub(crate) from_cqe: bool,
}

/// A place in the stream of CQEs, counted from the creation of the queue. Unlike an index it does
/// not wrap, so a place that is long past stays behind those that came later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

impl Place {
    /// The place nearest to this one that has the index `index`.
    fn near(self, index: u32) -> Self {
        let ahead = index.wrapping_sub(self.index()) & INDEX;
        if ahead <= INDEX / 2 {
            Self(self.0 + u64::from(ahead))
        } else {
            Self(self.0.saturating_sub(u64::from(INDEX + 1 - ahead)))
        }
    }

    /// 24 bits.
    fn index(self) -> u32 {
        // CAST: the cut is the meaning.
        self.0 as u32 & INDEX
    }
}

/// The arming state of a queue.
#[derive(Debug)]
pub(crate) struct Notify {
    moderation: Moderation,
    armed: Option<Armed>,
    /// Sequence of the request that was answered last.
    fired: Option<u8>,
    /// Behind the last CQE. A resize CQE behind it is none that anybody waits for.
    produced: Place,
    /// Behind the last solicited or error CQE.
    solicited: Place,
    /// Behind the last CQE the last event told of.
    reported: Place,
    /// CQEs since the last event, and when the first of them came.
    fresh: u32,
    fresh_since: Duration,
    last_event: Option<Duration>,
    /// When a held back event is due.
    deadline: Option<Duration>,
}

impl Notify {
    /// Not armed, nothing produced.
    pub(super) fn new(moderation: Moderation) -> Self {
        Self {
            moderation,
            armed: None,
            fired: None,
            produced: Place::default(),
            solicited: Place::default(),
            reported: Place::default(),
            fresh: 0,
            fresh_since: Duration::ZERO,
            last_event: None,
            deadline: None,
        }
    }

    pub(super) fn moderation(&self) -> Moderation {
        self.moderation
    }

    /// Index behind the last CQE an event told of, 24 bits.
    pub(super) fn reported(&self) -> u32 {
        self.reported.index()
    }

    /// Index behind the last solicited CQE, 24 bits.
    pub(super) fn solicited(&self) -> u32 {
        self.solicited.index()
    }

    /// The arming state for QUERY_CQ.
    pub(super) fn state_code(&self) -> u32 {
        match self.armed.map(|armed| armed.want) {
            // Source: `MLX5_CQC_ST_*` in mlx5_ifc.h: solicited armed, armed, fired.
            Some(Want::Solicited) => 0x6,
            Some(Want::Next) => 0x9,
            None => 0xa,
        }
    }

    /// A CQE was written, the PI is behind it. Whether a completion event is due now.
    pub(super) fn completed(&mut self, pi: Counter, solicited: bool, now: Duration) -> bool {
        self.produced = self.produced.near(pi.low24());
        if solicited {
            self.solicited = self.produced;
        }
        if self.fresh == 0 {
            self.fresh_since = now;
        }
        self.fresh = self.fresh.saturating_add(1);
        self.event_due(now)
    }

    /// An arm doorbell: sequence in bits 29:28, command in bit 24, CI in the low 24 bits.
    /// Whether a completion event is due now.
    pub(super) fn arm(&mut self, word: u32, now: Duration) -> bool {
        // CAST: two bits.
        let sequence = (word >> 28 & 3) as u8;
        if self.fired == Some(sequence) {
            // The event that answers this request is on its way already.
            return false;
        }
        let want = if word & 1 << 24 == 0 {
            Want::Next
        } else {
            Want::Solicited
        };
        self.armed = Some(Armed {
            want,
            consumed: self.produced.near(word & INDEX),
            sequence,
        });
        self.event_due(now)
    }

    /// Whether there is a CQE that is neither consumed nor told of.
    fn is_triggered(&self, armed: Armed) -> bool {
        let last = match armed.want {
            Want::Next => self.produced,
            Want::Solicited => self.solicited,
        };
        last > armed.consumed && last > self.reported
    }

    /// Decides about an event at `now`; when it says yes, the request is used up.
    fn event_due(&mut self, now: Duration) -> bool {
        self.deadline = None;
        let Some(armed) = self.armed.filter(|armed| self.is_triggered(*armed)) else {
            return false;
        };
        let Moderation {
            period,
            count,
            from_cqe,
        } = self.moderation;
        if period != 0 && (count == 0 || self.fresh < count.into()) {
            let base = if from_cqe {
                Some(self.fresh_since)
            } else {
                self.last_event
            };
            let due = base.map(|base| base + Duration::from_micros(period.into()));
            if let Some(due) = due.filter(|due| *due > now) {
                self.deadline = Some(due);
                return false;
            }
        }
        self.armed = None;
        self.fired = Some(armed.sequence);
        self.reported = self.produced;
        self.fresh = 0;
        self.last_event = Some(now);
        true
    }

    /// When [`Notify::expire`] should be called.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Time has passed: whether a held back event is due now.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        self.deadline.is_some_and(|due| due <= now) && self.event_due(now)
    }

    /// New moderation, at once. Whether an event is due now.
    pub(super) fn moderate(&mut self, moderation: Moderation, now: Duration) -> bool {
        self.moderation = moderation;
        self.event_due(now)
    }
}

impl fmt::Display for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reported, solicited) = (self.reported(), self.solicited());
        write!(f, "notified {reported:#x} solicited {solicited:#x} ")?;
        match self.armed {
            Some(armed) => write!(
                f,
                "armed {:?} from {:#x}",
                armed.want,
                armed.consumed.index()
            )?,
            None => f.write_str("not armed")?,
        }
        write!(f, " {:?}", self.moderation)
    }
}

#[cfg(test)]
mod tests;
