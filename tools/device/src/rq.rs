// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet receive queues.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Rq {}

impl Object for Rq {
    const KIND: Kind = Kind::Rq;

    fn footprint(&self) -> u64 {
        256
    }
}
