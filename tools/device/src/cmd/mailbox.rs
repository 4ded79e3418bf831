// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mailbox chains: the blocks that carry what does not fit into a command queue entry.
//!
//! Layout: `struct mlx5_cmd_prot_block` in include/linux/mlx5/device.h.

use mlx5_hw::{status::Delivery, wire, wire::get};

use crate::{caps, hca::Hca};

/// Bytes of a block that are in use.
const BLOCK: usize = 576;
/// Bytes of a command that a block carries.
pub const DATA: usize = 512;

/// Follows a mailbox chain for `len` bytes, checks each block and collects the data if asked.
pub fn walk(
    hca: &mut Hca,
    first: u64,
    len: usize,
    token: u8,
    misaligned: Delivery,
    mut data: Option<&mut Vec<u8>>,
) -> Result<Vec<u64>, Delivery> {
    let mut blocks = Vec::new();
    let mut addr = first;
    let mut left = len;
    while left > 0 {
        if addr == 0 || addr % DATA as u64 != 0 {
            return Err(misaligned);
        }
        let mut block = [0u8; BLOCK];
        hca.env
            .read(addr, &mut block)
            .map_err(|_| Delivery::Firmware)?;
        let part = |member| get(&block, member).unwrap_or(0);
        if part(wire!(mlx5_cmd_prot_block, token)) != u64::from(token) {
            return Err(Delivery::Token);
        }
        if part(wire!(mlx5_cmd_prot_block, block_num)) != blocks.len() as u64 {
            return Err(Delivery::BlockNumber);
        }
        if caps::checksums_on(hca) && block.iter().fold(0, |sum, byte| sum ^ byte) != 0xff {
            return Err(Delivery::Signature);
        }
        let step = left.min(DATA);
        if let Some(data) = data.as_deref_mut() {
            data.extend_from_slice(&block[..step]);
        }
        left -= step;
        blocks.push(addr);
        addr = part(wire!(mlx5_cmd_prot_block, next));
    }
    Ok(blocks)
}

/// Block checksums as `calc_block_sig` in core/cmd.c makes them.
pub fn sign(hca: &mut Hca, addr: u64) {
    let mut block = [0u8; BLOCK];
    if hca.env.read(addr, &mut block).is_err() {
        return;
    }
    let control = wire!(mlx5_cmd_prot_block, ctrl_sig).offset();
    let whole = wire!(mlx5_cmd_prot_block, sig).offset();
    let xor = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum ^ byte);
    block[control] = !xor(&block[DATA..control]);
    block[whole] = !xor(&block[..whole]);
    let _ = hca.env.write(addr + control as u64, &block[control..]);
}
