// SPDX-License-Identifier: GPL-2.0
//! The pattern sees what goes wrong with memory.

use crate::channel::pattern::Stream;

fn message(sequence: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Stream::new(7, 9)
        .key(sequence, len as u32)
        .fill(0, &mut bytes);
    bytes
}

#[test]
fn every_changed_byte_is_found_where_it_is() {
    let key = Stream::new(7, 9).key(0, 100);
    let good = message(0, 100);
    assert_eq!(key.check(0, &good), Ok(()));
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let mismatch = key.check(0, &bad).unwrap_err();
            assert_eq!(
                (mismatch.at, mismatch.want, mismatch.found),
                (at, good[at], bad[at])
            );
        }
    }
}

#[test]
fn parts_are_the_whole() {
    let key = Stream::new(7, 9).key(0, 100);
    let good = message(0, 100);
    assert_eq!(key.check(64, &good[64..]), Ok(()));
    let mut tail = vec![0; 36];
    key.fill(64, &mut tail);
    assert_eq!(tail, good[64..]);
    assert!(key.check(56, &good[64..]).is_err());
}

#[test]
fn stale_shifted_and_foreign_messages_are_seen() {
    let len = 64;
    let key = Stream::new(7, 9).key(5, len);
    assert!(key.check(0, &message(4, 64)).is_err());
    assert!(key.check(0, &message(5, 128)[..64]).is_err());
    assert!(key.check(8, &message(5, 64)).is_err());
    for other in [Stream::new(7, 10), Stream::new(8, 9)] {
        assert!(other.key(5, len).check(0, &message(5, 64)).is_err());
        assert_ne!(other.key(5, len).immediate(), key.immediate());
    }
}

#[test]
fn one_byte_messages_differ_too() {
    let distinct = (0..200)
        .map(|n| message(n, 1)[0])
        .collect::<std::collections::BTreeSet<_>>();
    assert!(distinct.len() > 100);
}
