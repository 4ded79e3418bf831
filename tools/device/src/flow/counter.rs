// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow counters: what the entries that name one have seen.

use crate::{
    table::{Kind, Object},
    vport::Traffic,
};

/// One counter. Flow table entries hold it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowCounter {
    /// Frames, and their bytes without FCS.
    pub traffic: Traffic,
}

impl Object for FlowCounter {
    const KIND: Kind = Kind::FlowCounter;

    fn footprint(&self) -> u64 {
        16
    }
}

impl FlowCounter {
    /// One line for a dump.
    pub fn describe(&self, id: u32) -> String {
        let Traffic { packets, octets } = self.traffic;
        format!("flow counter {id:#x}: packets {packets} octets {octets}")
    }
}
