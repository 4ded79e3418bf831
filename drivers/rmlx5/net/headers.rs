// SPDX-License-Identifier: GPL-2.0
//! Fields of a packet as the card lays them out (`fte_match_param`), as a mask or as values.

use kernel::prelude::*;
use mlx5_hw::{
    field::{
        bytes_of,
        Mut,
        Ref, //
    },
    ifc,
    raw, //
};
use zerocopy::IntoBytes;

/// Bytes of the outer headers, which come first, and of the miscellaneous fields that follow them.
const OUTER: usize = bytes_of::<ifc::fte_match_set_lyr_2_4>();
const MISC: usize = bytes_of::<ifc::fte_match_set_misc>();
/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// Bytes of all parts that there are.
const ALL: usize = bytes_of::<ifc::fte_match_param>();

/// The outer headers and the miscellaneous fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers([u8; OUTER + MISC]);

impl Headers {
    /// No field.
    pub(crate) const NOTHING: Self = Self([0; OUTER + MISC]);

    /// Sets fields of the outer headers. `EINVAL` for a value that does not fit its field.
    pub(crate) fn set_outer(
        &mut self,
        set: impl FnOnce(&mut Mut<'_, ifc::fte_match_set_lyr_2_4>),
    ) -> Result {
        set_in(self.0.split_at_mut(OUTER).0, set)
    }

    /// Sets miscellaneous fields. `EINVAL` for a value that does not fit its field.
    pub(crate) fn set_misc(
        &mut self,
        set: impl FnOnce(&mut Mut<'_, ifc::fte_match_set_misc>),
    ) -> Result {
        set_in(self.0.split_at_mut(OUTER).1, set)
    }

    /// The outer headers.
    pub(crate) fn outer(&self) -> Result<Ref<'_, ifc::fte_match_set_lyr_2_4>> {
        Ref::new(self.0.split_at(OUTER).0).ok_or(EINVAL)
    }

    /// All bytes; what is behind them is zero.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Which parts a mask looks at, as `match_criteria_enable` says it.
    pub(crate) fn criteria(&self) -> u8 {
        let (outer, misc) = self.0.split_at(OUTER);
        let part = |bytes: &[u8], bit: u32| match words(bytes).any(|word| word != 0) {
            // CAST: a bit of the lowest eight.
            true => bit as u8,
            false => 0,
        };
        part(outer, raw::MLX5_MATCH_OUTER_HEADERS) | part(misc, raw::MLX5_MATCH_MISC_PARAMETERS)
    }
}

/// Sets fields of the part that `bytes` are. `EINVAL` for a value that does not fit its field.
fn set_in<S>(bytes: &mut [u8], set: impl FnOnce(&mut Mut<'_, S>)) -> Result {
    let mut part = Mut::new(bytes).ok_or(EINVAL)?;
    set(&mut part);
    match part.overflowed() {
        true => Err(EINVAL),
        false => Ok(()),
    }
}

const _: () = assert!(
    OUTER % WORD == 0 && MISC % WORD == 0 && ALL % WORD == 0,
    "whole words"
);

/// Words as they are in memory, the last one filled up with zeros: a card's order of bytes does not matter for bits that
/// are there or not.
fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> + '_ {
    bytes.chunks(WORD).map(|chunk| match chunk.first_chunk() {
        Some(word) => u64::from_ne_bytes(*word),
        None => {
            let mut word = [0; WORD];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            u64::from_ne_bytes(word)
        }
    })
}

/// Any fields, without the words of zeros at the end.
#[derive(PartialEq, Eq)]
pub(crate) struct Fields(KVec<u64>);

impl Fields {
    /// `EINVAL` for fields behind all that there are.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        let mut fields = KVec::with_capacity(bytes.len().div_ceil(WORD), GFP_KERNEL)?;
        for word in words(bytes) {
            fields.push(word, GFP_KERNEL)?;
        }
        while fields.last() == Some(&0) {
            fields.pop();
        }
        match fields.len() > ALL / WORD {
            true => Err(EINVAL),
            false => Ok(Self(fields)),
        }
    }

    /// What there is.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Those at the front.
    pub(crate) fn headers(&self) -> Headers {
        let mut headers = Headers::NOTHING;
        for (to, from) in headers.0.iter_mut().zip(self.bytes()) {
            *to = *from;
        }
        headers
    }

    /// Whether it has no bit that `mask` does not have.
    pub(crate) fn is_within(&self, mask: &Self) -> bool {
        let mut pairs = Iterator::zip(self.0.iter(), mask.0.iter());
        self.0.len() <= mask.0.len() && pairs.all(|(value, mask)| value & !mask == 0)
    }
}
