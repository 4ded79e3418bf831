// SPDX-License-Identifier: GPL-2.0
//! The file `stats` of a card in debugfs.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::debugfs::{
    Contents,
    File,
    Text, //
};

use crate::{
    device::Device,
    report, //
};

/// `stats`: all counters, one a line. Root only: numbers change, names are not ABI.
pub(crate) struct Stats(Arc<Device>);

impl Stats {
    /// Makes the file for `device`.
    pub(crate) fn file(device: &Arc<Device>) -> Result<File<Self>> {
        let stats = Arc::new(Self(device.clone()), GFP_KERNEL)?;
        Ok(File::new(&device.debugfs, c"stats", stats))
    }
}

impl Contents for Stats {
    type Module = crate::LocalModule;

    const MODE: u16 = 0o400;

    fn read(&self, text: &mut Text) -> Result {
        report::write(&self.0, text)
    }
}
