// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Suite `host`: the workspace's own tests, one result a test.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    error::{Error, Result},
    judge::Case,
    ktap::Outcome,
    process::Process,
    suite::{Selection, HOST},
};

/// So long may one test program run.
const LIMIT: Duration = Duration::from_secs(900);

/// A program full of tests.
#[derive(Debug)]
struct Program {
    /// `crate` for unit tests, `crate/file` for integration tests.
    name: String,
    path: PathBuf,
    directory: PathBuf,
}

fn case(name: String, result: Outcome, seconds: f64, notes: Vec<String>) -> Case {
    Case {
        grave: false,
        suite: HOST.to_owned(),
        case: name,
        result,
        seconds,
        notes,
    }
}

/// Builds and runs all tests of the workspace in `tools`; `add` gets each result at once.
pub fn run(tools: &Path, selection: &Selection, add: &mut dyn FnMut(Case)) -> Result<()> {
    let start = Instant::now();
    let programs = match build(tools)? {
        Ok(programs) => programs,
        Err(message) => {
            let notes = message.lines().map(str::to_owned).collect();
            add(case(
                "build".into(),
                Outcome::Fail,
                start.elapsed().as_secs_f64(),
                notes,
            ));
            return Ok(());
        }
    };
    if programs.is_empty() {
        add(case(
            "build".into(),
            Outcome::Fail,
            0.0,
            vec!["no test program was built".into()],
        ));
    }
    for program in &programs {
        execute(program, selection, add)?;
    }
    Ok(())
}

/// The test programs, or what the compiler said.
fn build(tools: &Path) -> Result<Result<Vec<Program>, String>> {
    let start = |source| Error::Start {
        program: "cargo".into(),
        source,
    };
    let output = Command::new("cargo")
        .args([
            "test",
            "--locked",
            "--workspace",
            "--no-run",
            "--target-dir",
            "../build/target",
        ])
        .args(["--message-format", "json-render-diagnostics", "--quiet"])
        .current_dir(tools)
        .output()
        .map_err(start)?;
    if !output.status.success() {
        return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Ok(text.lines().filter_map(program).collect()))
}

/// Reads one message of cargo.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.get("reason")? != "compiler-artifact" || message.pointer("/profile/test")? != true {
        return None;
    }
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let directory = Path::new(message.get("manifest_path")?.as_str()?)
        .parent()?
        .to_owned();
    let krate = directory.file_name()?.to_string_lossy().into_owned();
    let target = message.pointer("/target/name")?.as_str()?;
    let integration = message.pointer("/target/kind/0")? == "test";
    let name = if integration {
        format!("{krate}/{target}")
    } else {
        krate
    };
    Some(Program {
        name,
        path,
        directory,
    })
}

