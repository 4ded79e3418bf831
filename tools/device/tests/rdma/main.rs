// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RDMA without a VM: two cards on a cable that can lose, reorder and repeat, or one card alone.

mod blueflame;
mod congestion;
mod datagrams;
mod errors;
mod flat;
mod hostile;
mod keys;
mod loopback;
mod node;
mod pair;
mod queues;
mod rings;
mod umr;
mod verbs;
mod violations;
mod windows;
mod xrc;

/// Opcodes of send requests.
pub(crate) mod op {
    pub(crate) const NOP: u8 = 0x00;
    pub(crate) const SEND_INVAL: u8 = 0x01;
    pub(crate) const WRITE: u8 = 0x08;
    pub(crate) const WRITE_IMM: u8 = 0x09;
    pub(crate) const SEND: u8 = 0x0a;
    pub(crate) const SEND_IMM: u8 = 0x0b;
    pub(crate) const READ: u8 = 0x10;
    pub(crate) const CMP_SWAP: u8 = 0x11;
    pub(crate) const FETCH_ADD: u8 = 0x12;
    pub(crate) const UMR: u8 = 0x25;
}

/// Completion on success, and on error; solicited.
pub(crate) const CE: u8 = 0x8;
pub(crate) const SE: u8 = 0x2;

/// Bytes that show where they came from.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed)
        .collect()
}
