// SPDX-License-Identifier: GPL-2.0
//! Rights that a memory key gives.

use mlx5_hw::{
    field,
    field::Mut,
    ifc, //
};

/// Who may do what through a key. This side may always read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// This side may write.
    pub(crate) local_write: bool,
    /// The other end may write.
    pub(crate) remote_write: bool,
    /// The other end may read.
    pub(crate) remote_read: bool,
    /// The other end may do atomics.
    pub(crate) remote_atomic: bool,
}

impl Access {
    /// This side only.
    pub(crate) const LOCAL: Self = Self {
        local_write: true,
        remote_write: false,
        remote_read: false,
        remote_atomic: false,
    };
    /// The other end may also write, read and add.
    pub(crate) const REMOTE: Self = Self {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
    };

    /// Writes the rights to the context of a key.
    pub(crate) fn fill(self, mkc: &mut Mut<'_, ifc::mkc>) {
        mkc.set_flag(field!(mkc, lw), self.local_write)
            .set_flag(field!(mkc, lr), true)
            .set_flag(field!(mkc, rw), self.remote_write)
            .set_flag(field!(mkc, rr), self.remote_read)
            .set_flag(field!(mkc, a), self.remote_atomic);
    }
}
