// SPDX-License-Identifier: GPL-2.0
//! What the three kinds of event queues do with their events.
//!
//! Every number that comes from the device is looked up or range-checked here; an event that is on
//! the wrong queue, or about something unknown, is counted and ignored.

use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        Arc,
        LockClassKey, //
    }, //
};
use kernel_ext::{
    numa::Node,
    rdma::CqNotifier, //
};
use pin_init::init_array_from_fn;

use super::{
    table::{
        Directory,
        Refusal,
        Spare,
        Table, //
    },
    Eq,
    Sink, //
};
use crate::{
    cmd::{
        queue::Counter,
        queue::Queue, //
    },
    event::{
        Event,
        Registry, //
    },
    pages::Requests, //
};

/// Sink of the command EQ.
pub(crate) struct Commands {
    pub(crate) cmd: Arc<Queue>,
}

impl Commands {
    /// Completions go to `cmd`.
    pub(crate) fn new(cmd: Arc<Queue>) -> Self {
        Self { cmd }
    }
}

impl Sink for Commands {
    type State = ();

    fn lock_class() -> Pin<&'static LockClassKey> {
        static_lock_class!()
    }

    fn event(&self, (): &(), event: Event) -> bool {
        match event {
            Event::Command { slots } => {
                self.cmd.complete(slots);
                true
            }
            _ => false,
        }
    }
}

/// Sink of the async EQ.
pub(crate) struct Async {
    pub(crate) registry: Arc<Registry>,
    pub(crate) pages: Arc<Requests>,
    /// The owner of a CQ is known to one of these.
    pub(crate) completions: KVec<Arc<Eq<CompSink>>>,
}

impl Sink for Async {
    type State = ();

    fn lock_class() -> Pin<&'static LockClassKey> {
        static_lock_class!()
    }

    fn event(&self, (): &(), event: Event) -> bool {
        if let Event::CqError { cqn, .. } = event {
            for eq in self.completions.iter() {
                eq.with(|owners| {
                    if let Some(owner) = owners.get(cqn) {
                        owner.error();
                    }
                });
            }
        }
        match event {
            Event::PageRequest {
                flags,
                function,
                pages,
            } => self.pages.note(flags, function, pages),
            Event::Completion { .. } | Event::Command { .. } => false,
            event => self.registry.tell(event),
        }
    }
}

/// Somebody who owns a CQ.
pub(crate) trait CqHandler: Send + Sync {
    /// The CQ, which was armed, has something. Hard interrupt context, interrupts off, under the
    /// lock of the completion EQ: bounded, no sleep, no subscribing from here.
    fn completion(&self);

    /// The device has given the CQ up. As for [`CqHandler::completion`], and under the lock of the
    /// async EQ, too.
    fn error(&self);
}

impl CqHandler for CqNotifier {
    fn completion(&self) {
        self.completion();
    }

    fn error(&self) {
        self.error();
    }
}

/// A completion EQ.
pub(crate) struct CompEq {
    /// The queue.
    pub(crate) eq: Arc<Eq<CompSink>>,
    /// Node of its CPU: where the memory of CQs attached to it should be.
    pub(crate) node: Node,
}

/// The sink of a completion EQ. Its state is who owns which of the CQs that are attached to it.
#[derive(Default)]
pub(crate) struct CompSink {
    /// Events for a CQ that nobody subscribed.
    pub(crate) unknown_cq: Counter,
}

impl Sink for CompSink {
    type State = Table<Arc<dyn CqHandler>>;

    fn lock_class() -> Pin<&'static LockClassKey> {
        static_lock_class!()
    }

    #[inline]
    fn event(&self, owners: &Self::State, event: Event) -> bool {
        let Event::Completion { cqn } = event else {
            return false;
        };
        match owners.get(cqn) {
            Some(handler) => handler.completion(),
            // The last event of a CQ that has just gone is normal, so this is counted, not said.
            None => self.unknown_cq.inc(),
        }
        true
    }
}

/// A directory without pages. Sleeps.
fn directory<T>(rows: usize) -> Result<Directory<T>> {
    let mut directory = KVVec::with_capacity(rows, GFP_KERNEL)?;
    for _ in 0..rows {
        directory.push(None, GFP_KERNEL)?;
    }
    Ok(directory)
}

impl CompEq {
    /// Calls `handler` for the events of CQ `cqn`. Sleeps.
    ///
    /// `EEXIST` when the number is taken: the device gave it out twice. `EPROTO` when it has more than
    /// 24 bits.
    pub(crate) fn subscribe(&self, cqn: u32, handler: Arc<dyn CqHandler>) -> Result {
        let mut owner = handler;
        let mut spare = Spare {
            directory: KVVec::new(),
            slots: None,
        };
        // What is missing is allocated outside the lock: a directory, then a page, once each unless all is
        // forgotten meanwhile.
        loop {
            let inserted = self.eq.with(|owners| owners.insert(cqn, owner, &mut spare));
            let Err((refusal, back)) = inserted else {
                return Ok(());
            };
            owner = back;
            match refusal {
                Refusal::Taken => return Err(EEXIST),
                Refusal::TooLarge => return Err(EPROTO),
                Refusal::Directory(rows) => spare.directory = directory(rows)?,
                Refusal::Page => {
                    let slots = KBox::init(init_array_from_fn(|_| None), GFP_KERNEL)?;
                    spare.slots = Some(slots);
                }
            }
        }
    }

    /// Ends the subscription. The handler does not run any more when this returns, and is given
    /// back so that it is dropped by the caller. Process context.
    pub(crate) fn unsubscribe(&self, cqn: u32) -> Option<Arc<dyn CqHandler>> {
        let (handler, page) = self.eq.with(|owners| owners.remove(cqn));
        drop(page);
        handler
    }

    /// Ends all subscriptions: the numbers belong to a generation that is over. Process context.
    pub(crate) fn forget(&self) {
        let owners = self.eq.with(core::mem::take);
        drop(owners);
    }
}
