// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots the stock kernel in QEMU and judges what its tests print.
//!
//! Runs inside the Debian root (scripts/in-root); Documentation/testing.md says how to write tests.

use std::{path::PathBuf, process::ExitCode, sync::Mutex};

use clap::{Args, Parser, Subcommand};

use crate::{
    error::{Error, Result},
    machine::{Accelerator, Card, Machine},
    modules::Kernel,
    report::Report,
    run::Bench,
    service::lock,
    suite::{Part, Selection, Shape, HOST},
    unsteady::SecondRuns,
};

mod bench;
mod boots;
mod card;
mod console;
mod cpio;
mod differences;
mod error;
mod guest;
mod host;
mod image;
mod judge;
mod ktap;
mod lanes;
mod machine;
mod marks;
mod modules;
mod payload;
mod process;
mod qmp;
mod report;
mod run;
mod service;
mod suite;
mod unsteady;
mod watch;

/// Boots the stock kernel in QEMU and judges what its tests print.
#[derive(Debug, Parser)]
struct Cli {
    /// The source tree.
    #[arg(long, default_value = ".")]
    top: PathBuf,
    /// Where results go, relative to the tree.
    #[arg(long, default_value = "build/results")]
    results: PathBuf,
    /// Use KVM instead of TCG.
    #[arg(long)]
    kvm: bool,
    /// Show consoles while guests run.
    #[arg(long, short)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run suites: words `suite` or `suite/case`, `*` stands for anything; nothing runs all.
    Test {
        /// What to run; `list` only shows.
        #[arg(default_value = "")]
        selection: String,
        /// How many parts run beside each other.
        #[arg(long, default_value_t = 2)]
        lanes: usize,
        /// No second run of a part that failed.
        #[arg(long)]
        strict: bool,
    },
    /// Run a script of tools/testing/selftests/rmlx5 with one card and show what it prints.
    Show {
        /// The script.
        script: String,
        /// Seconds it may take.
        #[arg(long, default_value_t = 300)]
        timeout: u64,
        #[command(flatten)]
        shape: ShapeArgs,
    },
    /// Measure what a job costs with rmlx5 and with the stock driver, on the card and with software RoCE.
    Bench {
        /// `bind`, `data`, `net` or `verbs`; nothing measures all.
        #[arg(default_value = "", value_parser = ["", "bind", "data", "net", "verbs"])]
        what: String,
    },
    /// A shell in a guest with one card; `exit` ends it.
    Shell {
        #[command(flatten)]
        shape: ShapeArgs,
    },
}

/// The guest of `show` and `shell`.
#[derive(Debug, Args)]
struct ShapeArgs {
    /// Profile of the card.
    #[arg(long, default_value = "")]
    profile: String,
    /// No card.
    #[arg(long)]
    no_card: bool,
    /// Hand in rmlx5.ko as /job/files/rmlx5.ko.
    #[arg(long)]
    module: bool,
    /// Virtual CPUs.
    #[arg(long, default_value_t = 2)]
    vcpus: u32,
}

impl ShapeArgs {
    fn part(&self, script: &str, timeout: u64) -> Part {
        let machine = Machine {
            vcpus: self.vcpus,
            ..Machine::default()
        };
        let card = Card {
            profile: self.profile.clone(),
            ..Card::default()
        };
        let cards = if self.no_card { Vec::new() } else { vec![card] };
        Part {
            suite: "show".into(),
            name: "guest".into(),
            script: script.into(),
            shapes: vec![Shape { machine, cards }],
            timeout,
            module: self.module,
            ..Part::default()
        }
    }
}

fn main() -> ExitCode {
    match act(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rmlx5: {error}");
            ExitCode::from(2)
        }
    }
}

fn act(cli: &Cli) -> Result<bool> {
    let bench = || {
        Ok::<_, Error>(Bench {
            kernel: Kernel::find(&cli.top.join("build"))?,
            accelerator: if cli.kvm { kvm()? } else { Accelerator::Tcg },
            emulator: cli.top.join("build/target/debug/cxemu"),
            module: cli.top.join("build/rmlx5.ko"),
            kernel_tests: cli.top.join("build/kernel-tests"),
            plugin: cli.top.join("build/target/debug/libicount.so"),
            scripts: cli.top.join(SCRIPTS),
            results: cli.top.join(&cli.results),
            reasons: cli.top.join("Documentation/driver/differences.md"),
            verbose: cli.verbose,
        })
    };
    match &cli.command {
        Command::Test { selection, .. } if selection == "list" => list(cli),
        Command::Test {
            selection,
            lanes,
            strict,
        } => test(cli, &bench()?, selection, *lanes, &SecondRuns::new(*strict)),
        Command::Show {
            script,
            timeout,
            shape,
        } => Ok(bench()?.show(&shape.part(script, *timeout), &mut |words| {
            println!("     {words}")
        })),
        Command::Bench { what } => measure(cli, &bench()?, what),
        Command::Shell { shape } => {
            bench()?.shell(&shape.part("", 24 * 3600));
            Ok(true)
        }
    }
}

