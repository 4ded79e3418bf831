// SPDX-License-Identifier: GPL-2.0
//! Bus mastering: whether the card may reach memory.

use kernel::{
    sync::atomic::{
        ordering::{
            Acquire,
            Release, //
        },
        Atomic, //
    }, //
};
use kernel_ext::pci::BoundDevice;

/// Bus mastering of one card. Off at first.
pub(crate) struct Master {
    pdev: BoundDevice,
    on: Atomic<u32>,
}

impl Master {
    /// It stays off.
    pub(crate) fn new(pdev: &BoundDevice) -> Self {
        Self {
            pdev: pdev.clone(),
            on: Atomic::new(0),
        }
    }

    /// A generation begins.
    pub(crate) fn begin(&self) {
        self.on.store(1, Release);
        self.pdev.set_master();
    }

    /// A generation is over: the card reads and writes nothing and sends no interrupt when this returns.
    /// Whatever was noted before: who restores the configuration space switches it on. Any context.
    pub(crate) fn end(&self) {
        self.pdev.clear_master();
        self.on.store(0, Release);
    }

    /// Whether the card may reach memory. Any context.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Acquire) != 0
    }
}
