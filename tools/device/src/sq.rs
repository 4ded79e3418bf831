// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet send queues.

use crate::table::{Kind, Object};

/// One of them.
#[derive(Debug)]
pub struct Sq {}

impl Object for Sq {
    const KIND: Kind = Kind::Sq;

    fn footprint(&self) -> u64 {
        256
    }
}
