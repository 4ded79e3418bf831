// SPDX-License-Identifier: GPL-2.0
//! What the device asked for at run time: noted in hard interrupts, answered by a worker.

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};

use super::BUDGET;
use crate::cmd::queue::Counter;

/// Pages of one request event at most, as in the C driver (`MAX_RECLAIM_NPAGES`).
const REQUEST_MAX: i64 = 50_000;

/// What the device asked for at run time, not yet done.
#[pin_data]
pub(crate) struct Requests {
    #[pin]
    wanted: SpinLockIrq<Wanted>,
    /// Somebody to wake when there is something to do.
    wake: Arc<dyn Wake>,
    /// Requests that were refused at the edge.
    pub(crate) refused: Counter,
}

/// Starts the work that answers requests. Hard interrupt context.
pub(crate) trait Wake: Send + Sync {
    /// Called for each request.
    fn wake(&self);
}

/// Pages to give and to take back.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) give: i64,
    pub(super) take: i64,
}

impl Requests {
    /// No request yet.
    pub(crate) fn new(wake: Arc<dyn Wake>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                wanted <- new_spinlock_irq!(Wanted::default()),
                wake,
                refused: Counter::default(),
            }),
            GFP_KERNEL,
        )
    }

    /// The device asked. Hard interrupt context.
    ///
    /// Requests for other functions, and "release all", which the driver never switches on, are
    /// refused (`false`). Counts are clamped; the sum is bounded by the budget.
    pub(crate) fn note(&self, flags: u16, function: u16, pages: i32) -> bool {
        if flags != 0 || function != 0 || pages == 0 {
            self.refused.inc();
            return false;
        }
        let pages = i64::from(pages).clamp(-REQUEST_MAX, REQUEST_MAX);
        {
            let mut wanted = self.wanted.lock();
            // CAST: the budget is far below i64.
            if pages > 0 {
                wanted.give = (wanted.give + pages).min(BUDGET as i64);
            } else {
                wanted.take = (wanted.take - pages).min(BUDGET as i64);
            }
        }
        self.wake.wake();
        true
    }

    /// Forgets everything: the device was reset.
    pub(super) fn clear(&self) {
        *self.wanted.lock() = Wanted::default();
    }

    /// Takes what was noted.
    pub(super) fn fetch(&self) -> Wanted {
        core::mem::take(&mut *self.wanted.lock())
    }
}
