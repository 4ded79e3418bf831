// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows the guests of one boot, with limits on all of it.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use crate::{
    boots::Boots,
    console::Console,
    guest::Event,
    judge::End,
    ktap::Ktap,
    marks::Mark,
    run::Purpose,
    suite::{Part, Shape},
};

/// TCG sometimes hangs before the kernel has printed much: so long may it be silent while booting.
const SILENCE: Duration = Duration::from_secs(60);
/// From the last result to the power-off.
const FAREWELL: Duration = Duration::from_secs(30);

/// What one boot left.
#[derive(Debug)]
pub struct Trace {
    /// What the script said.
    pub ktap: Ktap,
    /// What the kernels said; the first is the one that ran the script.
    pub consoles: Vec<Console>,
    /// How it ended.
    pub end: End,
    /// Exit code of the script, when it came to that.
    pub code: Option<String>,
    /// Marks it took.
    pub marks: Vec<Mark>,
}

/// Follows the guests of `part` until the script has ended, or its time; judges nothing.
pub fn watch(
    verbose: bool,
    part: &Part,
    purpose: Purpose,
    events: &Receiver<Event>,
    progress: &mut dyn FnMut(&str),
) -> Trace {
    let mut code = None;
    let mut ktap = Ktap::default();
    let mut consoles: Vec<Console> = part.shapes.iter().map(|_| Console::default()).collect();
    let start = Instant::now();
    let mut deadline = start + Duration::from_secs(part.timeout);
    let kernel = |shape: &Shape| !shape.machine.qemu.iter().any(|word| word == "-kernel");
    let mut boots = Boots::new(part.shapes.iter().map(kernel), start);
    let mut done = false;
    let end = loop {
        match events.recv_timeout(Duration::from_millis(200)) {
            Ok(Event::Console(guest, line)) => {
                if verbose {
                    print!("guest{guest}: {line}");
                }
                if boots.line(guest, &line, Instant::now()) && guest == 0 {
                    progress(&format!(
                        "guest up after {:.1} s",
                        start.elapsed().as_secs_f64()
                    ));
                }
                if let Some(console) = consoles.get_mut(guest) {
                    console.push(&line);
                }
            }
            Ok(Event::Ktap(0, line)) => {
                boots.up(0);
                if verbose {
                    print!("script: {line}");
                }
                if line.trim_end() == "# guest done" {
                    done = true;
                    deadline = Instant::now() + FAREWELL;
                } else if let Some(value) = line.strip_prefix("# exit ") {
                    code = Some(value.trim().to_owned());
                } else if purpose != Purpose::Test {
                    print!("{line}");
                } else if let Some(result) = ktap.feed(&line, Instant::now()) {
                    progress(&format!("{:?} {}", result.outcome, result.name));
                }
            }
            Ok(Event::Ktap(..)) => {}
            // Nothing of this project runs before a guest is up.
            Ok(Event::Gone(guest)) if !boots.is_up(guest) => break End::NotUp,
            Ok(Event::Gone(0)) | Err(RecvTimeoutError::Disconnected) => {
                break if done { End::Done } else { End::Died };
            }
            // A peer that leaves early shows in what the script asks of it.
            Ok(Event::Gone(_)) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if boots.silent(SILENCE, now).is_some() {
            break End::NotUp;
        }
        if now > deadline {
            break if done { End::Done } else { End::TimedOut };
        }
    };
    Trace {
        ktap,
        consoles,
        end,
        code,
        marks: Vec::new(),
    }
}
