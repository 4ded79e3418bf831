// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search: runs inputs, keeps those that show something new, stops at the first that fails.

use std::{
    collections::HashSet,
    panic::{self, AssertUnwindSafe},
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

use crate::{input::Input, mutate::mutate, rng::Rng, Features, Plan, Target};

/// So long may one input take; the process then prints it and ends.
pub const HANG: Duration = Duration::from_secs(60);

/// When to stop without a finding.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Inputs to run.
    pub executions: u64,
    /// Time to spend.
    pub time: Duration,
}

/// What a search has come to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The target.
    pub target: &'static str,
    /// The seed: the same one runs the same inputs.
    pub seed: u64,
    /// Inputs run, seeds included.
    pub executions: u64,
    /// Different things seen.
    pub features: usize,
    /// Inputs kept.
    pub corpus: usize,
    /// The first failure: input and message.
    pub failure: Option<(Input, String)>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} executions, {} features, {} inputs kept, seed {}",
            self.target, self.executions, self.features, self.corpus, self.seed
        )?;
        match &self.failure {
            Some((_, message)) => write!(f, ", FAILED: {message}"),
            None => Ok(()),
        }
    }
}

/// Prints the input that runs for too long and ends the process.
struct Watchdog {
    /// What runs, and since when.
    running: Arc<Mutex<Option<(Instant, Input)>>>,
    /// Raised when the search is over.
    over: Arc<AtomicU64>,
}

impl Watchdog {
    fn new(target: &'static str) -> Self {
        let running: Arc<Mutex<Option<(Instant, Input)>>> = Arc::default();
        let over = Arc::new(AtomicU64::new(0));
        let (seen, stop) = (running.clone(), over.clone());
        std::thread::spawn(move || {
            while stop.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(500));
                let Ok(running) = seen.lock() else { return };
                if let Some((_, input)) = running.as_ref().filter(|(at, _)| at.elapsed() > HANG) {
                    eprintln!("{target}: hangs on this input:\n{}", input.to_text());
                    std::process::abort();
                }
            }
        });
        Self { running, over }
    }

    fn start(&self, input: &Input) {
        if let Ok(mut running) = self.running.lock() {
            *running = Some((Instant::now(), input.clone()));
        }
    }

    fn done(&self) {
        if let Ok(mut running) = self.running.lock() {
            *running = None;
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(1, Ordering::Relaxed);
    }
}

/// Runs one input; what it showed, or how it failed.
///
/// # Errors
/// The message of the panic.
pub fn once(target: &dyn Target, input: &Input, plan: Plan) -> Result<Features, String> {
    let run = || {
        let mut features = Features::default();
        target.run(input, plan, &mut features);
        features
    };
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "panic without a message".to_owned())
    })
}

/// Searches until something fails or the budget is used up.
pub fn search(target: &dyn Target, seed: u64, budget: Budget, plan: Plan) -> Report {
    let start = Instant::now();
    let watchdog = Watchdog::new(target.name());
    let mut rng = Rng::new(seed);
    let words = target.words();
    let mut seen = HashSet::new();
    let mut corpus: Vec<Input> = Vec::new();
    let mut waiting = target.seeds();
    waiting.reverse();
    let mut report = Report {
        target: target.name(),
        seed,
        executions: 0,
        features: 0,
        corpus: 0,
        failure: None,
    };
    while report.executions < budget.executions && start.elapsed() < budget.time {
        let seed = waiting.pop();
        let is_seed = seed.is_some();
        let input = seed.unwrap_or_else(|| {
            // Half of the time one of the newest: behind a new door are more.
            let last = corpus.len().saturating_sub(rng.below(16) + 1);
            let at = match rng.once_in(2) {
                true => last,
                false => rng.below(corpus.len()),
            };
            let parent = corpus.get(at).cloned().unwrap_or_default();
            mutate(&parent, &corpus, &words, &mut rng)
        });
        watchdog.start(&input);
        let result = once(target, &input, plan);
        watchdog.done();
        report.executions += 1;
        match result {
            Ok(features) => {
                let before = seen.len();
                seen.extend(features.iter());
                if seen.len() > before || is_seed {
                    corpus.push(input);
                }
            }
            Err(message) => {
                report.failure = Some((input, message));
                break;
            }
        }
    }
    report.features = seen.len();
    report.corpus = corpus.len();
    report
}
