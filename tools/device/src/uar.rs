// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Doorbell pages (UARs): 4 KiB pages of BAR0 that ALLOC_UAR hands out.
//!
//! | offset | register |
//! |---|---|
//! | 0x20 | CQ arm, 8 bytes |
//! | 0x40 | EQ consumer index and arm, 4 bytes |
//! | 0x48 | EQ consumer index, 4 bytes |
//! | 0x800.. | SQ doorbell and BlueFlame: four registers of two halves each |
//!
//! Source: `mlx5_cq_arm` in include/linux/mlx5/cq.h, `eq_update_ci` in core/lib/eq.h, core/uar.c.

use mlx5_hw::{field, raw};

use crate::{hca::Hca, push::Pushed};

const CQ_ARM: u64 = 0x20;
const EQ_ARM: u64 = 0x40;
const EQ_UPDATE: u64 = 0x48;
const BLUEFLAME: u64 = raw::MLX5_BF_OFFSET as u64;
const REGISTERS: u64 = raw::MLX5_BFREGS_PER_UAR as u64;

crate::bare_object! {
    /// One page.
    Uar in uars, 64 bytes,
    AllocUar: MLX5_CMD_OP_ALLOC_UAR(alloc_uar_in, alloc_uar_out),
    DeallocUar: MLX5_CMD_OP_DEALLOC_UAR(dealloc_uar_in, dealloc_uar_out),
    uar
}

/// A read of BAR0 behind the initialization segment: doorbell pages read as zero.
pub fn read(hca: &mut Hca, off: u64) {
    // CAST: BAR0 has at most 2^20 pages.
    if hca.uars.get((off >> 12) as u32).is_some() {
        hca.vnic.uar_accesses = hca.vnic.uar_accesses.wrapping_add(1);
    }
}

/// A write into BAR0 behind the initialization segment.
pub fn write(hca: &mut Hca, off: u64, data: &[u8]) {
    let stray = |hca: &mut Hca, what: &str| {
        hca.env.counters.stray_accesses += 1;
        tracing::warn!("BAR0 {off:#x}: write of {} bytes: {what}", data.len());
    };
    // CAST: BAR0 has at most 2^20 pages.
    let page = (off >> 12) as u32;
    if hca.uars.get(page).is_none() {
        return stray(hca, "no such UAR");
    }
    hca.vnic.uar_accesses = hca.vnic.uar_accesses.wrapping_add(1);
    match (off & 0xfff, data) {
        (CQ_ARM, &[a, b, c, d, e, f, g, h]) => {
            hca.env.counters.cq_doorbells += 1;
            let arm = u32::from_be_bytes([a, b, c, d]);
            let cqn = u32::from_be_bytes([e, f, g, h]) & 0xff_ffff;
            crate::cq::arm(hca, page, cqn, arm);
        }
        (EQ_ARM, &[a, b, c, d]) => hca.eq_doorbell(page, u32::from_be_bytes([a, b, c, d]), true),
        (EQ_UPDATE, &[a, b, c, d]) => {
            hca.eq_doorbell(page, u32::from_be_bytes([a, b, c, d]), false);
        }
        (at, data) if at >= BLUEFLAME => {
            if !send_doorbell(hca, page, at - BLUEFLAME, data) {
                stray(hca, "no doorbell register");
            }
        }
        _ => stray(hca, "no such register"),
    }
}

/// An SQ doorbell: the first 8 bytes of a WQE's control segment, or (BlueFlame, through a write
/// combining mapping) the whole WQE, if it fits half a register. Word 1 names the queue.
fn send_doorbell(hca: &mut Hca, page: u32, at: u64, data: &[u8]) -> bool {
    let register = 1u64
        << hca
            .caps
            .get(field!(cmd_hca_cap, log_bf_reg_size))
            .clamp(4, 9);
    let half = register / 2;
    if at >= register * REGISTERS || at % half + data.len() as u64 > half {
        return false;
    }
    // The rest of a WQE of which the first bytes came by themselves: the doorbell has rung.
    if at % half != 0 {
        return data.len() % 8 == 0;
    }
    let &[_, _, _, _, a, b, c, d, ..] = data else {
        return false;
    };
    let number = u32::from_be_bytes([a, b, c, d]) >> 8;
    let pushed = Pushed::parse(data);
    if pushed.is_some() {
        hca.env.counters.blueflame += 1;
    } else {
        hca.env.counters.sq_doorbells += 1;
    }
    if hca.qps.get(number).is_some() {
        crate::transport::doorbell(hca, page, number, data, pushed);
    } else if hca.sqs.get(number).is_some() {
        crate::eth::doorbell(hca, page, number, pushed);
    } else {
        tracing::debug!("doorbell for queue {number:#x}, which does not exist");
    }
    true
}
