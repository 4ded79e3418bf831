// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions and their events, seen from the function.

use super::{Cqe, Pushed};
use crate::{
    hca::Hca, //
    iseg,
    transport::Timer,
};
use mlx5_hw::raw;

/// Syndromes of the CQ error event. Source: `mlx5_eqe_cq_err` users, include/linux/mlx5/device.h.
const OVERRUN: u8 = 1;
const ACCESS_VIOLATION: u8 = 2;

impl Hca {
    /// Writes a completion to a CQ and raises its event if one is due. A CQ that overruns, or that
    /// cannot be written, raises one CQ error event and moves its queue pairs to ERROR; later
    /// completions are lost. False when the completion was not written.
    pub fn complete(&mut self, cqn: u32, cqe: Cqe) -> bool {
        let now = self.env.now();
        let cqe = cqe.stamped(iseg::internal_timer(self));
        let cqe = self.env.faults.completion(cqn, cqe);
        let Some(cq) = self.cqs.get_mut(cqn) else {
            return false;
        };
        match cq.push(&mut self.env, now, cqe) {
            Pushed::Stored { event } => {
                self.env.counters.cqes += 1;
                if cqe.is_error() {
                    self.env.counters.error_cqes += 1;
                }
                self.after_cq(cqn, event);
                return true;
            }
            Pushed::Overrun => {
                tracing::error!("CQ Overrun: CQ {cqn:#x}, a completion is lost");
                self.env.counters.cq_overruns += 1;
                self.vnic.cq_overruns = self.vnic.cq_overruns.wrapping_add(1);
                self.cq_failed(cqn, OVERRUN);
            }
            Pushed::Broken(error) => {
                tracing::error!("CQ {cqn:#x}: DMA error: {error}");
                self.cq_failed(cqn, ACCESS_VIOLATION);
            }
            Pushed::Dead => {}
        }
        false
    }

    /// A CQ cannot be written any more, as if its memory were gone. False when there is none.
    pub fn lose_cq(&mut self, cqn: u32) -> bool {
        let Some(cq) = self.cqs.get_mut(cqn) else {
            return false;
        };
        if cq.lose() {
            self.cq_failed(cqn, ACCESS_VIOLATION);
        }
        true
    }

    fn cq_failed(&mut self, cqn: u32, syndrome: u8) {
        let mut data = [0; 28];
        data[..4].copy_from_slice(&cqn.to_be_bytes());
        data[11] = syndrome;
        self.async_event(raw::MLX5_EVENT_TYPE_CQ_ERROR, 0, &data);
        self.transport.cq_failed(cqn);
        self.sched.push(crate::sched::Work::Settle);
    }

    /// Posts the completion event, or remembers when it is due.
    pub(super) fn after_cq(&mut self, cqn: u32, event: bool) {
        let Some(cq) = self.cqs.get(cqn) else {
            return;
        };
        let (eqn, deadline) = (cq.eqn, cq.notify.deadline());
        if event {
            let mut data = [0; 28];
            data[24..].copy_from_slice(&cqn.to_be_bytes());
            self.post_eqe(eqn, raw::MLX5_EVENT_TYPE_COMP, 0, &data);
        } else if let Some(due) = deadline {
            self.transport.at(due, Timer::Cq(cqn));
        }
    }
}

/// A CQ arm doorbell came through a UAR page: `word` is sequence, command and consumer index.
pub fn arm(hca: &mut Hca, uar: u32, cqn: u32, word: u32) {
    let now = hca.env.now();
    let Some(cq) = hca.cqs.get_mut(cqn).filter(|cq| cq.uar == uar) else {
        tracing::warn!("CQ {cqn:#x}: arm through UAR {uar:#x}, but the CQ is not there");
        crate::transport::count(hca, "cq_arm_foreign_uar");
        return;
    };
    // Word 1 of the record must have been written first; a later arm may have overtaken it.
    let record = cq.record() + 4;
    match hca.env.read_be32(record) {
        Ok(found) if (found.wrapping_sub(word) & 0xff_ffff) > 0x7f_ffff => {
            tracing::error!("CQ {cqn:#x}: arm record {found:#x} lags behind doorbell {word:#x}");
            crate::transport::count(hca, "cq_arm_record_lags");
        }
        _ => {}
    }
    let Some(cq) = hca.cqs.get_mut(cqn) else {
        return;
    };
    let event = cq.arm(word, now);
    hca.after_cq(cqn, event);
}

/// A held back event may be due.
pub fn expire(hca: &mut Hca, cqn: u32) {
    let now = hca.env.now();
    if let Some(cq) = hca.cqs.get_mut(cqn) {
        let event = cq.notify.expire(now);
        hca.after_cq(cqn, event);
    }
}
