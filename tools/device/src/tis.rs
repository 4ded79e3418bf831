// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transport interface send objects.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Tis {}

impl Object for Tis {
    const KIND: Kind = Kind::Tis;

    fn footprint(&self) -> u64 {
        256
    }
}
