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

/// Collects results in the order in which they come.
#[derive(Debug)]
pub struct Report {
    directory: PathBuf,
    cases: Vec<Case>,
    /// Boots that were repeated because the kernel stayed silent.
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
        let summary = serde_json::json!({ "cases": self.cases, "boot_retries": self.retries });
        let path = self.directory.join("summary.json");
        fs::write(&path, format!("{summary:#}\n")).at(&path)?;
        if self.retries > 0 {
            println!(
                "{} boots were repeated: the kernel stayed silent under TCG",
                self.retries
            );
        }
        let (passed, failed, skipped) = self.totals();
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        Ok(failed == 0 && passed > 0)
    }
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
