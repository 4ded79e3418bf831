// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What may happen to a frame on its way out.

use std::time::Duration;

/// The faults in force. The default is a perfect cable.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Drop every Nth frame; 0 is never.
    pub loss_every: u32,
    /// Probability of losing a frame, 0 to 1.
    pub loss: f64,
    /// Probability of sending a frame twice, 0 to 1.
    pub duplicate: f64,
    /// Probability that the next frame overtakes this one, 0 to 1.
    pub reorder: f64,
    /// Probability that a frame whose sender is capable of ECN is marked as by a congested switch, 0 to 1.
    pub ecn: f64,
    /// Time every frame spends in the cable.
    pub delay: Duration,
    /// Seed of the random choices: the same seed makes the same choices.
    pub seed: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss_every: 0,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            ecn: 0.0,
            delay: Duration::ZERO,
            seed: 1,
        }
    }
}

/// What happens to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Lose,
    Twice,
    /// Goes after the next one.
    Behind,
}

/// Decides, frame by frame.
#[derive(Debug)]
pub(crate) struct Dice {
    faults: Faults,
    state: u64,
    count: u32,
}

impl Dice {
    pub(crate) fn new(faults: Faults) -> Self {
        // Zero is the one state a xorshift generator cannot leave.
        let state = faults.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1);
        Self {
            faults,
            state,
            count: 0,
        }
    }

    pub(crate) fn delay(&self) -> Duration {
        self.faults.delay
    }

    pub(crate) fn throw(&mut self) -> Fate {
        self.count = self.count.wrapping_add(1);
        let every = self.faults.loss_every;
        if every != 0 && self.count % every == 0 {
            return Fate::Lose;
        }
        if self.chance(self.faults.loss) {
            Fate::Lose
        } else if self.chance(self.faults.duplicate) {
            Fate::Twice
        } else if self.chance(self.faults.reorder) {
            Fate::Behind
        } else {
            Fate::Pass
        }
    }

    /// Whether this frame is to be marked.
    pub(crate) fn mark(&mut self) -> bool {
        self.chance(self.faults.ecn)
    }

    fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        // CAST: 53 bits are exact in a double.
        let draw = (self.state >> 11) as f64 / (1u64 << 53) as f64;
        draw < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_is_lost() {
        let mut dice = Dice::new(Faults {
            loss_every: 3,
            ..Faults::default()
        });
        let fates: Vec<_> = (0..6).map(|_| dice.throw() == Fate::Lose).collect();
        assert_eq!(fates, [false, false, true, false, false, true]);
    }

    #[test]
    fn probability_is_met_and_repeats_with_the_seed() {
        let faults = Faults {
            loss: 0.25,
            seed: 7,
            ..Faults::default()
        };
        let run = || {
            let mut dice = Dice::new(faults.clone());
            (0..10_000)
                .map(|_| dice.throw() == Fate::Lose)
                .collect::<Vec<_>>()
        };
        let lost = run().into_iter().filter(|lost| *lost).count();
        assert!((2300..2700).contains(&lost), "{lost}");
        assert_eq!(run(), run());
    }

    #[test]
    fn perfect_cable_passes_all() {
        let mut dice = Dice::new(Faults::default());
        assert!((0..100).all(|_| dice.throw() == Fate::Pass));
    }
}
