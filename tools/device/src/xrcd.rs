// SPDX-License-Identifier: Apache-2.0 OR MIT
//! XRC domains: which XRC QPs may use which XRC SRQs.

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

/// One domain. XRC QPs and SRQs hold it.
#[derive(Debug)]
pub struct Xrcd;

impl Object for Xrcd {
    const KIND: Kind = Kind::Xrcd;

    fn footprint(&self) -> u64 {
        32
    }
}

/// ALLOC_XRCD.
pub struct AllocXrcd;

impl Command for AllocXrcd {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ALLOC_XRCD;
    type In = ifc::alloc_xrcd_in;
    type Out = ifc::alloc_xrcd_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        Xrcd.footprint()
    }

    fn run(
        hca: &mut Hca,
        _input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let number = hca.xrcds.insert(Xrcd)?;
        output.set(field!(alloc_xrcd_out, xrcd), number.into());
        Ok(())
    }
}

/// DEALLOC_XRCD.
pub struct DeallocXrcd;

impl Command for DeallocXrcd {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DEALLOC_XRCD;
    type In = ifc::dealloc_xrcd_in;
    type Out = ifc::dealloc_xrcd_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        hca.xrcds
            .remove(input.get32(field!(dealloc_xrcd_in, xrcd)))?;
        Ok(())
    }
}
