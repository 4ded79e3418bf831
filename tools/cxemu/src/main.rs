// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A software ConnectX that a stock QEMU attaches over vfio-user.

fn main() {}
