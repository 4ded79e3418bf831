// SPDX-License-Identifier: GPL-2.0
//! A self-test run, shared by the channels that take part.

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

use super::options::Options;

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
