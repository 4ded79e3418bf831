// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared receive queues: SRQ, XRC SRQ and RMP.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Srq {}

impl Object for Srq {
    const KIND: Kind = Kind::Srq;

    fn footprint(&self) -> u64 {
        256
    }
}
