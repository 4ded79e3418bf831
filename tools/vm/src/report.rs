// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What remains of a run: lines for the person, build/results/SUITE.ktap and summary.json for programs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    error::{Context, Result},
    judge::Case,
    ktap::Outcome,
};

/// A part of this name runs the same script on the stock driver: `stock-basic` beside `basic`.
const STOCK: &str = "stock-";
/// Lines about a failed case at the end of a run; all of them stand where it ran.
const LAST_LINES: usize = 12;

/// Collects results in the order in which they come.
#[derive(Debug)]
pub struct Report {
    directory: PathBuf,
    cases: Vec<Case>,
    /// What failed in the first of two runs.
    unsteady: Vec<Case>,
    /// Boots that were repeated because a kernel hung or died in them.
    pub retries: u32,
}

impl Report {
    /// Results go to `directory`; those of earlier runs are removed.
    pub fn new(directory: &Path) -> Result<Self> {
        if directory.exists() {
            fs::remove_dir_all(directory).at(directory)?;
        }
        fs::create_dir_all(directory).at(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            cases: Vec::new(),
            unsteady: Vec::new(),
            retries: 0,
        })
    }

    /// Takes one result and shows it; a failure with all that is known about it.
    pub fn add(&mut self, case: Case) {
        let word = match case.result {
            Outcome::Pass => "ok  ",
            Outcome::Fail => "FAIL",
            Outcome::Skip => "skip",
        };
        println!(
            "{word} {}/{} ({:.1} s)",
            case.suite, case.case, case.seconds
        );
        if case.result != Outcome::Pass {
            for note in &case.notes {
                println!("     | {note}");
            }
        }
        self.cases.push(case);
    }

    /// Takes the results of a part that runs once more; its failures are shown, and stand at the end of the run.
    pub fn unsteady(&mut self, cases: Vec<Case>) {
        let failed: Vec<Case> = cases
            .into_iter()
            .filter(|case| case.result == Outcome::Fail)
            .collect();
        print!("{}", lines("1st ", &failed, usize::MAX));
        self.unsteady.extend(failed);
    }

    /// Number of passed, failed and skipped cases.
    pub fn totals(&self) -> (usize, usize, usize) {
        let count = |outcome| {
            self.cases
                .iter()
                .filter(|case| case.result == outcome)
                .count()
        };
        (
            count(Outcome::Pass),
            count(Outcome::Fail),
            count(Outcome::Skip),
        )
    }

    /// Writes the files and prints the last line; true when nothing failed and something ran.
    pub fn finish(&self) -> Result<bool> {
        let mut suites: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
        for case in &self.cases {
            suites.entry(&case.suite).or_default().push(case);
        }
        for (suite, cases) in &suites {
            let path = self.directory.join(format!("{suite}.ktap"));
            fs::write(&path, ktap(cases)).at(&path)?;
        }
        let summary = serde_json::json!({
            "cases": self.cases,
            "unsteady": self.unsteady,
            "boot_retries": self.retries,
        });
        let path = self.directory.join("summary.json");
        fs::write(&path, format!("{summary:#}\n")).at(&path)?;
        if let Some(table) = beside(&self.cases) {
            print!("{table}");
            let path = self.directory.join("stock.txt");
            fs::write(&path, table).at(&path)?;
        }
        if self.retries > 0 {
            println!(
                "{} boots were repeated: a kernel hung or died in them under TCG",
                self.retries
            );
        }
        let (passed, failed, skipped) = self.totals();
        if !self.unsteady.is_empty() {
            println!("failed in the first of two runs of their part:");
            print!("{}", lines("1st ", &self.unsteady, LAST_LINES));
        }
        print!("{}", failures(&self.cases));
        let unsteady = match self.unsteady.len() {
            0 => String::new(),
            count => format!(", {count} unsteady"),
        };
        println!("{passed} passed, {failed} failed, {skipped} skipped{unsteady}");
        Ok(failed == 0 && passed > 0)
    }
}

/// What failed, once more and in short: the end of a long log is what people see of it.
fn failures(cases: &[Case]) -> String {
    let failed: Vec<Case> = cases
        .iter()
        .filter(|case| case.result == Outcome::Fail)
        .cloned()
        .collect();
    lines("FAIL", &failed, LAST_LINES)
}

/// Cases with the last of their notes.
fn lines(word: &str, cases: &[Case], most: usize) -> String {
    let mut text = String::new();
    for case in cases {
        text.push_str(&format!("{word} {}/{}\n", case.suite, case.case));
        let hidden = case.notes.len().saturating_sub(most);
        for note in case.notes.iter().skip(hidden) {
            text.push_str(&format!("     | {note}\n"));
        }
    }
    text
}

