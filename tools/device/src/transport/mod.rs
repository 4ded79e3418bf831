// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The RDMA engine.

use std::time::Duration;

use crate::hca::Hca;

/// State that belongs to no QP.
#[derive(Debug, Default)]
pub struct Transport {}

/// A doorbell named this QP; `data` is what was written (8 bytes, or a WQE through BlueFlame).
pub fn doorbell(_hca: &mut Hca, uar: u32, qpn: u32, data: &[u8]) {
    tracing::debug!("QP {qpn:#x}: doorbell, {} bytes, UAR {uar:#x}", data.len());
}

/// The scheduler gives this QP its turn: do a bounded piece of work, push `Work::Qp` for more.
pub fn run_qp(_hca: &mut Hca, qpn: u32) {
    tracing::debug!("QP {qpn:#x}: turn");
}

/// A frame from the wire or looped back. True if it was for RoCE, handled or not.
pub fn receive(_hca: &mut Hca, _frame: &[u8]) -> bool {
    false
}

/// Timers.
pub fn tick(_hca: &mut Hca) {}

/// When [`tick`] has something to do.
pub fn next_deadline(_hca: &Hca) -> Option<Duration> {
    None
}

/// Fault: the context of a QP is corrupted. False if there is no such QP.
pub fn corrupt_context(hca: &mut Hca, qpn: u32) -> bool {
    hca.qps.get(qpn).is_some()
}
