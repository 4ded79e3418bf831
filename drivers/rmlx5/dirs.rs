// SPDX-License-Identifier: GPL-2.0
//! The directories in debugfs: `rmlx5/`, and `rmlx5/BDF/` for each bound card.
//!
//! A file there keeps what it shows alive, so whoever makes one drops it when the card is closed.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::{
    debugfs::Dir,
    global::{
        Global,
        Owner, //
    },
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
