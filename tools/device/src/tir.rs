// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transport interface receive objects.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Tir {}

impl Object for Tir {
    const KIND: Kind = Kind::Tir;

    fn footprint(&self) -> u64 {
        256
    }
}
