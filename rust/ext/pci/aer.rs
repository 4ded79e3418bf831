// SPDX-License-Identifier: GPL-2.0
//! Advanced Error Reporting, as far as a driver has to do with it.
//!
//! C header: [`include/linux/aer.h`](srctree/include/linux/aer.h)

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;

use super::BoundDevice;

impl BoundDevice {
    /// Clears the status of non-fatal errors in the device, once the driver has recovered from
    /// them.
    ///
    /// # Errors
    ///
    /// `EIO` when the device has no AER capability or the firmware owns it.
    pub fn clear_nonfatal_errors(&self) -> Result {
        // SAFETY: The device is valid and bound.
        to_result(unsafe { bindings::pci_aer_clear_nonfatal_status(self.as_raw()) })
    }
}
