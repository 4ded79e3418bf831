// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs several parts beside each other: a part waits often, for timeouts and for its peer, and one
//! guest alone leaves a core idle much of the time.
//!
//! Parts begin in the order of the table. One that is marked `alone` begins when no other runs, and
//! none begins before it has ended.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    thread,
};

use crate::{service::lock, suite::Part};

/// Parts that have not begun, and what runs now.
#[derive(Debug)]
struct Queue<'a> {
    waiting: VecDeque<&'a Part>,
    running: usize,
    /// The one that runs wants no other beside it.
    alone: bool,
}

impl<'a> Queue<'a> {
    /// The next part if it may begin now.
    fn take(&mut self) -> Option<&'a Part> {
        let next = self.waiting.front()?;
        if self.alone || (next.alone && self.running > 0) {
            return None;
        }
        self.running += 1;
        self.alone = next.alone;
        self.waiting.pop_front()
    }

    fn ended(&mut self) {
        self.running -= 1;
        self.alone = false;
    }
}

/// Runs `work(part)` for each part, at most `lanes` at a time. Ends when all have ended.
pub fn run<'a>(parts: &'a [Part], lanes: usize, work: impl Fn(&'a Part) + Sync) {
    let shared = Mutex::new(Queue {
        waiting: parts.iter().collect(),
        running: 0,
        alone: false,
    });
    let changed = Condvar::new();
    let lane = || {
        let mut queue = lock(&shared);
        while !queue.waiting.is_empty() {
            if let Some(part) = queue.take() {
                drop(queue);
                work(part);
                queue = lock(&shared);
                queue.ended();
                changed.notify_all();
            } else {
                queue = changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..lanes.max(1) {
            scope.spawn(lane);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;

    fn part(name: &str, alone: bool) -> Part {
        Part {
            name: name.into(),
            alone,
            ..Part::default()
        }
    }

    /// What ran beside each part, itself included.
    fn company(parts: &[Part], lanes: usize) -> Vec<(String, BTreeSet<String>)> {
        let running = Mutex::new(BTreeSet::new());
        let seen = Mutex::new(Vec::new());
        run(parts, lanes, |part| {
            lock(&running).insert(part.name.clone());
            thread::sleep(Duration::from_millis(20));
            let beside = lock(&running).clone();
            lock(&seen).push((part.name.clone(), beside));
            lock(&running).remove(&part.name);
        });
        seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn every_part_runs_once_and_no_more_than_lanes_at_a_time() {
        let parts: Vec<Part> = (0..9).map(|n| part(&n.to_string(), false)).collect();
        for lanes in [0, 1, 3] {
            let seen = company(&parts, lanes);
            let names: BTreeSet<&String> = seen.iter().map(|(name, _)| name).collect();
            assert_eq!((seen.len(), names.len()), (9, 9));
            let most = seen.iter().map(|(_, beside)| beside.len()).max();
            assert!(most <= Some(lanes.max(1)), "{most:?} at a time in {lanes}");
        }
        assert!(company(&[], 2).is_empty());
    }

    #[test]
    fn who_wants_to_be_alone_is() {
        let parts: Vec<Part> = (0..8).map(|n| part(&n.to_string(), n % 3 == 1)).collect();
        for (name, beside) in company(&parts, 3) {
            let alone = parts.iter().any(|part| part.name == name && part.alone);
            assert!(!alone || beside.len() == 1, "{name} beside {beside:?}");
        }
    }
}
