// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TIS: transport interface send. Says in which transport domain and with which priority an SQ
//! sends.

use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    table::{Kind, Object},
};

const CONTEXT: usize = bytes_of::<ifc::tisc>();

/// One of them. SQs hold it.
#[derive(Debug)]
pub struct Tis {
    /// Transport domain: frames do not come back to TIRs of the same one unless those allow it.
    pub domain: u32,
    /// Priority, 0 to 15.
    pub prio: u8,
    context: [u8; CONTEXT],
}

const FOOTPRINT: u64 = 128;

impl Object for Tis {
    const KIND: Kind = Kind::Tis;

    fn footprint(&self) -> u64 {
        FOOTPRINT
    }
}

fn check_lag(tisc: Ref<'_, ifc::tisc>) -> Result<(), Refused> {
    if tisc.flag(field!(tisc, strict_lag_tx_port_affinity))
        || tisc.flag(field!(tisc, lag_tx_port_affinity))
    {
        refuse!(BadParam, 2, "TIS with port affinity: there is one port");
    }
    Ok(())
}

impl Tis {
    /// One line for a dump.
    pub fn describe(&self, tisn: u32) -> String {
        format!(
            "TIS {tisn:#x}: domain {:#x} prio {}",
            self.domain, self.prio
        )
    }
}

/// CREATE_TIS.
pub struct CreateTis;

impl Command for CreateTis {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_TIS;
    type In = ifc::create_tis_in;
    type Out = ifc::create_tis_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        FOOTPRINT
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tisc = input.sub(span!(create_tis_in, ctx));
        if tisc.flag(field!(tisc, tls_en)) {
            refuse!(BadParam, 1, "TIS with TLS offload");
        }
        check_lag(tisc)?;
        if tisc.flag(field!(tisc, underlay_qpn)) {
            refuse!(BadParam, 3, "TIS with an underlay QP");
        }
        let pd = tisc.get32(field!(tisc, pd));
        if pd != 0 {
            hca.pds.find(pd)?;
        }
        let domain = tisc.get32(field!(tisc, transport_domain));
        hca.transport_domains.find(domain)?;
        let mut context = [0; CONTEXT];
        context.copy_from_slice(input.raw(span!(create_tis_in, ctx)));
        let tisn = hca.tises.insert(Tis {
            domain,
            // CAST: 4 bits.
            prio: tisc.get32(field!(tisc, prio)) as u8,
            context,
        })?;
        hca.transport_domains.hold(domain)?;
        output.set(field!(create_tis_out, tisn), tisn.into());
        Ok(())
    }
}

/// MODIFY_TIS.
pub struct ModifyTis;

impl Command for ModifyTis {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_TIS;
    type In = ifc::modify_tis_in;
    type Out = ifc::modify_tis_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tis = hca
            .tises
            .find_mut(input.get32(field!(modify_tis_in, tisn)))?;
        let tisc = input.sub(span!(modify_tis_in, ctx));
        check_lag(tisc)?;
        if input.flag(field!(modify_tis_in, bitmask.prio)) {
            let prio = tisc.get(field!(tisc, prio));
            // CAST: 4 bits.
            tis.prio = prio as u8;
            if let Some(mut context) = Mut::<ifc::tisc>::new(&mut tis.context) {
                context.set(field!(tisc, prio), prio);
            }
        }
        Ok(())
    }
}

/// DESTROY_TIS.
pub struct DestroyTis;

impl Command for DestroyTis {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_TIS;
    type In = ifc::destroy_tis_in;
    type Out = ifc::destroy_tis_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tis = hca
            .tises
            .remove(input.get32(field!(destroy_tis_in, tisn)))?;
        hca.transport_domains.release(tis.domain);
        Ok(())
    }
}

/// QUERY_TIS.
pub struct QueryTis;

impl Command for QueryTis {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_TIS;
    type In = ifc::query_tis_in;
    type Out = ifc::query_tis_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tis = hca.tises.find(input.get32(field!(query_tis_in, tisn)))?;
        output
            .raw(span!(query_tis_out, tis_context))
            .copy_from_slice(&tis.context);
        Ok(())
    }
}
