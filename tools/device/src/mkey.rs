// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory keys.

use crate::table::{Kind, Object};

/// The reserved lkey: bus addresses, for QPs made with `rlky`. Its index is below every number that
/// CREATE_MKEY hands out.
pub const RESERVED_LKEY: u32 = 0x0000_0200;
/// Ends a scatter list. Source: `MLX5_TERMINATE_SCATTER_LIST_LKEY` in include/linux/mlx5/qp.h.
pub const TERMINATE_LKEY: u32 = 0x0000_0100;

/// One of them.
#[derive(Debug)]
pub struct Mkey {}

impl Object for Mkey {
    const KIND: Kind = Kind::Mkey;

    fn footprint(&self) -> u64 {
        256
    }
}
