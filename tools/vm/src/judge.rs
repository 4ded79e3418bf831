// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns what a guest printed into results. A silence is never a pass.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{
    console::Console,
    ktap::{Ktap, Outcome},
};

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The script ran to its end and the guest powered off.
    Done,
    /// The time of the part was over.
    TimedOut,
    /// The guest was gone before the script ended.
    Died,
    /// A guest's kernel printed nothing for too long while it booted, or died there; each time it was tried.
    NotUp,
    /// The machine could not be built.
    NotStarted(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "the script ended",
            Self::TimedOut => "the time of the part was over",
            Self::Died => "the guest died",
            Self::NotUp => "a guest's kernel did not boot, however often it was tried",
            Self::NotStarted(why) => why,
        })
    }
}

/// The result of one case.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// Suite.
    pub suite: String,
    /// `part.case`.
    pub case: String,
    /// Outcome.
    #[serde(serialize_with = "outcome_name")]
    pub result: Outcome,
    /// Wall time.
    pub seconds: f64,
    /// What to show when it failed, or why it was skipped.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// A kernel gave an alarm or died: no matter of chance, whatever a second run says.
    #[serde(skip)]
    pub grave: bool,
}

fn outcome_name<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Skip => "skip",
    })
}

/// Everything known about one run of a part.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Suite.
    pub suite: &'a str,
    /// Part.
    pub part: &'a str,
    /// Names of the cases that had to run, in order.
    pub expected: &'a [String],
    /// What the script said.
    pub ktap: &'a Ktap,
    /// What the kernels said; the first is the one that ran the script.
    pub consoles: &'a [Console],
    /// How it ended.
    pub end: &'a End,
}

/// Lines of a console shown after a death, and after an alarm.
const SHOWN: usize = 25;

impl Evidence<'_> {
    /// The verdict: each expected case, and one more for each thing that no case answers for.
    pub fn judge(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = self.expected.iter().map(|name| self.one(name)).collect();
        if self.expected.is_empty() {
            cases.push(self.fail("no_cases", vec!["the script has no case".into()]));
        }
        self.alarms(&mut cases);
        let mut faults = self.ktap.faults.clone();
        if let Some(plan) = self.ktap.plan {
            if plan != self.expected.len() {
                faults.push(format!(
                    "the script planned {plan} cases, {} were asked for",
                    self.expected.len()
                ));
            }
        }
        for line in &self.ktap.lines {
            if !self.expected.contains(&line.name) {
                faults.push(format!("case '{}' was not asked for", line.name));
            }
        }
        if !faults.is_empty() {
            cases.push(self.fail("protocol", faults));
        }
        // Nobody was running and yet it did not end well: say so even though each case passed.
        if *self.end != End::Done && cases.iter().all(|case| case.result != Outcome::Fail) {
            cases.push(self.fail("end", self.death()));
        }
        cases
    }

    fn one(&self, name: &str) -> Case {
        let mut results = self.ktap.lines.iter().filter(|line| line.name == name);
        let Some(line) = results.next() else {
            let running = self.ktap.running.as_ref().filter(|(case, _)| case == name);
            return match running {
                Some((_, since)) => {
                    let mut case = self.fail(name, self.death());
                    case.seconds = since.elapsed().as_secs_f64();
                    case
                }
                None => self.fail(name, vec![format!("did not run: {}", self.end)]),
            };
        };
        let mut case = self.fail(name, line.notes.clone());
        case.seconds = line.took.as_secs_f64();
        case.result = line.outcome;
        if results.next().is_some() {
            case.result = Outcome::Fail;
            case.notes.push("it has two results".into());
        }
        case
    }

    /// Kernel alarms overrule what the script thought of itself.
    fn alarms(&self, cases: &mut Vec<Case>) {
        for (guest, console) in self.consoles.iter().enumerate() {
            for alarm in console.alarms() {
                let mut notes = vec![format!("kernel log of guest {guest}:")];
                notes.extend_from_slice(console.excerpt(alarm.at, SHOWN));
                // A peer knows nothing of cases: what it says belongs to the part.
                let name = alarm.case.as_ref().map(|name| self.full(name));
                match cases
                    .iter_mut()
                    .find(|case| Some(&case.case) == name.as_ref())
                {
                    Some(case) => {
                        case.result = Outcome::Fail;
                        case.notes.extend(notes);
                        case.grave = true;
                    }
                    None => cases.push(Case {
                        grave: true,
                        ..self.fail("console", notes)
                    }),
                }
            }
        }
    }

    fn death(&self) -> Vec<String> {
        let mut notes = vec![format!("{}; last console lines:", self.end)];
        if let Some(console) = self.consoles.first() {
            notes.extend_from_slice(console.tail(SHOWN));
        }
        notes
    }

    fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.part)
    }

    fn fail(&self, name: &str, notes: Vec<String>) -> Case {
        Case {
            suite: self.suite.to_owned(),
            case: self.full(name),
            result: Outcome::Fail,
            seconds: 0.0,
            notes,
            grave: *self.end == End::Died,
        }
    }
}

#[cfg(test)]
mod tests;
