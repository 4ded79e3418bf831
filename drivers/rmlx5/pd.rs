// SPDX-License-Identifier: GPL-2.0
//! Protection domains: what ties QPs to the memory keys they may use.

use kernel::prelude::*;

use crate::{
    census::{
        Counted,
        Kind, //
    },
    cmd::{
        Cmd,
        CmdError, //
    },
    plain_command, //
};

plain_command! {
    /// ALLOC_PD.
    AllocPd, MLX5_CMD_OP_ALLOC_PD, alloc_pd_in, alloc_pd_out => pd: u32
}

plain_command! {
    /// DEALLOC_PD.
    DeallocPd, MLX5_CMD_OP_DEALLOC_PD, dealloc_pd_in, dealloc_pd_out, number: u32 => pd
}

/// A protection domain of the current device generation.
pub(crate) struct Pd {
    number: u32,
    _counted: Counted,
}

impl Pd {
    /// Gets a domain from the device. Sleeps. `ENOMEM` when there are no more.
    pub(crate) fn alloc(cmd: &Cmd) -> Result<Self, CmdError> {
        Ok(Self {
            number: cmd.exec(&AllocPd {})?,
            _counted: Counted::new(Kind::Pd),
        })
    }

    /// Its number, for contexts.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Gives the domain back; an answer is not needed.
    pub(crate) fn dealloc(self, cmd: &Cmd) {
        let _ = cmd.exec(&DeallocPd {
            number: self.number,
        });
    }
}
