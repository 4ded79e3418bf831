// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Ethernet engine: SQ WQEs to frames, frames through steering to RQs.

use std::time::Duration;

use crate::hca::Hca;

/// State that belongs to no queue.
#[derive(Debug, Default)]
pub struct Ethernet {}

/// A doorbell named this SQ; `data` is what was written (8 bytes, or a WQE through BlueFlame).
pub fn doorbell(_hca: &mut Hca, uar: u32, sqn: u32, data: &[u8]) {
    tracing::debug!("SQ {sqn:#x}: doorbell, {} bytes, UAR {uar:#x}", data.len());
}

/// The scheduler gives this SQ its turn: do a bounded piece of work, push `Work::Sq` for more.
pub fn run_sq(_hca: &mut Hca, sqn: u32) {
    tracing::debug!("SQ {sqn:#x}: turn");
}

/// A frame from the wire or looped back that is not for RoCE.
pub fn receive(hca: &mut Hca, _frame: &[u8]) {
    hca.env.counters.frames_dropped += 1;
}

/// Timers.
pub fn tick(_hca: &mut Hca) {}

/// When [`tick`] has something to do.
pub fn next_deadline(_hca: &Hca) -> Option<Duration> {
    None
}
