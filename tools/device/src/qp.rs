// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queue pairs.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Qp {}

impl Object for Qp {
    const KIND: Kind = Kind::Qp;

    fn footprint(&self) -> u64 {
        256
    }
}
