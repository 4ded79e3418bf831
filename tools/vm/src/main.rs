// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots the stock kernel in QEMU and judges what its tests print.

fn main() {}
