// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded search through each door, and the planted bug behind each, which must be found.

use std::time::Duration;

use fuzz::{
    engine::{once, search, Budget},
    targets, Plan, Target,
};

/// Seed of the searches here: the same inputs in every run.
const SEED: u64 = 7;

fn target(name: &str) -> Box<dyn Target> {
    let mut all = targets::all();
    all.retain(|target| target.name() == name);
    all.pop().expect("such a target")
}

fn survives(name: &str) {
    let budget = Budget {
        executions: 1_000,
        time: Duration::from_secs(20),
    };
    let report = search(target(name).as_ref(), SEED, budget, Plan::default());
    println!("{report}");
    if let Some((input, _)) = &report.failure {
        panic!("{report}\n{}", input.to_text());
    }
    assert!(report.executions > 50, "{report}");
}

fn finds(name: &str) {
    let target = target(name);
    // As many inputs as it takes, not as long: a slow machine finds the same.
    let budget = Budget {
        executions: 20_000,
        time: Duration::from_secs(800),
    };
    let plan = Plan { planted: true };
    for seed in target.seeds() {
        assert!(once(target.as_ref(), &seed, plan).is_ok(), "no seed has it");
    }
    let report = search(target.as_ref(), SEED, budget, plan);
    println!("{report}");
    let (input, message) = report.failure.expect("the planted bug is found");
    assert_eq!(message, "planted bug");
    assert!(once(target.as_ref(), &input, plan).is_err(), "repeatable");
    assert!(once(target.as_ref(), &input, Plan::default()).is_ok());
}

#[test]
fn mailbox() {
    survives("mailbox");
}

#[test]
fn wqe() {
    survives("wqe");
}

#[test]
fn packet() {
    survives("packet");
}

#[test]
fn config() {
    survives("config");
}

#[test]
fn the_bug_planted_behind_mailbox_is_found() {
    finds("mailbox");
}

#[test]
fn the_bug_planted_behind_wqe_is_found() {
    finds("wqe");
}

#[test]
fn the_bug_planted_behind_packet_is_found() {
    finds("packet");
}

#[test]
fn the_bug_planted_behind_config_is_found() {
    finds("config");
}
