// SPDX-License-Identifier: GPL-2.0
//! Event queues: how the device tells the host that something happened.
//!
//! A queue is a ring of 64-byte entries with an owner bit that toggles with each lap. The device
//! raises the queue's vector once when it is armed and has something. The driver reads a bounded
//! number of entries per interrupt, tells the device how far it got and arms again; arming with
//! entries left fires at once, so nothing waits for the next event.
//!
//! The object and its memory live from the first bring-up to unbind, so that interrupts, names and
//! memory stay what they are across resets; [`Eq::create`] makes the device use it, per generation.
//!
//! Lock order: 1. the ring of a queue, 2. what its sink locks. Both are taken in hard interrupts. What a
//! sink needs for each event is under the lock of the ring, so that an event takes no second one.

pub(crate) mod sink;
mod table;

use core::mem::offset_of;

use kernel::{
    prelude::*,
    sync::{
        Arc,
        LockClassKey,
        SpinLockIrq, //
    }, //
};
use kernel_ext::{
    numa::Node,
    pci::BoundDevice, //
};
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    ring::{
        Counter,
        Ring, //
    },
    span,
    wire, //
};

use crate::{
    buf::{
        Buf,
        BLOCK, //
    },
    census::{
        Counted,
        Kind, //
    },
    cmd::{
        queue::Counter as Count,
        Cmd,
        CmdError,
        Command,
        CompletionSource, //
    },
    event::{
        Event,
        EQE, //
    },
    limit::Limit,
    plain_command,
    uar::Uar, //
};

/// Entries handled per interrupt, as in the C driver (`MLX5_EQ_POLLING_BUDGET` in core/eq.c).
const BUDGET: u32 = 128;
/// Entries that the ring has beyond what was asked for, so that a burst fits.
const SPARE: u32 = 128;
/// Offset of the 28 bytes that depend on the type.
const DATA: usize = offset_of!(raw::mlx5_eqe, data);
/// Offset of the owner byte, the last one.
const OWNER: usize = wire!(mlx5_eqe, owner).offset();
const _: () = assert!(EQE == BLOCK && OWNER == BLOCK - 1);

/// What a queue's events are for.
pub(crate) trait Sink: Send + Sync {
    /// What the lock of the ring protects for the sink; see [`Eq::with`].
    type State: Default + Send + Unpin;

    /// Class of the ring's lock for the lock checker: the async queue looks into the others.
    fn lock_class() -> Pin<&'static LockClassKey>;

    /// Handles one event. Hard interrupt context, interrupts off, under the lock of the ring:
    /// bounded, no sleep.
    ///
    /// `false`: the event does not belong on this queue, or is about something unknown.
    fn event(&self, state: &Self::State, event: Event) -> bool;
}

/// What an interrupt vector serves.
pub(crate) trait Source: Send + Sync {
    /// Handles what is there, at most the budget; the number of entries. Any context.
    fn service(&self) -> u32;
}

/// CREATE_EQ.
struct CreateEq<'a> {
    buf: &'a Buf,
    log_size: u8,
    vector: u16,
    uar: u32,
    mask: u64,
}

