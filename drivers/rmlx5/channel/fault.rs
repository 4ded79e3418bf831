// SPDX-License-Identifier: GPL-2.0
//! A byte or a value that is not what it must be, and the check of what the other end sent.

use super::{
    flow::{Link, Memory},
    layout,
    pattern::Mismatch,
};

/// A byte or a value that is not what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A message differs.
    Data {
        what: &'static str,
        sequence: u64,
        mismatch: Mismatch,
    },
    /// A counter had another value.
    Counter { want: u64, found: u64 },
    /// Immediate data differ.
    Immediate {
        sequence: u64,
        want: u32,
        found: u32,
    },
    /// A message of impossible length.
    Length { sequence: u64, found: u32 },
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Data {
                what,
                sequence,
                mismatch,
            } => write!(
                f,
                "{what} {sequence}: byte {} is {:#04x}, must be {:#04x}",
                mismatch.at, mismatch.found, mismatch.want
            ),
            Self::Counter { want, found } => {
                write!(f, "FETCH_ADD returned {found:#x}, must be {want:#x}")
            }
            Self::Immediate {
                sequence,
                want,
                found,
            } => write!(
                f,
                "SEND {sequence}: immediate {found:#x}, must be {want:#x}"
            ),
            Self::Length { sequence, found } => write!(f, "SEND {sequence}: {found} bytes"),
        }
    }
}

/// Compares a message of the other end that lies in receive `slot`.
pub(super) fn check_received(
    link: &Link,
    sequence: u64,
    slot: u32,
    len: u32,
    immediate: Option<u32>,
    memory: &impl Memory,
) -> Result<(), Fault> {
    if !(layout::MIN_MESSAGE..=layout::RECV_BYTES).contains(&len) || slot >= layout::WQES {
        return Err(Fault::Length {
            sequence,
            found: len,
        });
    }
    let key = link.receiving.key(sequence, len);
    let at = layout::RECEIVE + slot * layout::RECV_BYTES;
    memory.check(at, key, len).map_err(|mismatch| Fault::Data {
        what: "SEND",
        sequence,
        mismatch,
    })?;
    match immediate {
        Some(found) if found != key.immediate() => Err(Fault::Immediate {
            sequence,
            want: key.immediate(),
            found,
        }),
        _ => Ok(()),
    }
}
