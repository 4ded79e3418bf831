// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one part: cards, guests, the script, and hard limits on all of it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{mpsc, Arc, Mutex},
    thread,
};

use crate::{
    card::{self, Cables},
    error::{Context, Result},
    guest::{Guest, Places},
    image::{Job, Role},
    judge::{Case, End, Evidence},
    ktap::{Ktap, Outcome},
    machine::{Accelerator, Sockets},
    marks::{Mark, Marks},
    modules::Kernel,
    service::{lock, Service, Side},
    suite::Part,
    watch::{watch, Trace},
};

/// How often a part is started again because a kernel did not boot: of fifty boots under TCG one does not.
const MOST_AGAIN: u32 = 2;

/// What all parts share.
#[derive(Debug)]
pub struct Bench {
    /// The stock kernel.
    pub kernel: Kernel,
    /// Who executes.
    pub accelerator: Accelerator,
    /// The emulator's program.
    pub emulator: PathBuf,
    /// rmlx5.ko.
    pub module: PathBuf,
    /// The kernel's own tests of network drivers, below the paths that they have in its source.
    pub kernel_tests: PathBuf,
    /// The plugin that counts instructions.
    pub plugin: PathBuf,
    /// Directory of the test scripts.
    pub scripts: PathBuf,
    /// Directory of results; logs go below it.
    pub results: PathBuf,
    /// Why the drivers differ.
    pub reasons: PathBuf,
    /// Show the console while it runs.
    pub verbose: bool,
}

/// What the first guest of a part is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Its output is test results.
    Test,
    /// Its output is for a person.
    Show,
    /// A person sits at its console.
    Shell,
    /// It takes marks; instructions are counted.
    Measure,
}

/// Turns the failure that a part provokes into the success of having seen it.
fn seen(part: &Part, words: &str, cases: Vec<Case>) -> Case {
    let failed = |case: &Case| {
        case.result == Outcome::Fail && case.notes.iter().any(|note| note.contains(words))
    };
    let result = if cases.iter().any(failed) {
        Outcome::Pass
    } else {
        Outcome::Fail
    };
    let mut notes = vec![format!("no case failed with '{words}'")];
    notes.extend(cases.iter().map(|case| {
        format!(
            "{}: {:?} {}",
            case.case,
            case.result,
            case.notes.join(" / ")
        )
    }));
    Case {
        suite: part.suite.clone(),
        case: format!("{}.seen", part.name),
        result,
        seconds: cases.iter().map(|case| case.seconds).sum(),
        notes: if result == Outcome::Pass {
            Vec::new()
        } else {
            notes
        },
        // What a second run says of a bench that sees nothing is of no interest.
        grave: true,
    }
}

impl Bench {
    /// Runs a part, once more when a kernel did not boot; returns results and the number of repeated boots.
    pub fn run(&self, part: &Part, progress: &mut dyn FnMut(&str)) -> (Vec<Case>, u32) {
        let (trace, retries) = self.boot_up(part, Purpose::Test, progress);
        let cases = Evidence {
            suite: &part.suite,
            part: &part.name,
            expected: &part.cases,
            ktap: &trace.ktap,
            consoles: &trace.consoles,
            end: &trace.end,
        }
        .judge();
        match &part.must_fail {
            Some(words) => (vec![seen(part, words, cases)], retries),
            None => (cases, retries),
        }
    }

    fn logs(&self, part: &Part) -> PathBuf {
        self.results
            .join("logs")
            .join(format!("{}.{}", part.suite, part.name))
    }

    /// Puts the logs of a part aside, as `PART.first`: it runs once more.
    pub fn keep_logs(&self, part: &Part) -> Result<()> {
        let logs = self.logs(part);
        let mut kept = logs.clone().into_os_string();
        kept.push(".first");
        fs::rename(&logs, PathBuf::from(kept)).at(&logs)
    }

    /// Runs a script for a person: shows its output; true when it exited with 0, the guest ended well and no kernel
    /// gave an alarm.
    pub fn show(&self, part: &Part, progress: &mut dyn FnMut(&str)) -> bool {
        let (trace, _) = self.boot_up(part, Purpose::Show, progress);
        Self::ended_well(&trace)
    }

    /// Runs a script that takes marks; none when it did not end well.
    pub fn measure(&self, part: &Part, progress: &mut dyn FnMut(&str)) -> Option<Vec<Mark>> {
        let (trace, _) = self.boot_up(part, Purpose::Measure, progress);
        Self::ended_well(&trace).then_some(trace.marks)
    }

    fn ended_well(trace: &Trace) -> bool {
        let mut good = trace.end == End::Done && trace.code.as_deref() == Some("0");
        for console in &trace.consoles {
            for alarm in console.alarms() {
                good = false;
                println!("kernel alarm:");
                console
                    .excerpt(alarm.at, 25)
                    .iter()
                    .for_each(|line| println!("  | {line}"));
            }
        }
        if trace.end != End::Done {
            println!("{}; last console lines:", trace.end);
            let tail = trace.consoles.first().map(|console| console.tail(25));
            tail.unwrap_or_default()
                .iter()
                .for_each(|line| println!("  | {line}"));
        }
        good
    }

    /// Gives the console to the person at the terminal.
    pub fn shell(&self, part: &Part) {
        let trace = self.boot(part, Purpose::Shell, &mut |_| {});
        if let End::NotStarted(why) = trace.end {
            println!("{why}");
        }
    }

