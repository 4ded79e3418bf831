// SPDX-License-Identifier: GPL-2.0
//! Completion queues of rings: a [`Cq`] with its records, whose events schedule a channel.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    }, //
};
use kernel_ext::net::{
    dim::{
        self,
        Adaptive,
        Target,
        Way, //
    },
    napi::{
        Poller,
        Waker, //
    },
};

use crate::{
    cq::{
        cqe::CQE_BYTES,
        leak_if_in_doubt,
        Cq,
        CqRing,
        DestroyCq,
        ModerateCq,
        Moderation, //
    },
    eq::sink::CqHandler,
    home::{
        Home,
        Lent, //
    },
    record::Records,
};

struct Memory {
    cq: Cq,
    records: Records,
}

/// Changes when the events of a queue are raised.
struct Moderator {
    number: u32,
    home: Home,
}

impl Target for Moderator {
    fn moderate(&self, wanted: dim::Moderation) {
        if self.home.reaches() {
            // The numbers of before serve too.
            let _ = self.home.cmd().exec(&ModerateCq {
                cqn: self.number,
                moderation: Moderation {
                    period_us: wanted.usecs,
                    count: wanted.frames,
                },
            });
        }
    }
}

/// A completion queue of a ring.
pub(super) struct Completions {
    /// Goes first: then nobody changes the queue any more.
    adaptive: Option<Adaptive<Moderator>>,
    number: u32,
    memory: Lent<Memory>,
    /// How many events came, which the arm word has to say.
    events: Arc<Atomic<u32>>,
    home: Home,
}

impl Completions {
    /// Makes a queue of `1 << log` entries on completion vector `vector`, with events as `moderation` says, to
    /// begin with where they follow the traffic of the way `adaptive`. Sleeps.
    pub(super) fn new(
        home: &Home,
        vector: u16,
        log: u8,
        moderation: Moderation,
        adaptive: Option<Way>,
    ) -> Result<Self> {
        let device = home.device();
        let eq = device.comp_eq(vector.into()).ok_or(EINVAL)?;
        let eqn = eq.eq.number().ok_or(ENODEV)?;
        let records = Records::new(device.pdev.device())?;
        let ring = CqRing::new(device.pdev.device(), eq.node, log)?;
        let events = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let uar = device.uar()?;
        let cq = match Cq::create(home.cmd(), &uar, eqn, &records, ring, moderation) {
            Ok(cq) => cq,
            Err(error) => {
                leak_if_in_doubt(&error, records);
                return Err(error.into());
            }
        };
        let mut made = Self {
            adaptive: None,
            number: cq.number(),
            memory: Lent::new(Memory { cq, records }),
            events,
            home: home.clone(),
        };
        if let Some(way) = adaptive {
            let target = Moderator {
                number: made.number,
                home: home.clone(),
            };
            made.adaptive = Some(Adaptive::new(target, way)?);
        }
        Ok(made)
    }

    /// Tells what the ring has counted so far; to be called with each event that was handled.
    pub(super) fn measure(&mut self, packets: u64, bytes: u64) {
        if let Some(adaptive) = &mut self.adaptive {
            // CAST: it may wrap around.
            adaptive.tell(self.events.load(Relaxed) as u16, packets, bytes);
        }
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The next completion.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<[u8; CQE_BYTES]> {
        self.memory.get_mut().ok()?.cq.next()
    }

    /// Tells the card which entries are free again.
    #[inline]
    pub(super) fn publish(&self) {
        if let Ok(memory) = self.memory.get() {
            // The range is that of the records: this cannot fail.
            let _ = memory.cq.publish(&memory.records);
        }
    }

    /// Asks for an event as soon as there is something.
    pub(super) fn arm(&self) {
        if let Ok(memory) = self.memory.get() {
            let _ = memory.cq.arm(&memory.records, self.events.load(Relaxed));
        }
    }

    /// What is needed to hear of its events.
    pub(super) fn handle(&self) -> Handle {
        Handle {
            number: self.number,
            events: self.events.clone(),
            home: self.home.clone(),
        }
    }
}

/// A completion queue by name, for who wants to hear of its events.
pub(super) struct Handle {
    number: u32,
    events: Arc<Atomic<u32>>,
    home: Home,
}

impl Handle {
    /// Lets events schedule `waker`, until the result is dropped. Sleeps.
    pub(super) fn subscribe<P: Owner>(self, vector: u16, waker: Waker<P>) -> Result<Subscription> {
        let handler = Arc::new(
            Alarm {
                waker,
                events: self.events,
            },
            GFP_KERNEL,
        )?;
        let eq = self.home.device().comp_eq(vector.into()).ok_or(EINVAL)?;
        eq.subscribe(self.number, handler)?;
        Ok(Subscription {
            number: self.number,
            vector,
            home: self.home.clone(),
        })
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        drop(self.adaptive.take());
        let let_go = self.home.end(&DestroyCq {
            number: self.number,
        });
        self.memory.back(let_go);
    }
}

/// Who polls a CQ.
pub(super) trait Owner: Poller {
    /// The device has given the CQ up: nothing comes any more. Hard interrupt context.
    fn lost(&self);
}

struct Alarm<P: Poller> {
    waker: Waker<P>,
    events: Arc<Atomic<u32>>,
}

impl<P: Owner> CqHandler for Alarm<P> {
    fn completion(&self) {
        self.events.fetch_add(1, Relaxed);
        self.waker.schedule();
    }

    fn error(&self) {
        self.waker.poller().lost();
    }
}

/// Events come as long as this exists.
pub(super) struct Subscription {
    number: u32,
    vector: u16,
    home: Home,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The numbers of an earlier generation were forgotten with it.
        if !self.home.is_current() {
            return;
        }
        if let Some(eq) = self.home.device().comp_eq(self.vector.into()) {
            drop(eq.unsubscribe(self.number));
        }
    }
}
