// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The judge on sample logs: each way a guest can look green without being so.

use std::time::Instant;

use super::*;

fn judge(expected: &[&str], ktap: &str, console: &str, end: End) -> Vec<(String, Outcome)> {
    let mut reader = Ktap::default();
    for line in ktap.lines() {
        reader.feed(line, Instant::now());
    }
    let mut log = Console::default();
    console.lines().for_each(|line| log.push(line));
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    Evidence {
        suite: "s",
        part: "p",
        expected: &expected,
        ktap: &reader,
        consoles: &[log],
        end: &end,
    }
    .judge()
    .into_iter()
    .map(|case| (case.case, case.result))
    .collect()
}

fn named(cases: &[(&str, Outcome)]) -> Vec<(String, Outcome)> {
    cases
        .iter()
        .map(|(name, outcome)| (format!("p.{name}"), *outcome))
        .collect()
}

const GOOD: &str = "KTAP version 1\n1..2\n# begin a\nok 1 a\n# begin b\nok 2 b\n";

#[test]
fn a_good_run_passes() {
    let cases = judge(&["a", "b"], GOOD, "", End::Done);
    assert_eq!(cases, named(&[("a", Outcome::Pass), ("b", Outcome::Pass)]));
}

#[test]
fn a_panic_fails_the_running_case_and_all_that_follow() {
    let cases = judge(
        &["a", "b", "c"],
        "1..3\n# begin a\nok 1 a\n# begin b\n",
        "[ 1.0] rmlx5-test: begin a\n[ 1.1] rmlx5-test: end a\n[ 1.2] rmlx5-test: begin b\n\
         [ 1.3] Kernel panic - not syncing: sysrq triggered crash\n",
        End::Died,
    );
    assert_eq!(
        cases,
        named(&[
            ("a", Outcome::Pass),
            ("b", Outcome::Fail),
            ("c", Outcome::Fail)
        ])
    );
}

#[test]
fn a_hang_fails_the_running_case() {
    let cases = judge(&["a"], "1..1\n# begin a\n", "", End::TimedOut);
    assert_eq!(cases, named(&[("a", Outcome::Fail)]));
}

#[test]
fn a_script_without_cases_fails() {
    let cases = judge(&[], "KTAP version 1\n1..0\n", "", End::Done);
    assert_eq!(cases, named(&[("no_cases", Outcome::Fail)]));
}

#[test]
fn a_silent_script_fails() {
    let cases = judge(&["a"], "", "", End::Done);
    assert_eq!(cases, named(&[("a", Outcome::Fail)]));
}

#[test]
fn a_warning_overrules_ok() {
    let log =
        "[ 1.2] rmlx5-test: begin b\n[ 1.3] WARNING: kernel/x.c:3 at f\n[ 1.4] rmlx5-test: end b\n";
    let cases = judge(&["a", "b"], GOOD, log, End::Done);
    assert_eq!(cases, named(&[("a", Outcome::Pass), ("b", Outcome::Fail)]));
}

#[test]
fn a_warning_outside_of_cases_fails_the_part() {
    let cases = judge(&["a", "b"], GOOD, "[ 0.2] BUG: something\n", End::Done);
    assert_eq!(cases.last(), named(&[("console", Outcome::Fail)]).last());
}

#[test]
fn a_death_after_the_last_case_fails_the_part() {
    let cases = judge(&["a", "b"], GOOD, "", End::Died);
    assert_eq!(cases.last(), named(&[("end", Outcome::Fail)]).last());
}

#[test]
fn a_plan_that_shrank_fails() {
    let cases = judge(&["a", "b"], "1..1\n# begin a\nok 1 a\n", "", End::Done);
    assert_eq!(
        cases,
        named(&[
            ("a", Outcome::Pass),
            ("b", Outcome::Fail),
            ("protocol", Outcome::Fail)
        ])
    );
}

#[test]
fn a_case_that_was_not_asked_for_fails() {
    let cases = judge(&["a"], GOOD, "", End::Done);
    assert!(cases.contains(&("p.protocol".into(), Outcome::Fail)));
}

#[test]
fn two_results_for_one_case_fail_it() {
    let cases = judge(
        &["a"],
        "1..1\n# begin a\nok 1 a\n# begin a\nok 2 a\n",
        "",
        End::Done,
    );
    assert_eq!(cases[0].1, Outcome::Fail);
}

#[test]
fn an_alarm_of_the_peer_fails_the_part() {
    let mut peer = Console::default();
    peer.push("[ 1.0] Oops: 0000 [#1]");
    let ktap = Ktap::default();
    let cases = Evidence {
        suite: "s",
        part: "p",
        expected: &[],
        ktap: &ktap,
        consoles: &[Console::default(), peer],
        end: &End::Done,
    }
    .judge();
    assert!(cases.iter().any(|case| case.case == "p.console"));
}
