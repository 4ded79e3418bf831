// SPDX-License-Identifier: GPL-2.0
//! What all queues of an interface share: protection domain, transport domain, a key for all memory, the
//! TIS that frames leave through, and counters.

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

use super::q_counter::QCounter;
use crate::{
    cmd::Command,
    home::Home,
    plain_command,
    realm::Realm, //
};

plain_command! {
    /// ALLOC_TRANSPORT_DOMAIN.
    AllocTransportDomain, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain_in, alloc_transport_domain_out => transport_domain: u32
}

plain_command! {
    /// DEALLOC_TRANSPORT_DOMAIN.
    DeallocTransportDomain, MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain_in,
    dealloc_transport_domain_out, number: u32 => transport_domain
}

struct CreateTis {
    domain: u32,
}

impl Command for CreateTis {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_TIS;
    type In = ifc::create_tis_in;
    type Out = ifc::create_tis_out;
    type Output = u32;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(
            field!(create_tis_in, ctx.transport_domain),
            self.domain.into(),
        );
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_tis_out, tisn)))
    }
}

plain_command! {
    /// DESTROY_TIS.
    DestroyTis, MLX5_CMD_OP_DESTROY_TIS, destroy_tis_in, destroy_tis_out, number: u32 => tisn
}

/// Frames of queues that name it may leave. It must go before its domain.
pub(crate) struct Tis {
    home: Home,
    number: u32,
}

impl Tis {
    /// Makes one in a transport domain. Sleeps.
    pub(crate) fn new(home: &Home, domain: u32) -> Result<Self> {
        Ok(Self {
            number: home.cmd().exec(&CreateTis { domain })?,
            home: home.clone(),
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Tis {
    fn drop(&mut self) {
        self.home.end(&DestroyTis {
            number: self.number,
        });
    }
}

/// Which TIRs may take frames of which queues.
pub(crate) struct TransportDomain {
    home: Home,
    number: u32,
}

impl TransportDomain {
    /// Makes one. Sleeps.
    pub(crate) fn new(home: &Home) -> Result<Self> {
        Ok(Self {
            number: home.cmd().exec(&AllocTransportDomain {})?,
            home: home.clone(),
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for TransportDomain {
    fn drop(&mut self) {
        self.home.end(&DeallocTransportDomain {
            number: self.number,
        });
    }
}

/// All of it. Queues go before it.
pub(super) struct Base {
    realm: Realm,
    tis: Tis,
    domain: TransportDomain,
    /// A card that has none counts nothing.
    counter: Option<QCounter>,
}

impl Base {
    /// Makes everything. Sleeps.
    pub(super) fn new(home: &Home) -> Result<Self> {
        let domain = TransportDomain::new(home)?;
        let tis = Tis::new(home, domain.number())?;
        let counter = QCounter::new(home).ok();
        Ok(Self {
            realm: Realm::new(home)?,
            tis,
            domain,
            counter,
        })
    }

    /// Number of the TIS.
    pub(super) fn tis(&self) -> u32 {
        self.tis.number
    }

    /// Number of the transport domain.
    pub(super) fn domain(&self) -> u32 {
        self.domain.number
    }

    /// Number of the protection domain.
    pub(super) fn pd(&self) -> u32 {
        self.realm.pd()
    }

    /// Counters of its queues.
    pub(super) fn counter(&self) -> Option<&QCounter> {
        self.counter.as_ref()
    }

    /// Key under which bus addresses are memory.
    pub(super) fn lkey(&self) -> u32 {
        self.realm.lkey()
    }
}
