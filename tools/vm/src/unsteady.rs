// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts that fail once and pass the next time.
//!
//! Hundreds of cases run on a machine where a guest may stand still for a second at any moment, against programs that have
//! timeouts of a tenth of one. A part that failed is run once more, and only then is its verdict final. What failed the first
//! time is told at the end of the run and stored: a case that is found there again and again has a fault.
//!
//! There is no second run of a part in which a kernel gave an alarm or died, and of no more than [`MOST`] parts.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{judge::Case, ktap::Outcome};

/// Parts that may run a second time. More failures than this are no chance.
const MOST: u32 = 2;

/// The second runs that are left.
#[derive(Debug)]
pub struct SecondRuns(AtomicU32);

impl SecondRuns {
    /// As many as a run may have; none when `strict`.
    pub const fn new(strict: bool) -> Self {
        Self(AtomicU32::new(if strict { 0 } else { MOST }))
    }

    /// Gives out a second run for a part with these results: when one failed, none gravely, and one is left.
    pub fn grant(&self, cases: &[Case]) -> bool {
        let mut failed = cases.iter().filter(|case| case.result == Outcome::Fail);
        let chance = failed.clone().next().is_some() && failed.all(|case| !case.grave);
        let take = |left: u32| left.checked_sub(1);
        chance
            && self
                .0
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(result: Outcome, grave: bool) -> Case {
        Case {
            suite: "s".into(),
            case: "p.c".into(),
            result,
            seconds: 0.0,
            notes: Vec::new(),
            grave,
        }
    }

    #[test]
    fn only_failures_have_a_second_run_and_few_of_them() {
        let runs = SecondRuns::new(false);
        let pass = case(Outcome::Pass, false);
        let fail = case(Outcome::Fail, false);
        assert!(!runs.grant(&[]));
        assert!(!runs.grant(&[pass.clone(), case(Outcome::Skip, false)]));
        for _ in 0..MOST {
            assert!(runs.grant(&[pass.clone(), fail.clone()]));
        }
        assert!(!runs.grant(&[fail.clone()]));
        assert!(!SecondRuns::new(true).grant(&[fail]));
    }

    #[test]
    fn an_alarm_of_a_kernel_is_final() {
        let runs = SecondRuns::new(false);
        let cases = [case(Outcome::Fail, false), case(Outcome::Fail, true)];
        assert!(!runs.grant(&cases));
    }
}
