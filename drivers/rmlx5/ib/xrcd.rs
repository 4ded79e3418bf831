// SPDX-License-Identifier: GPL-2.0
//! XRC domains of users.

use kernel::prelude::*;
use kernel_ext::rdma::Context;

use super::{
    context::UserContext,
    Data, //
};
use crate::{
    home::Home,
    xrc::Xrcd, //
};

/// The driver's part of an XRC domain. It may outlive the context it was made from: the core shares it by
/// a file.
pub(crate) struct ExtendedDomain {
    home: Home,
    xrcd: Option<Xrcd>,
}

impl ExtendedDomain {
    /// Its number on the device. `EIO` when it belongs to an earlier generation.
    pub(super) fn number(&self) -> Result<u32> {
        self.home.alive()?;
        self.xrcd.as_ref().map(Xrcd::number).ok_or(EIO)
    }
}

impl Drop for ExtendedDomain {
    fn drop(&mut self) {
        if let Some(xrcd) = self.xrcd.take() {
            // A domain of an earlier generation is gone already.
            if self.home.is_current() {
                xrcd.dealloc(self.home.cmd());
            }
        }
    }
}

/// Makes a domain.
pub(super) fn create(data: &Data, context: Context<'_, UserContext>) -> Result<ExtendedDomain> {
    let home = context.payload().home()?.clone();
    if !data.device.caps()?.xrc {
        return Err(EOPNOTSUPP);
    }
    let xrcd = Some(Xrcd::alloc(home.cmd())?);
    Ok(ExtendedDomain { home, xrcd })
}
