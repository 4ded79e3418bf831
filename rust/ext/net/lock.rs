// SPDX-License-Identifier: GPL-2.0
//! Locks of the network core.

use kernel::types::NotThreadSafe;
use rmlx5_bindings as bindings;

/// The RTNL, until drop: no interface is opened, closed, changed or made meanwhile. Sleeps.
///
/// Callbacks of the core that run under it must not take it again.
pub struct Rtnl(NotThreadSafe);

impl Rtnl {
    /// Takes it.
    pub fn lock() -> Self {
        // SAFETY: Process context is the caller's duty; a wrong context is reported, not undefined.
        unsafe { bindings::rtnl_lock() };
        Self(NotThreadSafe)
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: Taken in `lock`, by this thread.
        unsafe { bindings::rtnl_unlock() }
    }
}

/// No softirq runs on this CPU until drop, so a spinlock that softirqs take can be taken here.
pub struct BhDisabled(NotThreadSafe);

impl BhDisabled {
    /// Begins the section; sections nest.
    pub fn new() -> Self {
        // SAFETY: Ended on the same CPU in drop.
        unsafe { bindings::local_bh_disable() };
        Self(NotThreadSafe)
    }
}

impl Default for BhDisabled {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for BhDisabled {
    fn drop(&mut self) {
        // SAFETY: Begun in `new`, by this thread.
        unsafe { bindings::local_bh_enable() }
    }
}
