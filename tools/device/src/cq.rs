// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queues.

use crate::{
    hca::Hca,
    table::{Kind, Object},
};

/// One of them.
#[derive(Debug)]
pub struct Cq {}

impl Object for Cq {
    const KIND: Kind = Kind::Cq;

    fn footprint(&self) -> u64 {
        256
    }
}

/// A CQ arm doorbell came through a UAR page: `word` is sequence, command and consumer index.
pub fn arm(_hca: &mut Hca, uar: u32, cqn: u32, word: u32) {
    tracing::warn!("CQ {cqn:#x}: arm {word:#x} through UAR {uar:#x}: not implemented");
}
