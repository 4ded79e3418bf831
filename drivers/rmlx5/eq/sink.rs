// SPDX-License-Identifier: GPL-2.0
//! What the three kinds of event queues do with their events.
//!
//! Every number that comes from the device is looked up or range-checked here; an event that is on
//! the wrong queue, or about something unknown, is counted and ignored.

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};

use kernel_ext::numa::Node;

use super::{
    Eq,
    Sink, //
};
use crate::{
    cmd::{
        queue::Counter,
        Cmd, //
    },
    event::{
        Event,
        Registry, //
    },
    pages::Requests, //
};

/// Sink of the command EQ.
pub(crate) struct Commands {
    pub(crate) cmd: Arc<Cmd>,
}

impl Commands {
    /// Completions go to `cmd`.
    pub(crate) fn new(cmd: Arc<Cmd>) -> Self {
        Self { cmd }
    }
}

impl Sink for Commands {
    fn event(&self, event: Event) -> bool {
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
}

impl Sink for Async {
    fn event(&self, event: Event) -> bool {
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
}

/// Sink of a completion EQ: the CQs that are attached to it, by number.
#[pin_data]
pub(crate) struct Completions {
    #[pin]
    table: SpinLockIrq<KVec<(u32, Arc<dyn CqHandler>)>>,
}

/// A completion EQ.
pub(crate) struct CompEq {
    /// The queue.
    pub(crate) eq: Arc<Eq<CompSink>>,
    /// Node of its CPU: where the memory of CQs attached to it should be.
    pub(crate) node: Node,
}

/// The sink of a completion EQ.
pub(crate) struct CompSink {
    table: Pin<KBox<Completions>>,
    /// Events for a CQ that nobody subscribed.
    pub(crate) unknown_cq: Counter,
}

impl CompSink {
    /// No CQ yet.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            table: KBox::pin_init(
                pin_init!(Completions {
                    table <- new_spinlock_irq!(KVec::new()),
                }),
                GFP_KERNEL,
            )?,
            unknown_cq: Counter::default(),
        })
    }
}

impl Sink for CompSink {
    fn event(&self, event: Event) -> bool {
        let Event::Completion { cqn } = event else {
            return false;
        };
        let table = self.table.table.lock();
        match table.binary_search_by_key(&cqn, |(number, _)| *number) {
            Ok(at) => {
                if let Some((_, handler)) = table.get(at) {
                    handler.completion();
                }
                true
            }
            // The last event of a CQ that has just gone is normal, so this is counted, not said.
            Err(_) => {
                self.unknown_cq.inc();
                true
            }
        }
    }
}

impl CompEq {
    /// Calls `handler` for completion events of CQ `cqn`. Sleeps.
    ///
    /// `EEXIST` when the number is taken: the device gave it out twice.
    pub(crate) fn subscribe(&self, cqn: u32, handler: Arc<dyn CqHandler>) -> Result {
        let table = &self.eq.sink.table.table;
        let mut handler = Some(handler);
        // The table grows outside the lock. Each round is one growth by somebody else.
        loop {
            let need = table.lock().len().saturating_add(1);
            let mut bigger = KVec::with_capacity(need.next_power_of_two(), GFP_KERNEL)?;
            let mut guard = table.lock();
            let at = match guard.binary_search_by_key(&cqn, |(number, _)| *number) {
                Ok(_) => return Err(EEXIST),
                Err(at) => at,
            };
            if guard.len() == guard.capacity() {
                if bigger.capacity() <= guard.len() {
                    continue;
                }
                for entry in guard.drain_all() {
                    // There is room: nothing is lost.
                    let _ = bigger.push_within_capacity(entry);
                }
                core::mem::swap(&mut *guard, &mut bigger);
            }
            if let Some(handler) = handler.take() {
                guard
                    .insert_within_capacity(at, (cqn, handler))
                    .map_err(|_| ENOMEM)?;
            }
            // The old, empty vector is freed after the lock.
            drop(guard);
            drop(bigger);
            return Ok(());
        }
    }

    /// Ends the subscription. The handler does not run any more when this returns, and is given
    /// back so that it is dropped by the caller. Process context.
    pub(crate) fn unsubscribe(&self, cqn: u32) -> Option<Arc<dyn CqHandler>> {
        let mut guard = self.eq.sink.table.table.lock();
        let at = guard
            .binary_search_by_key(&cqn, |(number, _)| *number)
            .ok()?;
        guard.remove(at).ok().map(|(_, handler)| handler)
    }

    /// Ends all subscriptions: the numbers belong to a generation that is over.
    pub(crate) fn forget(&self) {
        loop {
            let entry = self.eq.sink.table.table.lock().pop();
            if entry.is_none() {
                return;
            }
        }
    }
}
