// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What follows the control segment of a request that changes a memory key.

use mlx5_hw::{field::Mut, ifc};

/// UMR control segment and key context.
pub fn umr(flags: u8, octowords: u16, mask: u64, context: &[u8; 64]) -> Vec<u8> {
    let mut raw = vec![0; 48];
    raw[0] = flags;
    raw[4..6].copy_from_slice(&octowords.to_be_bytes());
    raw[8..16].copy_from_slice(&mask.to_be_bytes());
    raw.extend(context);
    raw
}

/// A key context.
pub fn context(fill: impl FnOnce(&mut Mut<'_, ifc::mkc>)) -> [u8; 64] {
    let mut raw = [0; 64];
    fill(&mut Mut::new(&mut raw).unwrap());
    raw
}
