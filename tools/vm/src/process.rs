// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Child processes that never outlive this one.

use std::process::{Child, Command, ExitStatus, Stdio};

use crate::error::{Error, Result};

/// A running program; killed when dropped, and by the kernel when this process dies.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `program`. The calling thread must live as long as the child: the kernel's parent-death signal is
    /// about the thread.
    pub fn start(
        program: &str,
        args: &[String],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", program])
            .args(args)
            .stdin(Stdio::null());
        prepare(&mut command);
        let child = command.spawn().map_err(|source| Error::Start {
            program: program.to_owned(),
            source,
        })?;
        Ok(Self { child })
    }

    /// Its number; setpriv becomes the program, so this is the program's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The exit status, when it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the end.
    pub fn wait(&mut self) {
        // An error means that it was reaped already.
        let _ = self.child.wait();
    }

    /// Ends it now.
    pub fn kill(&mut self) {
        // It may have ended by itself: nothing to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of a process with all its threads, in milliseconds; none when it is gone. Source: proc(5), utime and stime
/// of /proc/PID/stat in ticks of 10 ms.
pub fn cpu_ms(pid: u32) -> Option<u64> {
    const TICK_MS: u64 = 10;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    let ticks = |index: usize| after.split_whitespace().nth(index)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * TICK_MS)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
