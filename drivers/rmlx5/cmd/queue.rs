// SPDX-License-Identifier: GPL-2.0
//! The command queue: slots, completion, verdicts. One command on its way is in [`super::call`].

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        Arc,
        SpinLockIrq, //
    },
    time::Delta, //
};
use kernel_ext::{
    completion::Completion,
    numa::Node,
    pci::BoundDevice, //
};
use mlx5_hw::wire;

use super::{
    mailbox::{
        Free,
        Memory, //
    },
    room::Rooms,
    slot::{
        Finish,
        Slot,
        State,
        Table,
        MAX, //
    },
    CompletionSource, //
};
use crate::{
    buf::{
        Buf,
        PAGE, //
    },
    iseg::{
        Iseg,
        QueueShape, //
    },
    limit::Limit,
    master::Master, //
};

/// Ownership bit of the last byte of an entry.
pub(super) const OWNER_HW: u8 = 1;
/// Addresses in one page command.
pub(crate) const PAGES_PER_COMMAND: usize = 512;

/// Offset of that byte in an entry.
pub(super) const OWN: usize = wire!(mlx5_cmd_layout, status_own).offset();

/// Why nothing is sent any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well.
    Alive,
    /// The generation is over, a reset is coming.
    Dead,
    /// The device disappeared from the bus.
    Gone,
    /// The device does not answer: the card is broken.
    Broken,
}

impl Verdict {
    const fn code(self) -> u32 {
        match self {
            Self::Alive => 0,
            Self::Dead => 1,
            Self::Gone => 2,
            Self::Broken => 3,
        }
    }

    const fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Alive,
            1 => Self::Dead,
            2 => Self::Gone,
            _ => Self::Broken,
        }
    }
}

/// What happened so far. Shown in debugfs, used by tests.
#[derive(Default)]
pub(crate) struct Stats {
    /// Commands sent.
    pub(crate) sent: Counter,
    /// Commands that failed, whatever the reason.
    pub(crate) failed: Counter,
    /// Completions that no issued slot asked for.
    pub(crate) spurious: Counter,
    /// Completions found by looking, without their interrupt.
    pub(crate) lost_interrupts: Counter,
    /// Commands without an answer in time.
    pub(crate) timeouts: Counter,
    /// Answers after the timeout.
    pub(crate) late: Counter,
}

/// A statistics counter.
pub(crate) struct Counter(Atomic<u64>);

impl Default for Counter {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Counter {
    /// Counts one.
    pub(crate) fn inc(&self) {
        self.add(1);
    }

    /// Counts `n`.
    pub(crate) fn add(&self, n: u64) {
        self.0.add(n, Relaxed);
    }

    /// The count.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What the lock of the queue protects.
pub(super) struct Inner {
    pub(super) table: Table,
    pub(super) free: Free,
    pub(super) shape: QueueShape,
}

/// The command queue of one device. Lives from probe to unbind; [`Queue::start`] begins a new
/// generation on it.
#[pin_data]
pub(crate) struct Queue {
    pub(super) pdev: BoundDevice,
    pub(super) iseg: Arc<Iseg>,
    master: Arc<Master>,
    pub(super) node: Node,
    pub(super) entries: Buf,
    pub(super) memory: Memory,
    #[pin]
    pub(super) inner: SpinLockIrq<Inner>,
    /// One wake-up per slot.
    pub(super) done: KVec<Arc<Completion>>,
    /// Counts the free slots that are not for pages.
    pub(super) vacant: Arc<Completion>,
    /// Counts the page slot.
    pub(super) vacant_pages: Arc<Completion>,
    /// Set while completions come through the command EQ.
    #[pin]
    pub(super) source: SpinLockIrq<Option<Arc<dyn CompletionSource>>>,
    pub(super) events: Atomic<u32>,
    pub(super) verdict: Atomic<u32>,
    /// Counts [`Queue::start`]. INVARIANT: changes under `inner`, so that who holds it sends in the
    /// generation that it reads.
    generation: Atomic<u32>,
    pub(super) bound_ms: Atomic<u64>,
    pub(super) limit: Limit,
    pub(crate) rooms: Rooms,
    pub(crate) stats: Stats,
}

impl Queue {
    /// Allocates everything that commands of ordinary size need. Nothing is told to the device.
    pub(crate) fn new(
        pdev: &BoundDevice,
        iseg: Arc<Iseg>,
        master: Arc<Master>,
        node: Node,
    ) -> Result<Arc<Self>> {
        let entries = Buf::new(pdev.device(), node, PAGE)?;
        let memory = Memory::new()?;
        let mut free = Free::new()?;
        memory.grow(pdev.device(), node, |add| add(&mut free))?;
        let mut done = KVec::with_capacity(MAX, GFP_KERNEL)?;
        for _ in 0..MAX {
            done.push(Arc::pin_init(Completion::new(), GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let vacant = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        let vacant_pages = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                pdev: pdev.clone(),
                iseg,
                master,
                node,
                entries,
                memory,
                inner <- new_spinlock_irq!(Inner {
                    table: Table::new(),
                    free,
                    shape: QueueShape {
                        log_size: 0,
                        log_stride: 6,
                    },
                }),
                done,
                vacant,
                vacant_pages,
                source <- new_spinlock_irq!(None),
                events: Atomic::new(0),
                verdict: Atomic::new(Verdict::Dead.code()),
                generation: Atomic::new(0),
                bound_ms: Atomic::new(60_000),
                limit: Limit::default(),
                rooms: Rooms::default(),
                stats: Stats::default(),
            }),
            GFP_KERNEL,
        )
    }

