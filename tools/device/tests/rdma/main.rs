// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RDMA without a VM: two cards on a cable that can lose, reorder and repeat, or one card alone.

mod datagrams;
mod errors;
mod hostile;
mod loopback;
mod node;
mod pair;
mod queues;
mod verbs;

/// Opcodes of send requests.
pub mod op {
    pub const NOP: u8 = 0x00;
    pub const SEND_INVAL: u8 = 0x01;
    pub const WRITE: u8 = 0x08;
    pub const WRITE_IMM: u8 = 0x09;
    pub const SEND: u8 = 0x0a;
    pub const SEND_IMM: u8 = 0x0b;
    pub const READ: u8 = 0x10;
    pub const CMP_SWAP: u8 = 0x11;
    pub const FETCH_ADD: u8 = 0x12;
    pub const UMR: u8 = 0x25;
}

/// Completion on success, and on error; solicited.
pub const CE: u8 = 0x8;
pub const SE: u8 = 0x2;

/// Bytes that show where they came from.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed)
        .collect()
}
