// SPDX-License-Identifier: GPL-2.0
//! Devlink: a device with one physical port.
//!
//! With it `devlink port` and user space know which plug of a card a network device is behind.
//!
//! C header: [`include/net/devlink.h`](srctree/include/net/devlink.h)

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;

use crate::pci::BoundDevice;

/// A devlink instance with a port; both go on drop. The network device of the port goes before.
///
/// # Invariants
///
/// The pointer is a port that `devlink_port_new` has registered.
pub struct Port {
    port: NonNull<bindings::devlink_port>,
    _parent: BoundDevice,
}

// SAFETY: The core has its own locks.
unsafe impl Send for Port {}
// SAFETY: As above.
unsafe impl Sync for Port {}

impl Port {
    /// Makes an instance for `parent` whose only port is plug `number` of the card. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the core refuses.
    pub fn new(parent: &BoundDevice, number: u32) -> Result<Self> {
        let mut port = core::ptr::null_mut();
        // SAFETY: The parent is bound as long as the result exists.
        to_result(unsafe {
            bindings::devlink_port_new(parent.as_raw_device(), number, &mut port)
        })?;
        // INVARIANT: Registered above.
        Ok(Self {
            port: NonNull::new(port).ok_or(ENOMEM)?,
            _parent: parent.clone(),
        })
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::devlink_port {
        self.port.as_ptr()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::devlink_port_end(self.port.as_ptr()) }
    }
}