    /// Begins a generation: the device has been reset (or just found) and uses nothing that an
    /// earlier generation gave it. Polled until [`Queue::use_events`].
    pub(crate) fn start(&self) -> Result {
        let shape = self.iseg.queue_shape()?;
        let slots = 1usize << shape.log_size;
        self.use_polling();
        self.entries.clear()?;
        {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            // Slots that were in doubt: the reset is their answer.
            for index in 0..inner.table.len() {
                if let Some(slot) = inner.table.get(index) {
                    if slot.state == State::Abandoned {
                        slot.state = State::Free;
                        inner.free.put(core::mem::take(&mut slot.input));
                        inner.free.put(core::mem::take(&mut slot.output));
                    }
                }
            }
            // Who comes with the number of an earlier generation is turned away from here on.
            self.generation.fetch_add(1, Full);
            inner.table.resize(slots);
            inner.shape = shape;
            self.vacant.reinit();
            self.vacant_pages.reinit();
            // A caller who is still on its way out of the old generation gives its slot back itself.
            for index in 0..slots {
                let free = |slot: &mut Slot| slot.state == State::Free;
                if inner.table.get(index).is_some_and(free) {
                    self.vacate(index + 1 == slots);
                }
            }
        }
        self.iseg.set_queue(self.entries.address(0)?);
        if self.iseg.gone() {
            return Err(ENODEV);
        }
        self.verdict.store(Verdict::Alive.code(), Release);
        Ok(())
    }

    /// Which generation it is: counts bring-ups, 0 before the first. What was made in an earlier one
    /// is void. Any context.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    /// What the queue thinks of the device.
    pub(crate) fn verdict(&self) -> Verdict {
        Verdict::from_code(self.verdict.load(Acquire))
    }

    /// Ends the generation: every waiter returns at once, nothing is sent any more. Any context.
    pub(crate) fn fail(&self, verdict: Verdict) {
        // Whoever is told that the generation is over gives memory back.
        self.master.end();
        // The first reason stands; `Dead` is the weakest.
        if self.verdict() != Verdict::Broken {
            self.verdict.store(verdict.code(), Release);
        }
        let mut guard = self.inner.lock();
        for index in 0..guard.table.len() {
            if let Some(slot) = guard.table.get(index) {
                if matches!(slot.state, State::Issued(_)) {
                    slot.state = State::Abandoned;
                    if let Some(done) = self.done.get(index) {
                        done.complete();
                    }
                }
            }
        }
    }

    /// Longest time the firmware may take for one command from now on, before the card is called
    /// broken. The interface allows 60 s (`tout_def_sw_val` in core/lib/tout.c), the default; where
    /// the PCI core waits it is less.
    pub(crate) fn set_bound(&self, bound: Delta) {
        // CAST: a bound is positive.
        self.bound_ms
            .store(bound.as_millis().max(1) as u64, Relaxed);
    }

    /// Completions come through `source` from now on.
    pub(crate) fn use_events(&self, source: Arc<dyn CompletionSource>) {
        let old = self.source.lock().replace(source);
        drop(old);
        self.events.store(1, Release);
    }

    /// Completions are found by looking at the entries from now on.
    pub(crate) fn use_polling(&self) {
        self.events.store(0, Release);
        let old = self.source.lock().take();
        drop(old);
    }

    /// The command EQE named these slots. Hard interrupt context.
    ///
    /// A bit counts only if the slot is with the device and its ownership bit is clear.
    pub(crate) fn complete(&self, vector: u32) {
        let mut rest = vector;
        while rest != 0 {
            // CAST: below 32.
            if !self.finish(rest.trailing_zeros() as usize) {
                self.stats.spurious.inc();
            }
            // Without its lowest bit.
            rest &= rest.wrapping_sub(1);
        }
    }

    /// Finishes slot `index` if the device has given it back; whether it did.
    pub(super) fn finish(&self, index: usize) -> bool {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if !inner.table.with_device(index) || self.owned_by_device(inner.shape, index) {
            return false;
        }
        let free = &mut inner.free;
        match inner.table.finish(index, |chain| free.put(chain)) {
            Finish::Wake => {
                if let Some(done) = self.done.get(index) {
                    done.complete();
                }
                true
            }
            Finish::Late => {
                self.stats.late.inc();
                self.vacate(index + 1 == inner.table.len());
                true
            }
            Finish::Spurious => false,
        }
    }

    /// A slot is free again.
    pub(super) fn vacate(&self, pages: bool) {
        if pages {
            self.vacant_pages.complete();
        } else {
            self.vacant.complete();
        }
    }

    fn owned_by_device(&self, shape: QueueShape, index: usize) -> bool {
        self.entries
            .read8((index << shape.log_stride) + OWN)
            .map_or(true, |own| own & OWNER_HW != 0)
    }
}