impl Command for CreateEq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_EQ;
    type In = ifc::create_eq_in;
    type Out = ifc::create_eq_out;
    type Output = u8;

    fn in_tail(&self) -> usize {
        self.buf.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(create_eq_in, event_bitmask[0]), self.mask);
        input.with(span!(create_eq_in, eq_context_entry), |eqc| {
            eqc.set(field!(eqc, log_eq_size), self.log_size.into())
                .set(field!(eqc, uar_page), self.uar.into())
                .set(field!(eqc, intr), self.vector.into())
                .set(field!(eqc, log_page_size), 0);
        });
        self.buf.write_pas(input.raw(span!(create_eq_in, pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u8> {
        // CAST: an 8-bit field.
        Some(output.get(field!(create_eq_out, eq_number)) as u8)
    }
}

plain_command! {
    /// DESTROY_EQ.
    DestroyEq, MLX5_CMD_OP_DESTROY_EQ, destroy_eq_in, destroy_eq_out, number: u8 => eq_number
}

/// What the device knows of the queue in this generation.
struct Live {
    number: u8,
    uar: Arc<Uar>,
}

/// How much a queue has done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Done {
    /// Entries handled.
    pub(crate) events: u64,
    /// Calls of [`Source::service`] that found something.
    pub(crate) rounds: u64,
}

struct Entries<T> {
    ring: Ring,
    consumer: Counter,
    live: Option<Live>,
    done: Done,
    /// The sink's.
    state: T,
}

impl<T> Entries<T> {
    /// Sets all owner bits to "not yet written". The device must not use the ring.
    fn preset(&mut self, buf: &Buf) -> Result {
        self.consumer = Counter::default();
        let mut unwritten = [0; EQE];
        unwritten[OWNER] = 1;
        buf.fill(&unwritten)
    }
}

/// The entry at `consumer`, if the device has written it.
#[inline(always)]
fn entry(buf: &Buf, ring: Ring, consumer: Counter) -> Option<[u8; EQE]> {
    // CAST: rings are small.
    let at = ring.slot(consumer) as usize * EQE;
    buf.read_written(at, |owner| owner & 1 == ring.owner(consumer))
}

/// An event queue with its sink.
#[pin_data]
pub(crate) struct Eq<S: Sink> {
    buf: Buf,
    #[pin]
    entries: SpinLockIrq<Entries<S::State>>,
    vector: u16,
    mask: u64,
    /// Where the events go.
    pub(crate) sink: S,
    /// Events that did not belong here.
    pub(crate) stray: Count,
    pdev: BoundDevice,
    limit: Limit,
    _counted: Counted,
}

impl<S: Sink> Eq<S> {
    /// Allocates a ring for at least `wanted` entries on `node`. The device does not know it yet.
    pub(crate) fn new(
        pdev: &BoundDevice,
        node: Node,
        wanted: u32,
        vector: u16,
        mask: u64,
        sink: S,
    ) -> Result<Arc<Self>> {
        let entries = wanted
            .checked_add(SPARE)
            .and_then(u32::checked_next_power_of_two)
            .ok_or(EINVAL)?;
        // CAST: below 32.
        let ring = Ring::new(entries.trailing_zeros() as u8).ok_or(EINVAL)?;
        // CAST: `usize` has 64 bits here.
        let bytes = (entries as usize).checked_mul(EQE).ok_or(EINVAL)?;
        let buf = Buf::new(pdev.device(), node, bytes)?;
        Arc::pin_init(
            pin_init!(Self {
                buf,
                entries <- SpinLockIrq::new(
                    Entries {
                        ring,
                        consumer: Counter::default(),
                        live: None,
                        done: Done::default(),
                        state: S::State::default(),
                    },
                    c"rmlx5 event queue",
                    S::lock_class(),
                ),
                vector,
                mask,
                sink,
                stray: Count::default(),
                pdev: pdev.clone(),
                limit: Limit::default(),
                _counted: Counted::new(Kind::Eq),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes the device use the queue, and arms it. Sleeps.
    pub(crate) fn create(&self, cmd: &Cmd, uar: &Arc<Uar>) -> Result<u8, CmdError> {
        let log_size = {
            let mut entries = self.entries.lock();
            entries.live = None;
            // The ranges are those of the buffer itself: this cannot fail.
            let _ = entries.preset(&self.buf);
            entries.ring.log()
        };
        let number = cmd.exec(&CreateEq {
            buf: &self.buf,
            log_size,
            vector: self.vector,
            uar: uar.index(),
            mask: self.mask,
        })?;
        let mut entries = self.entries.lock();
        uar.eq_arm(number, entries.consumer);
        entries.live = Some(Live {
            number,
            uar: uar.clone(),
        });
        Ok(number)
    }

    /// Takes the queue away from the device; an answer is not needed. Sleeps.
    pub(crate) fn destroy(&self, cmd: &Cmd) {
        if let Some(number) = self.stop() {
            // Whatever the device says, the queue is not touched again before a reset.
            let _ = cmd.exec(&DestroyEq { number });
        }
    }

    /// Forgets what the device knows: no more doorbells, no more events. Any context.
    pub(crate) fn stop(&self) -> Option<u8> {
        let live = self.entries.lock().live.take();
        live.map(|live| live.number)
    }

    /// Any context.
    #[cold]
    fn trace(&self, entry: [u8; EQE]) {
        let byte = |at: usize| entry.get(at).copied().unwrap_or(0);
        let dword = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| byte(at + n)));
        rmlx5_trace::event(
            self.pdev.name(),
            self.vector,
            byte(wire!(mlx5_eqe, type_).offset()),
            byte(wire!(mlx5_eqe, sub_type).offset()),
            [dword(DATA), dword(DATA + 24)],
        );
    }

    /// An event nobody can use. Hard interrupt context.
    #[cold]
    fn misfit(&self, event: Event) {
        self.stray.inc();
        if self.limit.allows() {
            dev_err!(
                self.pdev,
                "EQ Error: vector {}: unexpected {:?}, ignored\n",
                self.vector,
                event
            );
        }
    }

    /// Runs `change` on the state of the sink: no event is handled meanwhile. `change` is bounded and does
    /// not sleep, allocate or free.
    fn with<R>(&self, change: impl FnOnce(&mut S::State) -> R) -> R {
        change(&mut self.entries.lock().state)
    }

    /// How much it has done so far. Any context.
    pub(crate) fn done(&self) -> Done {
        self.entries.lock().done
    }

    /// The number the device gave it, while it is in use.
    pub(crate) fn number(&self) -> Option<u8> {
        self.entries.lock().live.as_ref().map(|live| live.number)
    }
}

impl<S: Sink> Source for Eq<S> {
    fn service(&self) -> u32 {
        let mut guard = self.entries.lock();
        let Entries {
            ring,
            consumer,
            live: Some(live),
            done,
            state,
        } = &mut *guard
        else {
            return 0;
        };
        let mut n = 0;
        while n < BUDGET {
            let Some(entry) = entry(&self.buf, *ring, *consumer) else {
                break;
            };
            *consumer = consumer.plus(1);
            if rmlx5_trace::event_enabled() {
                self.trace(entry);
            }
            let event = Event::parse(&entry);
            if !self.sink.event(state, event) {
                self.misfit(event);
            }
            n += 1;
        }
        live.uar.eq_arm(live.number, *consumer);
        if n != 0 {
            done.rounds = done.rounds.wrapping_add(1);
            done.events = done.events.wrapping_add(n.into());
        }
        n
    }
}

impl CompletionSource for Eq<sink::Commands> {
    fn poll(&self) {
        self.service();
    }
}
