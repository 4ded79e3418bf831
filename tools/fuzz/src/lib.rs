// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guided random input for every door through which a guest or the wire reaches cxemu.
//!
//! | module | what |
//! |---|---|
//! | [`input`] | an input: a list of records, each a few bytes; its text form for repeating it |
//! | [`rng`] | repeatable randomness |
//! | [`mutate`] | one input from others |
//! | [`engine`] | runs a target, keeps inputs that show new behaviour, reports the first that breaks it |
//! | [`targets`] | mailbox, wqe, packet, config |
//!
//! Nothing is instrumented: what guides the search is what a target says it has seen (statuses,
//! syndromes, counters, accepted values), so it runs with the stock compiler, and the same seed makes
//! the same inputs. A failure is a panic, or an input that takes longer than [`engine::HANG`].
//!
//! Each target can plant a bug: with [`Plan::planted`] it panics at a place that only a few right
//! mutations reach. A search that does not find that one proves nothing.

pub mod engine;
pub mod input;
pub mod mutate;
pub mod rng;
pub mod targets;

// Helpers of the tests of `device`: a program on two cards, and the good path of each command.
#[allow(dead_code, missing_docs)]
#[path = "../../device/tests/commands/good.rs"]
mod good;
#[allow(dead_code, missing_docs)]
#[path = "../../device/tests/rdma/node.rs"]
mod node;
#[allow(dead_code, missing_docs)]
#[path = "../../device/tests/rdma/pair.rs"]
mod pair;
#[allow(dead_code, missing_docs)]
#[path = "../../device/tests/commands/world.rs"]
mod world;

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use input::Input;

/// How a run is to be judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// The planted bug is there.
    pub planted: bool,
}

impl Plan {
    /// The planted bug, if there is one.
    ///
    /// # Panics
    /// That is the bug.
    pub fn trip(self, reached: bool) {
        assert!(!(self.planted && reached), "planted bug");
    }
}

/// What a run has shown, as hashes.
#[derive(Debug, Default)]
pub struct Features(HashSet<u64>);

impl Features {
    /// Something that this input made happen.
    pub fn saw(&mut self, what: impl Hash) {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        self.0.insert(hasher.finish());
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}

/// A door.
pub trait Target: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Inputs to begin with.
    fn seeds(&self) -> Vec<Input>;

    /// Byte strings that make sense inside of records.
    fn words(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Runs an input on a fresh device.
    fn run(&self, input: &Input, plan: Plan, features: &mut Features);
}