    fn boot_up(
        &self,
        part: &Part,
        purpose: Purpose,
        progress: &mut dyn FnMut(&str),
    ) -> (Trace, u32) {
        for again in 0..MOST_AGAIN {
            let trace = self.boot(part, purpose, progress);
            if trace.end != End::NotUp {
                return (trace, again);
            }
            progress("a guest's kernel hung or died while it booted: once more");
        }
        (self.boot(part, purpose, progress), MOST_AGAIN)
    }

    fn boot(&self, part: &Part, purpose: Purpose, progress: &mut dyn FnMut(&str)) -> Trace {
        // Sockets need short names; logs stay.
        let run = std::env::temp_dir().join(format!(
            "rmlx5.{}.{}.{}",
            std::process::id(),
            part.suite,
            part.name
        ));
        let logs = self.logs(part);
        let trace = self
            .boot_in(part, purpose, (&run, &logs), progress)
            .unwrap_or_else(|error| Trace {
                ktap: Ktap::default(),
                consoles: Vec::new(),
                end: End::NotStarted(error.to_string()),
                code: None,
                marks: Vec::new(),
            });
        let _ = fs::remove_dir_all(&run);
        trace
    }

    fn boot_in(
        &self,
        part: &Part,
        purpose: Purpose,
        (run, logs): (&Path, &Path),
        progress: &mut dyn FnMut(&str),
    ) -> Result<Trace> {
        let _ = fs::remove_dir_all(run);
        fs::create_dir_all(run).at(run)?;
        fs::create_dir_all(logs).at(logs)?;
        let places = Places { run, logs };
        let (sender, events) = mpsc::channel();

        let mut cables = Cables::new(run);
        let mut sides = Vec::new();
        for (number, shape) in part.shapes.iter().enumerate() {
            let sockets = Sockets::new(run, number);
            let mut side = Side {
                console: logs.join(format!("guest{number}.console")),
                ..Side::default()
            };
            for (n, card) in shape.cards.iter().enumerate() {
                let process = card::start(
                    &self.emulator,
                    card,
                    (number, n),
                    &sockets,
                    &mut cables,
                    logs,
                )?;
                lock(&side.cards).push(process);
                side.controls.push(sockets.control(n));
            }
            sides.push(side);
        }
        let mut plugin = Vec::new();
        let mut marks = None;
        if purpose == Purpose::Measure {
            let (arguments, end) = Marks::new(&self.plugin, run);
            plugin = arguments;
            marks = Some(end);
        }
        let mut service = Service {
            emulator: self.emulator.clone(),
            sides,
            marks,
            streams: Mutex::default(),
            reasons: self.reasons.clone(),
        };
        let mut guests = Vec::new();
        let mut channel = None;
        for (number, shape) in part.shapes.iter().enumerate().rev() {
            let job = self.job(part, purpose, number);
            let mut shape = shape.clone();
            if number == 0 {
                shape.machine.qemu.append(&mut plugin);
            }
            let mut guest = Guest::start(
                &self.kernel,
                &shape,
                &job,
                self.accelerator,
                &places,
                &sender,
            )?;
            if let Some(side) = service.sides.get_mut(number) {
                side.qmp = Mutex::new(guest.qmp.take());
                side.qemu = Mutex::new(Some(guest.qemu.pid()));
                if number > 0 {
                    let agent = guest.host.take().map(crate::service::Agent::new);
                    side.agent = Mutex::new(agent.transpose().at(run)?);
                } else {
                    channel = guest.host.take();
                }
            }
            guests.push(guest);
        }
        drop(sender);
        let service = Arc::new(service);
        if let Some(stream) = channel {
            let service = Arc::clone(&service);
            // Ends when the guest closes its side; what it says after that has no reader.
            thread::spawn(move || service.serve(0, stream));
        }
        let mut trace = if purpose == Purpose::Shell {
            // The last one started is the first guest.
            guests
                .iter_mut()
                .rev()
                .take(1)
                .for_each(|guest| guest.qemu.wait());
            Trace {
                ktap: Ktap::default(),
                consoles: Vec::new(),
                end: End::Done,
                code: None,
                marks: Vec::new(),
            }
        } else {
            watch(self.verbose, part, purpose, &events, progress)
        };
        if let Some(marks) = &service.marks {
            trace.marks = marks.drain();
        }
        // Guests go before the cards they use.
        drop(guests);
        for side in &service.sides {
            lock(&side.cards).clear();
        }
        Ok(trace)
    }

    fn job(&self, part: &Part, purpose: Purpose, guest: usize) -> Job {
        let mut env = part.env.clone();
        env.push(("KTAP_CASES".into(), part.cases.join(" ")));
        env.push((
            "KTAP_PEER".into(),
            if part.shapes.len() > 1 {
                "yes".into()
            } else {
                String::new()
            },
        ));
        let mut files = Vec::new();
        if part.module {
            files.push(("rmlx5.ko".into(), self.module.clone()));
        }
        if part.kernel_tests && guest == 0 {
            files.push(("kernel".into(), self.kernel_tests.clone()));
        }
        Job {
            role: match (guest, purpose) {
                (0, Purpose::Shell) => Role::Shell,
                (0, _) => Role::Script,
                _ => Role::Agent,
            },
            guest,
            tests: self.scripts.clone(),
            script: part.script.clone(),
            env,
            files,
        }
    }
}
