// SPDX-License-Identifier: GPL-2.0
//! What hangs on a PCI device that the driver is bound to.

use kernel::sync::Arc;
use kernel_ext::debugfs::File;

use crate::{
    debugfs::Stats,
    device::Device,
    pci::Tuning, //
};

/// The driver. What it does is in [`crate::driver`].
pub(crate) struct Rmlx5;

/// What a bound card hangs on. `device` goes before `tuning`: it needs the PCI device as it is tuned.
pub(crate) struct Data {
    #[expect(dead_code, reason = "held until unbind, for its drop")]
    pub(crate) stats: File<Stats>,
    /// The card.
    pub(crate) device: Arc<Device>,
    /// MPS and MRRS go back when it is dropped.
    #[expect(dead_code, reason = "held until unbind, for its drop")]
    pub(crate) tuning: Tuning,
}
