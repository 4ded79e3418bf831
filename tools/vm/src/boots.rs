// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which guests have come up, and whether one hangs or dies before that: under TCG that happens, in any guest of a part.

use std::time::{Duration, Instant};

/// What a guest says when the kernel is up.
const READY: &str = "rmlx5-guest: ready";

/// A guest that boots.
#[derive(Debug)]
struct Boot {
    up: bool,
    heard: Instant,
}

/// The guests of a part, by number.
#[derive(Debug)]
pub struct Boots(Vec<Boot>);

impl Boots {
    /// They start at `now`; each says whether it boots the kernel. Other programs are never waited for.
    pub fn new(kernels: impl Iterator<Item = bool>, now: Instant) -> Self {
        let boot = |kernel: bool| Boot {
            up: !kernel,
            heard: now,
        };
        Self(kernels.map(boot).collect())
    }

    /// A line on a guest's console; true when it came up with that.
    pub fn line(&mut self, guest: usize, line: &str, now: Instant) -> bool {
        let Some(boot) = self.0.get_mut(guest) else {
            return false;
        };
        boot.heard = now;
        let came = !boot.up && line.contains(READY);
        boot.up |= came;
        came
    }

    /// A guest's script speaks, so the guest is up.
    pub fn up(&mut self, guest: usize) {
        if let Some(boot) = self.0.get_mut(guest) {
            boot.up = true;
        }
    }

    /// Whether a guest has come up.
    pub fn is_up(&self, guest: usize) -> bool {
        self.0.get(guest).is_some_and(|boot| boot.up)
    }

    /// A guest that is not up and has said nothing for longer than `limit`.
    pub fn silent(&self, limit: Duration, now: Instant) -> Option<usize> {
        let hangs = |boot: &Boot| !boot.up && now.duration_since(boot.heard) > limit;
        self.0.iter().position(hangs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_peer_that_hangs_is_seen_while_the_first_guest_works() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut boots = Boots::new([true, true].into_iter(), start);
        assert!(!boots.line(1, "hpet0: 3 comparators", at(4)));
        assert!(boots.line(0, "[ 9.1] rmlx5-guest: ready", at(9)));
        assert!(boots.is_up(0) && !boots.is_up(1));
        assert_eq!(boots.silent(LIMIT, at(14)), None);
        assert!(!boots.line(0, "more of the first guest", at(15)));
        assert_eq!(boots.silent(LIMIT, at(15)), Some(1));
        assert!(boots.line(1, "rmlx5-guest: ready", at(16)));
        assert!(!boots.line(1, "rmlx5-guest: ready", at(17)));
        assert_eq!(boots.silent(LIMIT, at(1000)), None);
    }

    #[test]
    fn whoever_speaks_or_boots_no_kernel_is_up() {
        let start = Instant::now();
        let late = start + 2 * LIMIT;
        let mut boots = Boots::new([true, false].into_iter(), start);
        assert_eq!(boots.silent(LIMIT, late), Some(0));
        boots.up(0);
        boots.up(7);
        assert_eq!(boots.silent(LIMIT, late), None);
    }
}
