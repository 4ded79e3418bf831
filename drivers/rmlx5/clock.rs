// SPDX-License-Identifier: GPL-2.0
//! The clock of the card: a free running counter, which completions are stamped with, and the page by which processes make
//! nanoseconds of it (core/lib/clock.c of the C driver).
//!
//! The page says what the wall clock showed at a reading of the counter when the generation began. From there on it runs
//! with the counter; nothing adjusts it, as in the C driver where nobody sets its PTP clock. It is written anew before
//! products of counter and multiplier get too long for processes.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::{
    rdma::{
        ClockInfo,
        ClockPage,
        Driver,
        Vma, //
    },
    time::wall_ns,
    workqueue::{
        task,
        Job,
        Queue,
        Task, //
    },
};

use crate::iseg::Iseg;

/// Bits of the counter that processes look at. Source: `mlx5_init_timer_clock`.
const MASK: u64 = (1 << 41) - 1;
/// log2 of the cycles that the page serves, either way from its reading: so long a product fits 64 bits.
const LOG_SERVED: u32 = 36;
/// log2 of the cycles after which it is written anew.
const LOG_PERIOD: u32 = 34;

/// What makes nanoseconds of cycles: multiply, shift right.
#[derive(Clone, Copy)]
struct Rate {
    mult: u32,
    shift: u32,
}

impl Rate {
    /// The most precise one for a frequency; `None` for 0 kHz.
    fn of(khz: u32) -> Option<Self> {
        const NS_IN_MS: u64 = 1_000_000;
        let most = u64::MAX >> (LOG_SERVED + 1);
        let khz = u64::from(khz);
        (0..32).rev().find_map(|shift| {
            let mult = ((NS_IN_MS << shift) + khz / 2).checked_div(khz)?;
            let mult = u32::try_from(mult).ok()?;
            (u64::from(mult) <= most).then_some(Self { mult, shift })
        })
    }

    /// After what time the page is written anew.
    fn period(self) -> Delta {
        let ns = (u128::from(self.mult) << LOG_PERIOD) >> self.shift;
        // CAST: less than 64 bits, as a product that is served.
        Delta::from_nanos(ns as i64)
    }
}

/// A reading of the counter, and the time then.
#[derive(Clone, Copy)]
struct Reading {
    cycles: u64,
    nsec: u64,
    /// In units of two to the power of minus the shift.
    frac: u64,
}

impl Reading {
    /// A later one, not later than the counter takes to run around.
    fn moved_to(self, cycles: u64, rate: Rate) -> Self {
        let passed = cycles.wrapping_sub(self.cycles) & MASK;
        let product = u128::from(passed) * u128::from(rate.mult) + u128::from(self.frac);
        Self {
            cycles: cycles & MASK,
            // CAST, twice: 41 bits times nanoseconds; the remainder has fewer than 32.
            nsec: self.nsec.wrapping_add((product >> rate.shift) as u64),
            frac: (product & ((1u128 << rate.shift) - 1)) as u64,
        }
    }
}

struct State {
    page: ClockPage,
    /// While there is a generation with a clock.
    running: Option<(Rate, Reading)>,
}

impl State {
    fn run(&mut self, rate: Rate, reading: Reading) {
        self.running = Some((rate, reading));
        self.page.publish(&ClockInfo {
            nsec: reading.nsec,
            cycles: reading.cycles,
            frac: reading.frac,
            mult: rate.mult,
            shift: rate.shift,
            mask: MASK,
            period: rate.period(),
        });
    }
}

struct Tick {
    iseg: Arc<Iseg>,
    state: Pin<KBox<Mutex<State>>>,
}

impl Job for Tick {
    fn run(&self) -> Option<Delta> {
        let mut state = self.state.lock();
        let (rate, reading) = state.running?;
        // A card that is gone has no time; what is there stays.
        if let Some(cycles) = self.iseg.internal_timer() {
            state.run(rate, reading.moved_to(cycles, rate));
        }
        Some(rate.period())
    }
}

/// The clock. Lock order: that of an address space, then the page's.
pub(crate) struct Clock {
    tick: Task<Tick>,
}

impl Clock {
    /// It stands still.
    pub(crate) fn new(queue: &Arc<Queue>, iseg: Arc<Iseg>) -> Result<Self> {
        let state = State {
            page: ClockPage::new()?,
            running: None,
        };
        let state = KBox::pin_init(new_mutex!(state), GFP_KERNEL)?;
        Ok(Self {
            tick: task!(queue, "rmlx5_clock", Tick { iseg, state })?,
        })
    }

    /// A generation is up whose counter has this frequency, from whatever value on. 0: there is no clock.
    pub(crate) fn begin(&self, khz: u32) {
        let tick = self.tick.job();
        let Some((rate, cycles)) = Rate::of(khz).zip(tick.iseg.internal_timer()) else {
            return;
        };
        let reading = Reading {
            cycles: cycles & MASK,
            nsec: wall_ns(),
            frac: 0,
        };
        tick.state.lock().run(rate, reading);
        self.tick.schedule_after(rate.period());
    }

    /// The generation is over. The page stays as it is: what was stamped before can still be converted.
    pub(crate) fn stop(&self) {
        self.tick.job().state.lock().running = None;
        self.tick.cancel();
    }

    /// Maps the page into a process, to be read.
    pub(crate) fn map<D: Driver>(&self, vma: Vma<'_, D>) -> Result {
        vma.map_clock(&self.tick.job().state.lock().page)
    }
}
