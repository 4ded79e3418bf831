// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answering end. Never blocks: it lives in the thread that also waits for frames.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use serde_json::{json, Value};

use super::request::{answer, Request};
use crate::machine::Machine;

/// Connections served at a time; more wait in the backlog.
const CONNECTIONS: usize = 16;
/// Longest request, bytes.
const LINE: usize = 64 * 1024;

struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    open: bool,
}

/// The control socket.
pub struct Server {
    listener: UnixListener,
    connections: Vec<Connection>,
}

impl Server {
    /// Listens at `path`, in place of a process that is gone.
    ///
    /// # Errors
    /// The path is in use or cannot be made.
    pub fn bind(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        crate::remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(|e| format!("{}: {e}", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            connections: Vec::new(),
        })
    }

    /// Adds what has to be waited for.
    pub fn watch<'fd>(&'fd self, fds: &mut Vec<PollFd<'fd>>) {
        if self.connections.len() < CONNECTIONS {
            fds.push(PollFd::from_borrowed_fd(
                self.listener.as_fd(),
                PollFlags::IN,
            ));
        }
        for connection in &self.connections {
            // One answer at a time: who does not read is not read.
            let wanted = if connection.output.is_empty() {
                PollFlags::IN
            } else {
                PollFlags::OUT
            };
            fds.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), wanted));
        }
    }

    /// Accepts, answers, forgets.
    pub fn serve(&mut self, machine: &Machine) {
        while self.connections.len() < CONNECTIONS {
            let Ok((stream, _)) = self.listener.accept() else {
                break;
            };
            if stream.set_nonblocking(true).is_ok() {
                let (input, output) = (Vec::new(), Vec::new());
                self.connections.push(Connection {
                    stream,
                    input,
                    output,
                    open: true,
                });
            }
        }
        for connection in &mut self.connections {
            if connection.step(machine).is_err() {
                connection.open = false;
            }
        }
        self.connections.retain(|connection| connection.open);
    }
}

impl Connection {
    fn step(&mut self, machine: &Machine) -> io::Result<()> {
        self.write()?;
        let mut chunk = [0; 4096];
        while self.output.is_empty() && self.open {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.open = false,
                Ok(len) => self
                    .input
                    .extend_from_slice(chunk.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let reply = reply(machine, &line);
                self.output.extend_from_slice(reply.to_string().as_bytes());
                self.output.push(b'\n');
            }
            if self.input.len() > LINE {
                return Err(ErrorKind::InvalidData.into());
            }
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => drop(self.output.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn reply(machine: &Machine, line: &[u8]) -> Value {
    let request = serde_json::from_slice::<Request>(line).map_err(|error| error.to_string());
    match request.and_then(|request| answer(machine, request)) {
        Ok(value) => json!({ "ok": value }),
        Err(why) => json!({ "error": why }),
    }
}
