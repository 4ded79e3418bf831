// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that waits: for frames, deadlines of the model and control connections.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;

use crate::control::Server;
use crate::machine::Machine;

/// Everything that is waited for.
pub struct Loop {
    machine: Arc<Machine>,
    control: Option<Server>,
}

impl Loop {
    /// Waits on behalf of `machine`.
    pub fn new(machine: Arc<Machine>, control: Option<Server>) -> Self {
        Self { machine, control }
    }

    /// Waits for as long as the process lives.
    pub fn run(mut self) {
        loop {
            let mut fds = vec![
                PollFd::from_borrowed_fd(self.machine.port.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.machine.alarm.as_fd(), PollFlags::IN),
            ];
            if let Some(control) = &self.control {
                control.watch(&mut fds);
            }
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot wait for events");
                    return;
                }
            }
            let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
            let (port, alarm) = (ready(0), ready(1));
            let control = (2..fds.len()).any(ready);
            drop(fds);
            if port {
                self.machine.serve_port();
            }
            if alarm {
                self.machine.serve_alarm();
            }
            if let Some(server) = self.control.as_mut().filter(|_| control) {
                server.serve(&self.machine);
            }
        }
    }
}
