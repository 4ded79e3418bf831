// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU's monitor: one command, one answer, JSON by the line.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::{json, Value};

use crate::error::{Error, Result};

/// How long QEMU may take for an answer.
const ANSWER: Duration = Duration::from_secs(30);

/// A connection to the monitor.
#[derive(Debug)]
pub struct Qmp {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

fn fault(message: impl ToString) -> Error {
    Error::Channel {
        channel: "QEMU monitor",
        message: message.to_string(),
    }
}

impl Qmp {
    /// Connects and leaves the greeting phase.
    pub fn connect(path: &Path) -> Result<Self> {
        let writer = UnixStream::connect(path).map_err(fault)?;
        writer.set_read_timeout(Some(ANSWER)).map_err(fault)?;
        let reader = BufReader::new(writer.try_clone().map_err(fault)?);
        let mut qmp = Self { reader, writer };
        qmp.read()?;
        qmp.execute(json!({ "execute": "qmp_capabilities" }))?;
        Ok(qmp)
    }

    /// Sends a command object and returns what `return` says.
    pub fn execute(&mut self, command: Value) -> Result<Value> {
        writeln!(self.writer, "{command}").map_err(fault)?;
        loop {
            let mut answer = self.read()?;
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
            if let Some(error) = answer.get("error") {
                return Err(fault(
                    error.get("desc").and_then(Value::as_str).unwrap_or("error"),
                ));
            }
            // An event: nobody here waits for one.
        }
    }

    /// A command of the human monitor, for what the machine protocol lacks. Returns its text.
    pub fn human(&mut self, line: &str) -> Result<String> {
        let answer = self.execute(json!({
            "execute": "human-monitor-command",
            "arguments": { "command-line": line },
        }))?;
        Ok(answer.as_str().unwrap_or_default().replace('\r', ""))
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).map_err(fault)? == 0 {
            return Err(fault("QEMU is gone"));
        }
        serde_json::from_str(&line).map_err(fault)
    }
}
