// SPDX-License-Identifier: GPL-2.0
//! The directories in debugfs, and `stats`.
//!
//! `rmlx5/BDF/` belongs to a bound card. A file there keeps what it shows alive, so whoever makes one
//! drops it when the card is closed.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::{
    debugfs::{
        Contents,
        Dir,
        File,
        Text, //
    },
    global::{
        Global,
        Owner, //
    },
};

use crate::{
    device::Device,
    report, //
};

static ROOT: Global<Arc<Dir>> = Global::new();

/// Makes `rmlx5/`, for as long as the module is there.
pub(crate) fn root() -> Result<Owner<Arc<Dir>>> {
    Ok(Owner::new(&ROOT, Dir::new(c"rmlx5")?))
}

/// Makes `rmlx5/NAME/`. It goes away with its last user.
pub(crate) fn directory(name: &CStr) -> Result<Arc<Dir>> {
    let root = ROOT.get().ok_or(ENODEV)?;
    Dir::new_in(&root, name)
}

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
