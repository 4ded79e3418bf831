// SPDX-License-Identifier: GPL-2.0
//! A frame that a device sends to itself, for self-tests.

use kernel::{error::to_result, prelude::*, time::Delta};
use rmlx5_bindings as bindings;

use super::NetDevice;
use crate::time::jiffies_of;

/// Sends a frame from `device` to its own address by its first queue, with EtherType 0x9000 (loopback), and waits for it
/// up to `wait`. Whether it came, with the content that was sent. The hardware has to let it come back. Process context,
/// sleeps.
///
/// # Errors
///
/// `ENOMEM`, `ENETDOWN` when the interface is closed, `EIO` when the frame was not sent.
pub fn frame_returns(device: &NetDevice, wait: Delta) -> Result<bool> {
    // SAFETY: By the type invariant.
    let came = unsafe { bindings::netdev_loop_back(device.as_raw(), jiffies_of(wait)) };
    to_result(came.min(0)).map(|()| came > 0)
}
