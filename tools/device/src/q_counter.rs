// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Q counter sets: what queues count, summed by set.

use crate::table::{Kind, Object};

/// One set.
#[derive(Debug, Default)]
pub struct QCounter {}

impl Object for QCounter {
    const KIND: Kind = Kind::QCounter;

    fn footprint(&self) -> u64 {
        256
    }
}
