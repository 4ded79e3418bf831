// SPDX-License-Identifier: GPL-2.0
//! Transmit queues of a device, and what their locks protect.
//!
//! Stop, then look again: whoever stops a queue checks once more whether there is room, because room
//! may have been made between the last look and the stop. Both sides need a full barrier between what they write and what
//! they look at:
//!
//! | who sends, under the lock | who finishes, without |
//! |---|---|
//! | posts, [`TxQueue::stop`], barrier, looks for room, [`TxQueue::start`] | makes room, barrier, [`TxQueue::is_stopped`], [`TxQueue::wake`] |

use core::{cell::UnsafeCell, ops::Deref};

use kernel::{
    sync::atomic::{ordering::Relaxed, Atomic},
    types::NotThreadSafe,
};
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
    #[inline]
    pub fn queue(&self, index: u16) -> Option<TxQueue<'_>> {
        // INVARIANT: Checked here; the number of queues never changes.
        (u32::from(index) < self.max_tx_queues()).then_some(TxQueue {
            device: self,
            index: index.into(),
        })
    }
}

impl<'a> TxQueue<'a> {
    /// Its number.
    #[inline]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Takes the transmit lock: nothing is sent on the queue meanwhile. Process context or softirq.
    pub fn lock(self) -> TxLocked<'a> {
        // SAFETY: By the type invariant; undone on this CPU by the drop of the result.
        unsafe { bindings::netdev_queue_lock(self.device.as_raw(), self.index) };
        // INVARIANT: Taken above.
        TxLocked {
            queue: self,
            ours: true,
            _cpu: NotThreadSafe,
        }
    }
}

/// The transmit lock of a queue, held.
///
/// # Invariants
///
/// The lock is held as long as the value exists, and there is one such value at a time. It was taken by
/// [`TxQueue::lock`] if `ours`, else by the core for the duration of a call.
pub struct TxLocked<'a> {
    queue: TxQueue<'a>,
    ours: bool,
    _cpu: NotThreadSafe,
}

impl<'a> TxLocked<'a> {
    /// # Safety
    ///
    /// The core must hold the lock of `queue` for the caller until after the result is dropped, and this must be the only
    /// such value.
    #[inline]
    pub(super) unsafe fn lent(queue: TxQueue<'a>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            queue,
            ours: false,
            _cpu: NotThreadSafe,
        }
    }
}

impl<'a> Deref for TxLocked<'a> {
    type Target = TxQueue<'a>;

    #[inline]
    fn deref(&self) -> &TxQueue<'a> {
        &self.queue
    }
}

impl Drop for TxLocked<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: By the type invariant it is held, and was taken in `lock` on this CPU.
            unsafe { bindings::netdev_queue_unlock(self.queue.device.as_raw(), self.queue.index) }
        }
    }
}

/// A value that the transmit lock of a queue protects; so sending needs no other lock.
///
/// # Invariants
///
/// `value` is used by who holds the lock of queue `index` of the device whose address is in `device` only; 0 there
/// stands for none so far.
pub struct TxCell<T> {
    index: u32,
    device: Atomic<usize>,
    value: UnsafeCell<T>,
}

// SAFETY: The lock lets one thread at a time use the value.
unsafe impl<T: Send> Send for TxCell<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Sync for TxCell<T> {}

impl<T> TxCell<T> {
    /// A value for queue `index` of the device whose lock is shown first.
    pub const fn new(index: u16, value: T) -> Self {
        // INVARIANT: Nobody uses it yet.
        Self {
            // CAST: it becomes wider.
            index: index as u32,
            device: Atomic::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// The value; `None` when the lock is that of another queue.
    #[inline]
    pub fn get<'c>(&'c self, lock: &'c mut TxLocked<'_>) -> Option<&'c mut T> {
        let wanted = core::ptr::from_ref(lock.queue.device).addr();
        let ours = match self.device.load(Relaxed) {
            // INVARIANT: From here on it is this device's, unless another one came first.
            0 => self.device.cmpxchg(0, wanted, Relaxed).is_ok(),
            known => known == wanted,
        };
        if lock.queue.index != self.index || !ours {
            return None;
        }
        // SAFETY: By the type invariants the lock is held by the caller as long as the result is borrowed, and
        // everybody else needs it too.
        Some(unsafe { &mut *self.value.get() })
    }

    /// The value of a cell that nobody else has.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl TxQueue<'_> {
    /// The core hands over nothing more.
    #[inline]
    pub fn stop(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_stop(self.device.as_raw(), self.index) }
    }

    /// Ends [`TxQueue::stop`], by who has just stopped it and holds the lock.
    #[inline]
    pub fn start(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_start(self.device.as_raw(), self.index) }
    }

    /// Whether the driver has stopped it.
    #[inline]
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
    #[inline]
    pub fn sent(self, bytes: u32, more: bool) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::netdev_queue_sent(self.device.as_raw(), self.index, bytes, more) }
    }

    /// Tells the byte queue limits that the hardware is done with what was reported before.
    #[inline]
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
#[inline]
pub fn more_follows() -> bool {
    // SAFETY: Reads a variable of this CPU.
    unsafe { bindings::netdev_xmit_more() }
}
