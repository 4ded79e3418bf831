// SPDX-License-Identifier: GPL-2.0
//! Enabling a device, bus mastering, and keeping its configuration space across resets.
//!
//! C header: [`include/linux/pci.h`](srctree/include/linux/pci.h)

use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{AtomicFlag, Relaxed},
};
use rmlx5_bindings as bindings;

use super::BoundDevice;

/// The device decodes memory from [`Enabled::new`] to drop. Bus mastering is off at first and
/// after drop.
///
/// The methods are for probe, unbind and error callbacks, which the device lock serialises.
pub struct Enabled {
    device: BoundDevice,
    on: AtomicFlag,
}

impl Enabled {
    /// Enables the device (power state D0, memory decoding, INTx routing).
    pub fn new(device: &BoundDevice) -> Result<Self> {
        // SAFETY: The device is valid and bound.
        to_result(unsafe { bindings::pci_enable_device(device.as_raw()) })?;
        Ok(Self {
            device: device.clone(),
            on: AtomicFlag::new(true),
        })
    }

    /// Disables the device and bus mastering, if not done yet; for `error_detected`.
    pub fn disable(&self) {
        if self.on.xchg(false, Relaxed) {
            // SAFETY: Paired with a successful `pci_enable_device`.
            unsafe { bindings::pci_disable_device(self.device.as_raw()) }
        }
    }

    /// Enables the device again after [`Enabled::disable`]; for `slot_reset`.
    pub fn enable(&self) -> Result {
        if !self.on.load(Relaxed) {
            // SAFETY: The device is valid and bound.
            to_result(unsafe { bindings::pci_enable_device(self.device.as_raw()) })?;
            self.on.store(true, Relaxed);
        }
        Ok(())
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        if self.on.load(Relaxed) {
            self.device.clear_master();
        }
        self.disable();
    }
}

impl BoundDevice {
    /// Lets the device read and write memory and send interrupts.
    pub fn set_master(&self) {
        // SAFETY: The device is valid and bound.
        unsafe { bindings::pci_set_master(self.as_raw()) }
    }

    /// Stops the device from reading and writing memory and from sending interrupts.
    pub fn clear_master(&self) {
        // SAFETY: The device is valid and bound.
        unsafe { bindings::pci_clear_master(self.as_raw()) }
    }

    /// Remembers the configuration space, MSI-X state included, for [`BoundDevice::restore_state`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the buffers of the capabilities are usually there already.
    pub fn save_state(&self) -> Result {
        // SAFETY: The device is valid and bound.
        to_result(unsafe { bindings::pci_save_state(self.as_raw()) })
    }

    /// Writes back what [`BoundDevice::save_state`] remembered, MSI-X table entries and masks
    /// included. It stays remembered, for the next reset. Does nothing when nothing is remembered.
    pub fn restore_state(&self) {
        // SAFETY: The device is valid and bound.
        unsafe { bindings::pci_restore_state(self.as_raw()) }
    }
}

impl BoundDevice {
    /// Resets the function by whatever method works, through the driver's own
    /// [`reset_prepare`](super::Driver::reset_prepare) and
    /// [`reset_done`](super::Driver::reset_done). Sleeps, possibly for seconds.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when somebody holds the device lock (it is never waited for, so this may be called
    /// by work that unbind cancels), `ENOTTY` when there is no method, else that of the method.
    pub fn try_reset(&self) -> Result {
        // SAFETY: The device is valid and bound.
        to_result(unsafe { bindings::pci_try_reset_function(self.as_raw()) })
    }
}
