// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive queue tables.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Rqt {}

impl Object for Rqt {
    const KIND: Kind = Kind::Rqt;

    fn footprint(&self) -> u64 {
        256
    }
}
