// SPDX-License-Identifier: GPL-2.0
//! A self-test run, shared by the channels that take part, and how they come and go.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        Arc, //
    }, //
};
use kernel_ext::time::now_ns;

use super::{
    options::Options,
    set::{
        Channels,
        Set, //
    },
    tally::Tally,
    Core, //
};
use crate::cq::Moderation;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A run. Begins when it is made, ends when the last channel has left.
pub(super) struct Run {
    /// What was asked for.
    pub(super) options: Options,
    started: u64,
    ended: Atomic<u64>,
    active: Atomic<u32>,
}

impl Run {
    /// A run without channels.
    pub(super) fn new(options: Options) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                options,
                started: now_ns(),
                ended: Atomic::new(0),
                active: Atomic::new(0),
            },
            GFP_KERNEL,
        )?)
    }

    /// One more channel takes part.
    pub(super) fn enter(&self) {
        self.active.fetch_add(1, Full);
    }

    /// A channel has finished.
    pub(super) fn leave(&self) {
        if self.active.fetch_sub(1, Full) == 1 {
            self.ended.store(now_ns(), Relaxed);
        }
    }

    /// Whether a channel is still at work.
    pub(super) fn is_active(&self) -> bool {
        self.active.load(Relaxed) != 0
    }

    /// Whether the time that was asked for has passed.
    pub(super) fn is_over(&self) -> bool {
        let limit = u64::from(self.options.duration) * SECOND;
        limit != 0 && now_ns().saturating_sub(self.started) >= limit
    }

    /// How long it has run, or took, in nanoseconds.
    pub(super) fn elapsed(&self) -> u64 {
        let end = match self.ended.load(Relaxed) {
            0 => now_ns(),
            end => end,
        };
        end.saturating_sub(self.started)
    }
}

/// Trouble that a person can make for a channel.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    /// Its QP goes to ERROR (2ERR).
    Error,
    /// It does not tell the device any more which CQEs it has read, until the CQ overruns.
    Overrun,
}

impl Channels {
    /// Begins a self-test. `EBUSY` while one runs. Sleeps.
    pub(crate) fn start_run(&self, options: Options) -> Result {
        let turn = self.turn();
        let running = |set: &Set| set.run.as_ref().is_some_and(|run| run.is_active());
        if running(&self.set.lock()) {
            return Err(EBUSY);
        }
        let mut set = self.provision(&turn)?;
        let run = Run::new(options)?;
        set.retired.clear();
        set.retired_channels = 0;
        for channel in set.channels.iter() {
            channel.core.enter(&run);
        }
        set.run = Some(run);
        for channel in set.channels.iter() {
            channel.wake();
        }
        Ok(())
    }

    /// Ends a self-test early; what is under way finishes.
    pub(crate) fn stop_run(&self) {
        for channel in self.set.lock().channels.iter() {
            channel.core.stop();
            channel.wake();
        }
    }

    /// Makes trouble for a channel, to see it come back. Sleeps.
    pub(super) fn make(&self, trouble: Trouble, index: usize) -> Result {
        let set = self.set.lock();
        self.must_be_up()?;
        let channel = set.channels.get(index).ok_or(EINVAL)?;
        channel.core.make(trouble)?;
        channel.wake();
        Ok(())
    }
}

impl Core {
    /// Takes part in a run from now on.
    pub(super) fn enter(&self, run: &Arc<Run>) {
        let mut inner = self.inner.lock();
        let events = self.events.load(Relaxed);
        run.enter();
        inner.flow.start(run.options);
        inner.entered = true;
        inner.completions = 0;
        inner.malformed = 0;
        inner.events_before = events;
        inner.run = Some(run.clone());
        let (period_us, count) = run.options.moderation;
        let moderation = Moderation { period_us, count };
        if moderation != inner.moderation {
            if let Some(hw) = &inner.hw {
                if let Err(error) = hw.cq.moderate(&self.device.cmd, moderation) {
                    dev_warn!(
                        self.device.pdev,
                        "channel {}: moderation: {}\n",
                        self.index,
                        error
                    );
                    return;
                }
            }
            inner.moderation = moderation;
        }
    }

    fn make(&self, trouble: Trouble) -> Result {
        let mut inner = self.inner.lock();
        match trouble {
            // Everything that is posted is flushed, and that is how the channel finds out.
            Trouble::Error => {
                let hw = inner.hw.as_mut().ok_or(ENODEV)?;
                hw.qp.fail(&self.device.cmd)
            }
            Trouble::Overrun => {
                inner.mute = true;
                Ok(())
            }
        }
    }

    /// Begins nothing new.
    pub(super) fn stop(&self) {
        self.inner.lock().flow.stop();
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.flow.is_done()
    }

    /// Adds the account of this channel to that of those that are gone, and leaves the run.
    pub(super) fn hand_over(&self, retired: &mut Tally) {
        let mut inner = self.inner.lock();
        retired.merge(&inner.flow.tally);
        inner.flow.abandon();
        inner.finish_run();
    }
}
