// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the lines a test script prints (KTAP version 1, kernel Documentation/dev-tools/ktap.rst).
//!
//! Beyond KTAP there is one convention: `# begin NAME` before a case says which one runs, so that a guest that dies
//! names its killer. To other readers it is a comment.

use std::time::{Duration, Instant};

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// `ok`.
    Pass,
    /// `not ok`.
    Fail,
    /// `ok ... # SKIP`.
    Skip,
}

/// A case that ended, as the script saw it.
#[derive(Debug, Clone)]
pub struct Line {
    /// Name of the case.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What it printed, and the reason of a skip.
    pub notes: Vec<String>,
    /// Wall time from `# begin` to the result.
    pub took: Duration,
}

/// Reader of one script's output.
#[derive(Debug, Default)]
pub struct Ktap {
    /// `1..N`, once seen.
    pub plan: Option<usize>,
    /// Results so far, in order.
    pub lines: Vec<Line>,
    /// The case that runs, and since when.
    pub running: Option<(String, Instant)>,
    /// What is wrong with the output itself.
    pub faults: Vec<String>,
    notes: Vec<String>,
}

impl Ktap {
    /// Takes one line; returns the case that it ended.
    pub fn feed(&mut self, text: &str, now: Instant) -> Option<&Line> {
        let text = text.trim_end();
        if let Some(note) = text.strip_prefix('#') {
            self.note(note.trim_start(), now);
            return None;
        }
        if let Some(count) = text.strip_prefix("1..") {
            match count.trim().parse() {
                Ok(count) if self.plan.is_none() => self.plan = Some(count),
                _ => self.faults.push(format!("bad or second plan '{text}'")),
            }
            return None;
        }
        let (passed, rest) = if let Some(rest) = text.strip_prefix("ok ") {
            (true, rest)
        } else if let Some(rest) = text.strip_prefix("not ok ") {
            (false, rest)
        } else {
            if !text.is_empty() && !text.starts_with("KTAP version") {
                self.notes.push(text.to_owned());
            }
            return None;
        };
        self.result(passed, rest, now)
    }

    fn note(&mut self, note: &str, now: Instant) {
        if let Some(name) = note.strip_prefix("begin ") {
            self.running = Some((name.trim().to_owned(), now));
            self.notes.clear();
        } else {
            self.notes.push(note.to_owned());
        }
    }

    fn result(&mut self, passed: bool, rest: &str, now: Instant) -> Option<&Line> {
        let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let expected = self.lines.len() + 1;
        if number.parse() != Ok(expected) {
            self.faults
                .push(format!("result number '{number}' where {expected} was due"));
        }
        let (name, directive) = match rest.split_once('#') {
            Some((name, directive)) => (name, Some(directive.trim())),
            None => (rest, None),
        };
        let name = name.trim().trim_start_matches("- ").to_owned();
        let skipped = directive.filter(|text| text.to_ascii_uppercase().starts_with("SKIP"));
        let mut notes = std::mem::take(&mut self.notes);
        let outcome = match (passed, skipped) {
            (true, Some(reason)) => {
                notes.push(reason.to_owned());
                Outcome::Skip
            }
            (true, None) => Outcome::Pass,
            (false, _) => Outcome::Fail,
        };
        let took = match self.running.take() {
            Some((running, since)) if running == name => now.duration_since(since),
            Some((running, _)) => {
                self.faults
                    .push(format!("'{name}' ended while '{running}' ran"));
                Duration::ZERO
            }
            None => Duration::ZERO,
        };
        self.lines.push(Line {
            name,
            outcome,
            notes,
            took,
        });
        self.lines.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Ktap {
        let mut ktap = Ktap::default();
        for line in text.lines() {
            ktap.feed(line, Instant::now());
        }
        ktap
    }

    #[test]
    fn results_carry_their_notes() {
        let ktap = read(
            "KTAP version 1\n1..3\n# begin a\n# hello\nok 1 a\n# begin b\n# wrong\nnot ok 2 b\n\
             # begin c\nok 3 c # SKIP no card\n",
        );
        let seen: Vec<_> = ktap
            .lines
            .iter()
            .map(|line| (line.name.as_str(), line.outcome, line.notes.join("|")))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", Outcome::Pass, "hello".to_owned()),
                ("b", Outcome::Fail, "wrong".to_owned()),
                ("c", Outcome::Skip, "SKIP no card".to_owned()),
            ]
        );
        assert_eq!(ktap.plan, Some(3));
        assert!(ktap.faults.is_empty());
    }

    #[test]
    fn a_wrong_number_is_a_fault() {
        assert_eq!(read("1..2\nok 1 a\nok 3 b\n").faults.len(), 1);
        assert_eq!(read("1..2\n1..2\n").faults.len(), 1);
    }

    #[test]
    fn the_running_case_is_known() {
        let ktap = read("1..2\n# begin a\nok 1 a\n# begin b\n# half\n");
        assert_eq!(ktap.running.map(|(name, _)| name).as_deref(), Some("b"));
    }
}
