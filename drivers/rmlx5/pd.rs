// SPDX-License-Identifier: GPL-2.0
//! Protection domains: what ties QPs to the memory keys they may use.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw, //
};

use crate::{
    census::{
        Counted,
        Kind, //
    },
    cmd::{
        Cmd,
        CmdError,
        Command, //
    },
    plain_command, //
};

struct AllocPd;

impl Command for AllocPd {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ALLOC_PD;
    type In = ifc::alloc_pd_in;
    type Out = ifc::alloc_pd_out;
    type Output = u32;

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(alloc_pd_out, pd)))
    }
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
            number: cmd.exec(&AllocPd)?,
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
