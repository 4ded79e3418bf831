// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protection domains: keys and queues of different domains do not see each other.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    table::{Kind, Object},
};

/// One domain. QPs, SRQs and keys hold it.
#[derive(Debug)]
pub struct Pd;

impl Object for Pd {
    const KIND: Kind = Kind::Pd;

    fn footprint(&self) -> u64 {
        32
    }
}

/// ALLOC_PD.
pub struct AllocPd;

impl Command for AllocPd {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ALLOC_PD;
    type In = ifc::alloc_pd_in;
    type Out = ifc::alloc_pd_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        Pd.footprint()
    }

    fn run(
        hca: &mut Hca,
        _input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let number = hca.pds.insert(Pd)?;
        output.set(field!(alloc_pd_out, pd), number.into());
        Ok(())
    }
}

/// DEALLOC_PD.
pub struct DeallocPd;

impl Command for DeallocPd {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DEALLOC_PD;
    type In = ifc::dealloc_pd_in;
    type Out = ifc::dealloc_pd_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        hca.pds.remove(input.get32(field!(dealloc_pd_in, pd)))?;
        Ok(())
    }
}