/// Runs one program and reads libtest's lines.
fn execute(program: &Program, selection: &Selection, add: &mut dyn FnMut(Case)) -> Result<()> {
    let list = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .current_dir(&program.directory)
        .output()
        .map_err(|source| Error::Start {
            program: program.name.clone(),
            source,
        })?;
    let mut wanted: Vec<String> = String::from_utf8_lossy(&list.stdout)
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|test| selection.has(HOST, &full(&program.name, test)))
        .map(str::to_owned)
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut args: Vec<String> = vec!["--exact".into()];
    args.extend(wanted.iter().cloned());
    let mut process = Process::start(&program.path.display().to_string(), &args, |command| {
        command
            .current_dir(&program.directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.env("CARGO_MANIFEST_DIR", &program.directory);
    })?;
    let (sender, lines) = mpsc::channel();
    if let Some(output) = process.child().stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(|line| line.ok())
                .try_for_each(|line| sender.send(line))
        });
    }
    if let Some(errors) = process.child().stderr.take() {
        thread::spawn(move || {
            BufReader::new(errors)
                .lines()
                .map_while(|line| line.ok())
                .try_for_each(|line| sender.send(line))
        });
    }

    let start = Instant::now();
    let mut last = start;
    let mut failed: Vec<(String, f64)> = Vec::new();
    let mut output: Vec<String> = Vec::new();
    let mut end = "ended early";
    loop {
        match lines.recv_timeout(LIMIT.saturating_sub(start.elapsed())) {
            Ok(line) => match verdict(&line) {
                Some((test, result)) if wanted.iter().any(|name| name == test) => {
                    wanted.retain(|name| name != test);
                    // Tests share the CPUs: the time since the last result is what this one cost the run.
                    let seconds = last.elapsed().as_secs_f64();
                    last = Instant::now();
                    if result == Outcome::Fail {
                        failed.push((test.to_owned(), seconds));
                    } else {
                        add(case(full(&program.name, test), result, seconds, Vec::new()));
                    }
                }
                _ => output.push(line),
            },
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                end = "was stopped after 900 s";
                process.kill();
                break;
            }
        }
    }
    for (test, seconds) in failed {
        let notes = output_of(&output, &test);
        add(case(
            full(&program.name, &test),
            Outcome::Fail,
            seconds,
            notes,
        ));
    }
    for test in wanted {
        let mut notes = vec![format!("no result: the test program {end}")];
        notes.extend(output.iter().rev().take(15).rev().cloned());
        add(case(full(&program.name, &test), Outcome::Fail, 0.0, notes));
    }
    Ok(())
}

fn full(program: &str, test: &str) -> String {
    format!("{program}.{test}")
}

/// `test NAME ... ok`, also with a remark such as `(should panic)` or `ignored, reason`.
fn verdict(line: &str) -> Option<(&str, Outcome)> {
    let (test, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let test = test.split(" - ").next().unwrap_or(test);
    if word == "ok" {
        Some((test, Outcome::Pass))
    } else if word.starts_with("ignored") {
        Some((test, Outcome::Skip))
    } else if word.starts_with("FAILED") {
        Some((test, Outcome::Fail))
    } else {
        None
    }
}

/// What a failed test printed: libtest shows it below `---- NAME stdout ----`.
fn output_of(lines: &[String], test: &str) -> Vec<String> {
    let head = format!("---- {test} stdout ----");
    lines
        .iter()
        .skip_while(|line| **line != head)
        .skip(1)
        .take_while(|line| !line.starts_with("---- ") && *line != "failures:")
        .filter(|line| !line.is_empty())
        .take(40)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_libtest_are_understood() {
        assert_eq!(verdict("test a::b ... ok"), Some(("a::b", Outcome::Pass)));
        assert_eq!(
            verdict("test a::b - should panic ... ok"),
            Some(("a::b", Outcome::Pass))
        );
        assert_eq!(
            verdict("test a::b ... FAILED"),
            Some(("a::b", Outcome::Fail))
        );
        assert_eq!(
            verdict("test a ... ignored, slow"),
            Some(("a", Outcome::Skip))
        );
        assert_eq!(verdict("test result: ok. 3 passed"), None);
        assert_eq!(verdict("running 3 tests"), None);
    }

    #[test]
    fn the_output_of_a_failed_test_is_its_own() {
        let lines: Vec<String> =
            "---- a stdout ----\nleft: 1\n\n---- b stdout ----\nother\n\nfailures:\n    a"
                .lines()
                .map(str::to_owned)
                .collect();
        assert_eq!(output_of(&lines, "a"), ["left: 1"]);
        assert_eq!(output_of(&lines, "b"), ["other"]);
    }

    #[test]
    fn messages_of_cargo_name_programs() {
        let line = r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/x","manifest_path":"/w/pcie/Cargo.toml","target":{"name":"pcie","kind":["lib"]}}"#;
        assert_eq!(
            program(line).map(|program| program.name).as_deref(),
            Some("pcie")
        );
        assert!(program(&line.replace("true", "false")).is_none());
    }
}