/// The cases that ran on the stock driver too, with both results; none when there is no such case.
fn beside(cases: &[Case]) -> Option<String> {
    let find = |suite: &str, name: &str| {
        cases
            .iter()
            .find(|case| case.suite == suite && case.case == name)
    };
    let ran = |suite: &str, part: &str| {
        cases
            .iter()
            .any(|case| case.suite == suite && case.case.split('.').next() == Some(part))
    };
    let told = |case: Option<&Case>| match case {
        None => "-".to_owned(),
        Some(case) => {
            let word = match case.result {
                Outcome::Pass => "ok",
                Outcome::Fail => "FAIL",
                Outcome::Skip => "skip",
            };
            format!("{word} ({:.1} s)", case.seconds)
        }
    };
    let mut rows: Vec<(String, Option<&Case>, Option<&Case>)> = Vec::new();
    for case in cases {
        let (suite, name) = (case.suite.as_str(), case.case.as_str());
        let part = name.split('.').next().unwrap_or(name);
        match (name.strip_prefix(STOCK), part.strip_prefix(STOCK)) {
            (Some(ours), Some(part)) if ran(suite, part) && find(suite, ours).is_none() => {
                rows.push((format!("{suite}/{ours}"), None, Some(case)));
            }
            (None, _) if ran(suite, &format!("{STOCK}{part}")) => {
                let stock = find(suite, &format!("{STOCK}{name}"));
                rows.push((format!("{suite}/{name}"), Some(case), stock));
            }
            _ => {}
        }
    }
    if !rows.iter().any(|(_, _, stock)| stock.is_some()) {
        return None;
    }
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text = format!("{:<width$}  {:<16} stock\n", "", "rmlx5");
    for (name, ours, stock) in rows {
        let row = format!("{name:<width$}  {:<16} {}", told(ours), told(stock));
        text.push_str(row.trim_end());
        text.push('\n');
    }
    Some(text)
}

fn ktap(cases: &[&Case]) -> String {
    let mut text = format!("KTAP version 1\n1..{}\n", cases.len());
    for (number, case) in cases.iter().enumerate() {
        for note in &case.notes {
            text.push_str(&format!("# {note}\n"));
        }
        let (word, directive) = match case.result {
            Outcome::Pass => ("ok", ""),
            Outcome::Fail => ("not ok", ""),
            Outcome::Skip => ("ok", " # SKIP"),
        };
        text.push_str(&format!("{word} {} {}{directive}\n", number + 1, case.case));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, result: Outcome) -> Case {
        Case {
            suite: "s".into(),
            case: name.into(),
            result,
            seconds: 1.0,
            notes: vec!["note".into()],
            grave: false,
        }
    }

    #[test]
    fn the_file_is_ktap() {
        let cases = [
            case("a", Outcome::Pass),
            case("b", Outcome::Fail),
            case("c", Outcome::Skip),
        ];
        let text = ktap(&cases.iter().collect::<Vec<_>>());
        assert!(text.starts_with("KTAP version 1\n1..3\n"));
        assert!(text.contains("\nnot ok 2 b\n"));
        assert!(text.contains("\nok 3 c # SKIP\n"));
    }

    #[test]
    fn failures_stand_at_the_end_of_the_log() {
        let mut long = case("b", Outcome::Fail);
        long.notes = (0..LAST_LINES + 3).map(|n| format!("note {n}")).collect();
        let text = failures(&[case("a", Outcome::Pass), long]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + LAST_LINES, "{text}");
        assert_eq!(lines[0], "FAIL s/b");
        assert_eq!(lines[1], "     | note 3");
        assert_eq!(lines[LAST_LINES], "     | note 14");
        assert!(failures(&[case("a", Outcome::Skip)]).is_empty());
    }

    #[test]
    fn the_stock_driver_has_a_column() {
        assert_eq!(beside(&[case("basic.a", Outcome::Pass)]), None);
        let cases = [
            case("basic.a", Outcome::Pass),
            case("basic.b", Outcome::Pass),
            case("other.a", Outcome::Pass),
            case("stock-basic.a", Outcome::Fail),
            case("stock-basic.c", Outcome::Skip),
            // Has no other to stand beside.
            case("stock-alone.a", Outcome::Pass),
        ];
        let table = beside(&cases).expect("a table");
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows.len(), 4, "{table}");
        assert_eq!(
            rows[1],
            ["s/basic.a", "ok", "(1.0", "s)", "FAIL", "(1.0", "s)"]
        );
        assert_eq!(rows[2], ["s/basic.b", "ok", "(1.0", "s)", "-"]);
        assert_eq!(rows[3], ["s/basic.c", "-", "skip", "(1.0", "s)"]);
    }

    #[test]
    fn a_run_of_nothing_is_no_success() {
        let directory = std::env::temp_dir().join(format!("vm-report-{}", std::process::id()));
        let report = Report::new(&directory).expect("directory");
        assert!(!report.finish().expect("files"));
        let text = fs::read_to_string(directory.join("summary.json")).expect("summary");
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        assert!(value["cases"].as_array().expect("array").is_empty());
        fs::remove_dir_all(directory).expect("clean");
    }
}
