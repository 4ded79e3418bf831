// SPDX-License-Identifier: GPL-2.0
//! How the driver holds the command queue: for one generation of the device, or for the present one.

use core::ops::Deref;

use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};
use kernel_ext::{
    numa::Node,
    pci::BoundDevice, //
};
use mlx5_hw::opcode_name;
use rmlx5_trace::Outcome;

use super::{
    queue::Queue,
    Cause,
    CmdError,
    Command, //
};
use crate::{
    iseg::Iseg,
    master::Master, //
};

/// A handle of the command queue.
///
/// Numbers of objects mean something in the generation that gave them, only: a command about CQ 5
/// that was late must not meet the CQ 5 of the next one. Who has objects on the device therefore
/// holds the handle of their generation ([`Cmd::of`]), which is of no more use after it.
#[derive(Clone)]
pub(crate) struct Cmd {
    queue: Arc<Queue>,
    /// `None`: the generation in which a command is asked for.
    generation: Option<u32>,
}

impl Cmd {
    /// A queue, and a handle that goes with the device from generation to generation. Errors as for
    /// [`Queue::new`].
    pub(crate) fn new(
        pdev: &BoundDevice,
        iseg: Arc<Iseg>,
        master: Arc<Master>,
        node: Node,
    ) -> Result<Self> {
        Ok(Self {
            queue: Queue::new(pdev, iseg, master, node)?,
            generation: None,
        })
    }

    /// The queue itself.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// A handle for `generation` only.
    pub(crate) fn of(&self, generation: u32) -> Self {
        Self {
            queue: self.queue.clone(),
            generation: Some(generation),
        }
    }

    /// Runs `command` and returns its answer. Process context; sleeps.
    ///
    /// Fails at once when the device generation is over. A command that the device refuses, and
    /// every command that gets no answer, is logged here, once.
    pub(crate) fn exec<C: Command>(&self, command: &C) -> Result<C::Output, CmdError> {
        self.exec_quiet(command)
            .inspect_err(|error| self.complain(error))
    }

    /// A full card is told in terms of its objects.
    fn complain(&self, error: &CmdError) {
        if error.cause == Cause::Dead || !self.limit.allows() {
            return;
        }
        let full = error.is_full().then(|| self.rooms.full(error.opcode));
        match full.flatten() {
            Some(full) => dev_warn!(self.pdev, "{}\n", full),
            None => dev_warn!(self.pdev, "command failed: {}\n", error),
        }
    }

    /// As [`Cmd::exec`] for commands whose refusal is an expected answer: not logged.
    pub(crate) fn exec_quiet<C: Command>(&self, command: &C) -> Result<C::Output, CmdError> {
        let generation = self.generation.unwrap_or_else(|| self.queue.generation());
        let traced = rmlx5_trace::command_enabled().then(Instant::<Monotonic>::now);
        let result = self
            .queue
            .run(generation, command)
            .map_err(|cause| CmdError {
                // CAST: opcodes are 16 bits wide.
                opcode: C::OPCODE as u16,
                op_mod: command.op_mod(),
                cause,
            });
        if let Some(begin) = traced {
            self.trace(command, result.as_ref().err(), begin.elapsed());
        }
        if result.is_err() {
            self.stats.failed.inc();
        }
        result
    }

    fn trace<C: Command>(&self, command: &C, error: Option<&CmdError>, time: Delta) {
        let outcome = match error {
            None => Outcome::Status(0, 0),
            Some(error) => match error.cause {
                Cause::Status(status, syndrome) => Outcome::Status(status, syndrome),
                _ => Outcome::Error((*error).into()),
            },
        };
        // CAST: opcodes are 16 bits wide.
        let opcode = C::OPCODE as u16;
        let name = opcode_name(opcode).unwrap_or("command");
        let op_mod = command.op_mod();
        rmlx5_trace::command(self.pdev.name(), name, opcode, op_mod, outcome, time);
    }
}

impl Deref for Cmd {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}
