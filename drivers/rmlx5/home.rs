// SPDX-License-Identifier: GPL-2.0
//! The device generation that an object belongs to.
//!
//! Memory that the card was given is freed only when the card has let go of it: it said so, or it has
//! been reset, or it does not master the bus any more. Otherwise it is better lost than shared.

use core::mem::ManuallyDrop;

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    cmd::{
        Cmd,
        Command, //
    },
    device::Device, //
};

/// A device in one generation.
#[derive(Clone)]
pub(crate) struct Home {
    /// For this generation only. Before the device: what the queue was given goes after it.
    cmd: Cmd,
    generation: u32,
    device: Arc<Device>,
}

impl Home {
    /// The device as it is now.
    pub(crate) fn now(device: &Arc<Device>) -> Self {
        let generation = device.cmd.generation();
        Self {
            device: device.clone(),
            generation,
            cmd: device.cmd.of(generation),
        }
    }

    /// Which generation it is.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Its command queue, in this generation: a command that comes later fails as [`Cause::Dead`].
    ///
    /// [`Cause::Dead`]: crate::cmd::Cause::Dead
    pub(crate) fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    /// Whether this is still the device's generation.
    pub(crate) fn is_current(&self) -> bool {
        self.cmd.generation() == self.generation
    }

    /// `EIO` when this is not the device's generation any more.
    pub(crate) fn alive(&self) -> Result {
        if self.is_current() {
            Ok(())
        } else {
            Err(EIO)
        }
    }

    /// Whether the card may still use what it was given in this generation.
    pub(crate) fn reaches(&self) -> bool {
        self.is_current() && self.device.is_bus_master()
    }

    /// Runs a command that takes an object away; whether the card has let go of it.
    pub(crate) fn end<C: Command>(&self, command: &C) -> bool {
        !self.reaches() || self.cmd().exec(command).is_ok() || !self.reaches()
    }
}

/// Memory that the card uses. Dropping it without [`Lent::back`] loses it.
pub(crate) struct Lent<T>(Option<ManuallyDrop<T>>);

impl<T> Lent<T> {
    /// About to be given to the card.
    pub(crate) fn new(memory: T) -> Self {
        Self(Some(ManuallyDrop::new(memory)))
    }

    /// The memory.
    pub(crate) fn get(&self) -> Result<&T> {
        self.0.as_deref().ok_or(EINVAL)
    }

    /// The memory.
    pub(crate) fn get_mut(&mut self) -> Result<&mut T> {
        self.0.as_deref_mut().ok_or(EINVAL)
    }

    /// Frees it if the card has let go, or else loses it.
    pub(crate) fn back(&mut self, let_go: bool) {
        if let Some(memory) = self.0.take() {
            if let_go {
                drop(ManuallyDrop::into_inner(memory));
            }
        }
    }
}
