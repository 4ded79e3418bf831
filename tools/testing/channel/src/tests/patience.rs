// SPDX-License-Identifier: GPL-2.0
//! An end that hears nothing.

use crate::channel::patience::{Patience, LIMIT, LONGEST_MS};

const MS: u64 = 1_000_000;

#[test]
fn peer_is_lost_once_and_asked_for_ever() {
    let mut now = 0;
    let mut patience = Patience::new(now);
    let (mut lost, mut delays) = (vec![], vec![]);
    for said in 2..100 {
        delays.push(patience.left(now) / MS);
        now += patience.left(now);
        if patience.say(now) {
            lost.push((said, now / MS));
        }
        assert_eq!(patience.is_lost(), said >= LIMIT);
    }
    assert_eq!(delays[..5], [20, 40, 80, 160, 320]);
    assert!(delays.is_sorted());
    assert_eq!(delays.last(), Some(&LONGEST_MS));
    assert_eq!(lost, [(LIMIT, 2540)]);
}

#[test]
fn time_does_not_overflow() {
    let mut patience = Patience::new(u64::MAX);
    patience.say(u64::MAX);
    assert_eq!((patience.left(u64::MAX), patience.left(0)), (0, u64::MAX));
}
