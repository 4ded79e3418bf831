// SPDX-License-Identifier: GPL-2.0
//! Transmit queues of a device.
//!
//! Stop, then look again: whoever stops a queue checks once more whether there is room, because room
//! may have been made between the last look and the stop.

use rmlx5_bindings as bindings;

use super::NetDevice;

/// A transmit queue.
///
/// # Invariants
///
/// The device has a queue `index`.
#[derive(Clone, Copy)]
pub struct TxQueue<'a> {
    device: &'a NetDevice,
    index: u32,
}

impl NetDevice {
    /// Transmit queue `index`; `None` when the device was made with fewer.
    pub fn queue(&self, index: u16) -> Option<TxQueue<'_>> {
        // INVARIANT: Checked here; the number of queues never changes.
        (u32::from(index) < self.max_tx_queues()).then_some(TxQueue {
            device: self,
            index: index.into(),
        })
    }
}

impl TxQueue<'_> {
    /// The core hands over nothing more.
    pub fn stop(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_stop(self.device.as_raw(), self.index) }
    }

    /// Whether the driver has stopped it.
    pub fn is_stopped(self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_stopped(self.device.as_raw(), self.index) }
    }

    /// Ends [`TxQueue::stop`].
    pub fn wake(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_wake(self.device.as_raw(), self.index) }
    }

    /// Tells the byte queue limits that `bytes` go to the hardware. Whether the doorbell is to be rung
    /// now: `more` says that another packet follows at once, which the limits may overrule.
    pub fn sent(self, bytes: u32, more: bool) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_sent(self.device.as_raw(), self.index, bytes, more) }
    }

    /// Tells the byte queue limits that the hardware is done with what was reported before.
    pub fn completed(self, packets: u32, bytes: u32) {
        // SAFETY: By the type invariant.
        unsafe {
            bindings::netdev_queue_completed(self.device.as_raw(), self.index, packets, bytes)
        }
    }

    /// Forgets what was reported: the hardware queue has been emptied.
    pub fn reset(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_reset(self.device.as_raw(), self.index) }
    }
}

/// Whether the core has another packet at hand for the queue that is being served. In
/// [`super::Driver::transmit`] only.
pub fn more_follows() -> bool {
    // SAFETY: Reads a variable of this CPU.
    unsafe { bindings::netdev_xmit_more() }
}
