// SPDX-License-Identifier: GPL-2.0
//! The bytes that channels send, so that each of them can be checked.
//!
//! A byte depends on its position and on a [`Key`], and a key on the connection, the operation's
//! number and its length: a byte that is stale, shifted, cut off, doubled or from another channel
//! is seen.

/// Names one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

/// Where a message differs from what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Offset of the first wrong byte.
    pub(crate) at: usize,
    /// The byte it must be.
    pub(crate) want: u8,
    /// The byte found.
    pub(crate) found: u8,
}

/// A stream of messages: one direction of one connection, from one PSN on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream(u64);

impl Stream {
    /// Both ends know the sender's QPN and first PSN; a fresh PSN is a fresh stream.
    pub(crate) const fn new(qpn: u32, psn: u32) -> Self {
        Self(mix((qpn as u64) << 32 | psn as u64))
    }

    /// Key of message `sequence`, which is `len` bytes long.
    pub(crate) const fn key(self, sequence: u64, len: u32) -> Key {
        Key(mix(self.0 ^ mix(sequence ^ (len as u64) << 40)))
    }
}

impl Key {
    /// 32 bits that go with the message as immediate data.
    pub(crate) const fn immediate(self) -> u32 {
        // CAST: the upper half; any 32 bits will do.
        (mix(!self.0) >> 32) as u32
    }

    /// 64 bits to add with FETCH_ADD: odd, so that the sum changes in every byte soon.
    pub(crate) const fn addend(self) -> u64 {
        mix(self.0.rotate_left(17)) | 1
    }

    const fn word(self, index: usize) -> [u8; 8] {
        mix(self.0.wrapping_add((index as u64).wrapping_mul(GOLDEN))).to_le_bytes()
    }

    /// Fills `bytes`, which start at byte `offset` of the message.
    ///
    /// `offset` must be a multiple of 8.
    pub(crate) fn fill(self, offset: usize, bytes: &mut [u8]) {
        for (index, chunk) in bytes.chunks_mut(8).enumerate() {
            let word = self.word((offset / 8).wrapping_add(index));
            for (to, from) in chunk.iter_mut().zip(word) {
                *to = from;
            }
        }
    }

    /// Checks `bytes`, which start at byte `offset` (a multiple of 8) of the message.
    pub(crate) fn check(self, offset: usize, bytes: &[u8]) -> Result<(), Mismatch> {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let word = self.word((offset / 8).wrapping_add(index));
            if word.get(..chunk.len()) == Some(chunk) {
                continue;
            }
            for (position, (found, want)) in chunk.iter().zip(word).enumerate() {
                if *found != want {
                    return Err(Mismatch {
                        at: offset
                            .wrapping_add(index.wrapping_mul(8))
                            .wrapping_add(position),
                        want,
                        found: *found,
                    });
                }
            }
        }
        Ok(())
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: each input bit changes about half of the output.
const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