const SCRIPTS: &str = "tools/testing/selftests/rmlx5";

fn parts(cli: &Cli) -> Result<Vec<Part>> {
    suite::load(
        &cli.top.join("tools/testing/suites.toml"),
        &cli.top.join(SCRIPTS),
    )
}

fn list(cli: &Cli) -> Result<bool> {
    println!("{HOST} (tests of the workspace)");
    for part in parts(cli)? {
        for case in &part.cases {
            println!("{}/{}.{case}", part.suite, part.name);
        }
    }
    Ok(true)
}

fn test(
    cli: &Cli,
    bench: &Bench,
    selection: &str,
    lanes: usize,
    second_runs: &SecondRuns,
) -> Result<bool> {
    let selection = Selection::parse(selection);
    let parts = selection.apply(parts(cli)?)?;
    let mut report = Report::new(&cli.top.join(&cli.results))?;
    if selection.touches(HOST) {
        host::run(&cli.top.join("tools"), &selection, &mut |case| {
            report.add(case)
        })?;
    }
    let report = Mutex::new(report);
    lanes::run(&parts, lanes, |part| {
        let name = format!("{}/{}", part.suite, part.name);
        println!("---- {name}");
        let mut progress = |words: &str| println!("     {name}: {words}");
        let (mut cases, retries) = bench.run(part, &mut progress);
        lock(&report).retries += retries;
        if second_runs.grant(&cases) {
            lock(&report).unsteady(cases);
            match bench.keep_logs(part) {
                Ok(()) => progress("once more"),
                Err(error) => progress(&format!("once more; the logs are lost: {error}")),
            }
            let (second, retries) = bench.run(part, &mut progress);
            lock(&report).retries += retries;
            cases = second;
        }
        let mut report = lock(&report);
        for case in cases {
            report.add(case);
        }
    });
    let report = lock(&report);
    report.finish()
}

/// Binding on one CPU whose time is its instructions; data on two, and packets to and from a peer, as time allows.
fn measure(cli: &Cli, bench: &Bench, what: &str) -> Result<bool> {
    // A doorbell is answered before the guest goes on: how long a driver polls is the same in every run.
    let mut waiting = Card::default();
    waiting
        .device
        .insert("x-no-posted-writes".into(), true.into());
    let exact = Machine {
        vcpus: 1,
        icount: true,
        ..Machine::default()
    };
    let shape = |machine: Machine, card: Card| Shape {
        machine,
        cards: vec![card],
    };
    let part = |name: &str, script: &str, shapes: Vec<Shape>| Part {
        suite: "bench".into(),
        name: name.into(),
        script: script.into(),
        shapes,
        timeout: 900,
        module: true,
        ..Part::default()
    };
    let mut marks = Vec::new();
    let cabled = || Card {
        cable: "a".into(),
        ..Card::default()
    };
    let pair = vec![
        shape(Machine::default(), cabled()),
        shape(Machine::default(), cabled()),
    ];
    let parts = [
        part("bind", "bench.sh", vec![shape(exact, waiting)]),
        part(
            "data",
            "bench-data.sh",
            vec![shape(Machine::default(), Card::default())],
        ),
        part("net", "bench-net.sh", pair),
        Part {
            // Thousands of QPs are made, twice.
            timeout: 1800,
            ..part(
                "verbs",
                "bench-verbs.sh",
                vec![shape(Machine::default(), Card::default())],
            )
        },
    ];
    for part in parts
        .into_iter()
        .filter(|part| what.is_empty() || part.name == what)
    {
        match bench.measure(&part, &mut |words| println!("     {words}")) {
            None => return Ok(false),
            Some(taken) => marks.extend(taken),
        }
    }
    bench::report(&marks, &cli.top.join(&cli.results)).map(|()| true)
}

/// KVM only when the device opens; a guest that then does not run ends by the silence limit.
fn kvm() -> Result<Accelerator> {
    match std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
    {
        Ok(_) => Ok(Accelerator::Kvm),
        Err(error) => Err(Error::Machine(format!(
            "KVM was asked for, but /dev/kvm cannot be used ({error}); leave KVM=1 away"
        ))),
    }
}
