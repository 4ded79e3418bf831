// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fuzz`: searches for inputs that break cxemu.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use fuzz::{
    engine::{once, search, Budget},
    input::Input,
    targets, Plan,
};

/// Searches for inputs that break cxemu.
#[derive(Debug, Parser)]
struct Args {
    /// mailbox, wqe, packet, config; all when none is named.
    targets: Vec<String>,
    /// Time for each target.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Inputs for each target.
    #[arg(long, value_name = "COUNT", default_value_t = u64::MAX)]
    executions: u64,
    /// The same seed runs the same inputs; the time of day when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs the input in this file instead (one target must be named).
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where an input that fails is written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    artifacts: PathBuf,
    /// With the planted bug: how long does it take to find it?
    #[arg(long)]
    planted: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool, String> {
    let plan = Plan {
        planted: args.planted,
    };
    let mut chosen = targets::all();
    for name in &args.targets {
        if !chosen.iter().any(|target| target.name() == name) {
            return Err(format!("no target {name}"));
        }
    }
    chosen.retain(|target| {
        args.targets.is_empty() || args.targets.iter().any(|name| target.name() == name)
    });
    if let Some(path) = &args.input {
        let [target] = chosen.as_slice() else {
            return Err("--input needs one target".to_owned());
        };
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let result = once(target.as_ref(), &Input::from_text(&text)?, plan);
        if let Err(message) = &result {
            println!("{}: FAILED: {message}", target.name());
        }
        return Ok(result.is_ok());
    }
    let seed = args.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs())
    });
    let budget = Budget {
        executions: args.executions,
        time: Duration::from_secs(args.seconds),
    };
    let mut good = true;
    for target in &chosen {
        let report = search(target.as_ref(), seed, budget, plan);
        println!("{report}");
        if let Some((input, _)) = &report.failure {
            good = false;
            let path = args.artifacts.join(format!("{}-{seed}.txt", report.target));
            std::fs::write(&path, input.to_text())
                .map_err(|e| format!("{}: {e}", path.display()))?;
            println!("repeat: fuzz {} --input {}", report.target, path.display());
        }
    }
    Ok(good)
}
