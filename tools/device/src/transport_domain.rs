// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transport domains: TISes and TIRs that belong together.

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

/// One domain. TISes and TIRs hold it.
#[derive(Debug)]
pub struct TransportDomain;

impl Object for TransportDomain {
    const KIND: Kind = Kind::TransportDomain;

    fn footprint(&self) -> u64 {
        32
    }
}

/// ALLOC_TRANSPORT_DOMAIN.
pub struct AllocTransportDomain;

impl Command for AllocTransportDomain {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN;
    type In = ifc::alloc_transport_domain_in;
    type Out = ifc::alloc_transport_domain_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        TransportDomain.footprint()
    }

    fn run(
        hca: &mut Hca,
        _input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let number = hca.transport_domains.insert(TransportDomain)?;
        output.set(
            field!(alloc_transport_domain_out, transport_domain),
            number.into(),
        );
        Ok(())
    }
}

/// DEALLOC_TRANSPORT_DOMAIN.
pub struct DeallocTransportDomain;

impl Command for DeallocTransportDomain {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN;
    type In = ifc::dealloc_transport_domain_in;
    type Out = ifc::dealloc_transport_domain_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        hca.transport_domains
            .remove(input.get32(field!(dealloc_transport_domain_in, transport_domain)))?;
        Ok(())
    }
}
