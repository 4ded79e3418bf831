// SPDX-License-Identifier: GPL-2.0
//! What a person writes to `selftest`, for example
//! `rounds=100 sizes=64,4096,65536 mode=poll duration=10`.
//!
//! | option | meaning |
//! |---|---|
//! | `rounds=N` | rounds on each channel; default 64, or without end with a duration |
//! | `sizes=A,B...` | message sizes in bytes, at most eight; default 8,200,4096,65536 |
//! | `mode=irq` or `poll` | how completions are found; default irq |
//! | `duration=S` | end after that many seconds |
//! | `moderation=U,N` | CQ event U us after a completion or after N of them; default 0,0: at once |
//! | `breaks=N` | N times each channel breaks its connection by a bad key; default 0 |

use super::layout::{MAX_MESSAGE, MIN_MESSAGE};

/// How completions are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The CQ is armed and its interrupt wakes the channel.
    Interrupt,
    /// The channel looks for completions all the time; no interrupt is asked for.
    Poll,
}

impl Mode {
    /// The word that selects it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "irq",
            Self::Poll => "poll",
        }
    }
}

/// Message sizes of a run, in the order they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    values: [u32; Self::MAX],
    count: usize,
}

impl Sizes {
    /// How many sizes a run can have.
    pub(crate) const MAX: usize = 8;

    /// The largest one.
    pub(crate) fn longest(&self) -> u32 {
        self.as_slice().iter().copied().max().unwrap_or(MIN_MESSAGE)
    }

    /// The sizes.
    pub(crate) fn as_slice(&self) -> &[u32] {
        self.values.get(..self.count).unwrap_or(&[])
    }
}

/// A self-test run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Rounds on each channel; a round is WRITE, READ, SEND, SEND with immediate and FETCH_ADD of
    /// each size.
    pub(crate) rounds: u64,
    /// Bytes of a message.
    pub(crate) sizes: Sizes,
    /// Interrupts or polling.
    pub(crate) mode: Mode,
    /// Seconds after which a run stops even if rounds are left; 0: no limit.
    pub(crate) duration: u32,
    /// Event moderation of the CQs during the run: microseconds and completions.
    pub(crate) moderation: (u16, u16),
    /// How often each channel breaks its connection by a bad key.
    pub(crate) breaks: u32,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadOption {
    /// Not `name=value`, or an unknown or doubled name.
    Name,
    /// A value that is not understood or out of range.
    Value(&'static str),
}

impl core::fmt::Display for BadOption {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Name => {
                f.write_str("options are rounds, sizes, mode, duration, moderation, breaks")
            }
            Self::Value(name) => write!(f, "bad value of {name}="),
        }
    }
}

/// Names of the options.
const NAMES: [&str; 6] = [
    "rounds",
    "sizes",
    "mode",
    "duration",
    "moderation",
    "breaks",
];
/// Largest period that a CQ context holds, in microseconds.
const MAX_PERIOD_US: u64 = 0xfff;
/// Longest run: a day.
const MAX_DURATION: u32 = 86_400;

impl Options {
    /// What `start` alone means.
    pub(crate) const fn new() -> Self {
        Self {
            rounds: 64,
            sizes: Sizes {
                values: [8, 200, 4096, 65536, 0, 0, 0, 0],
                count: 4,
            },
            mode: Mode::Interrupt,
            duration: 0,
            moderation: (0, 0),
            breaks: 0,
        }
    }

    /// Parses options separated by white space; the word `start` may stand among them. A duration
    /// without rounds means as many rounds as fit.
    pub(crate) fn parse(text: &str) -> Result<Self, BadOption> {
        let mut options = Self::new();
        let mut seen = [false; NAMES.len()];
        for word in text.split_ascii_whitespace() {
            if word == "start" {
                continue;
            }
            let (name, value) = word.split_once('=').ok_or(BadOption::Name)?;
            let at = NAMES
                .iter()
                .position(|known| *known == name)
                .ok_or(BadOption::Name)?;
            match seen.get_mut(at) {
                Some(doubled) if !*doubled => *doubled = true,
                _ => return Err(BadOption::Name),
            }
            match at {
                0 => {
                    options.rounds = number(value, 1, u64::MAX).ok_or(BadOption::Value("rounds"))?
                }
                1 => options.sizes = sizes(value).ok_or(BadOption::Value("sizes"))?,
                2 => {
                    options.mode = match value {
                        "irq" => Mode::Interrupt,
                        "poll" => Mode::Poll,
                        _ => return Err(BadOption::Value("mode")),
                    }
                }
                // CAST: bounded by MAX_DURATION.
                3 => {
                    options.duration = number(value, 1, MAX_DURATION.into())
                        .ok_or(BadOption::Value("duration"))?
                        as u32
                }
                4 => {
                    options.moderation = moderation(value).ok_or(BadOption::Value("moderation"))?
                }
                // CAST: bounded by u32::MAX.
                _ => {
                    options.breaks =
                        number(value, 0, u32::MAX.into()).ok_or(BadOption::Value("breaks"))? as u32
                }
            }
        }
        if let [false, _, _, true, ..] = seen {
            options.rounds = u64::MAX;
        }
        Ok(options)
    }
}

fn number(text: &str, min: u64, max: u64) -> Option<u64> {
    // `parse` would take a leading plus sign.
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse()
        .ok()
        .filter(|value| (min..=max).contains(value))
}

fn moderation(text: &str) -> Option<(u16, u16)> {
    let (period, count) = text.split_once(',')?;
    // CAST: bounded.
    Some((
        number(period, 0, MAX_PERIOD_US)? as u16,
        number(count, 0, u16::MAX.into())? as u16,
    ))
}

fn sizes(text: &str) -> Option<Sizes> {
    let mut sizes = Sizes {
        values: [0; Sizes::MAX],
        count: 0,
    };
    for word in text.split(',') {
        // CAST: bounded by MAX_MESSAGE.
        let value = number(word, MIN_MESSAGE.into(), MAX_MESSAGE.into())? as u32;
        *sizes.values.get_mut(sizes.count)? = value;
        sizes.count += 1;
    }
    Some(sizes)
}
