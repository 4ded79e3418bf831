// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One input from others.

use crate::{input::Input, rng::Rng};

/// Records of an input at most.
const MAX_RECORDS: usize = 48;
/// Bytes of a record at most.
const MAX_RECORD: usize = 4096;

/// Bytes of a record that are changed more often than the others.
const HEAD: usize = 32;

/// Numbers at which code changes its mind.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0x100,
    0xfff,
    0x1000,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];

/// A new input from `parent`; `others` lend it records, `words` bytes.
pub fn mutate(parent: &Input, others: &[Input], words: &[Vec<u8>], rng: &mut Rng) -> Input {
    let mut input = parent.clone();
    for _ in 0..=rng.below(4) {
        match rng.below(8) {
            0 => rearrange(&mut input, others, rng),
            _ => {
                let at = rng.below(input.records.len());
                if let Some(record) = input.records.get_mut(at) {
                    change(record, words, rng);
                }
            }
        }
    }
    input
}

/// Removes, repeats, exchanges or borrows a record.
fn rearrange(input: &mut Input, others: &[Input], rng: &mut Rng) {
    let records = &mut input.records;
    let at = rng.below(records.len());
    match rng.below(4) {
        0 if records.len() > 1 => {
            records.remove(at);
        }
        1 if records.len() > 1 => {
            let other = rng.below(records.len());
            records.swap(at, other);
        }
        2 if records.len() < MAX_RECORDS && !records.is_empty() => {
            records.insert(at, records[at].clone());
        }
        _ if records.len() < MAX_RECORDS => {
            let lent = rng.pick(others).and_then(|other| rng.pick(&other.records));
            if let Some(record) = lent {
                records.insert(at, record.clone());
            }
        }
        _ => {}
    }
}

/// Changes the bytes of a record.
fn change(record: &mut Vec<u8>, words: &[Vec<u8>], rng: &mut Rng) {
    // What decides stands in front.
    let at = match rng.once_in(2) {
        true => rng.below(record.len().min(HEAD)),
        false => rng.below(record.len()),
    };
    match rng.below(9) {
        0 | 1 => {
            if let Some(byte) = record.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => {
            if let Some(byte) = record.get_mut(at) {
                // CAST: any byte.
                *byte = rng.draw() as u8;
            }
        }
        3 => {
            if let Some(byte) = record.get_mut(at) {
                // CAST: a few steps up or down.
                *byte = byte.wrapping_add(rng.below(9) as u8).wrapping_sub(4);
            }
        }
        4 => {
            let edge = EDGES[rng.below(EDGES.len())].to_be_bytes();
            let len = [1, 2, 4, 8][rng.below(4)];
            put(record, at & !(len - 1), &edge[8 - len..]);
        }
        5 => {
            if let Some(word) = rng.pick(words) {
                put(record, at & !3, word);
            }
        }
        6 => {
            let len = [1, 4, 8, 16][rng.below(4)];
            if record.len() + len <= MAX_RECORD {
                let filling = vec![0; len];
                record.splice(at..at, filling);
            }
        }
        7 => {
            let end = (at + [1, 4, 8, 16][rng.below(4)]).min(record.len());
            record.drain(at..end);
        }
        _ => {
            let from = rng.below(record.len());
            let part = record[from..].iter().copied().take(8).collect::<Vec<_>>();
            put(record, at, &part);
        }
    }
}

/// Writes over the bytes at `at`, as far as there are any.
fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in record.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}
