// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory keys.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Mkey {}

impl Object for Mkey {
    const KIND: Kind = Kind::Mkey;

    fn footprint(&self) -> u64 {
        256
    }
}
