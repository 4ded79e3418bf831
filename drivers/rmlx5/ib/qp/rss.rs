// SPDX-License-Identifier: GPL-2.0
//! QPs of users that only receive, by a table of work queues that a hash picks from: nothing but a TIR.
//! Such a QP has no states and no number.
//!
//! Source: `create_rss_raw_qp_tir` in ib/qp.c.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::{
    net::ethtool::HashFields,
    rdma::{
        NewQp,
        QpCaps,
        QpKind,
        Udata,
        WqTable, //
    },
};

use super::{
    Hardware,
    Inner,
    Pair, //
};
use crate::{
    ib::{
        abi::{
            self,
            hash, //
        },
        wq::Table,
        Data,
        Verbs, //
    },
    net::{
        base::TransportDomain,
        tir::{
            Hashed,
            Target,
            Tir, //
        },
    },
};

/// What is on the device; the fields go in this order.
pub(super) struct RssQp {
    tir: Tir,
    _domain: Arc<TransportDomain>,
}

impl RssQp {
    /// Number of the TIR.
    pub(super) fn tir(&self) -> u32 {
        self.tir.number()
    }
}

/// Bits of the mask that say the same of packets of one kind.
struct Choice {
    sources: u32,
    destinations: u32,
}

impl Choice {
    const V4: Self = Self::of(hash::SRC_IPV4, hash::DST_IPV4);
    const V6: Self = Self::of(hash::SRC_IPV6, hash::DST_IPV6);
    const TCP: Self = Self::of(hash::SRC_PORT_TCP, hash::DST_PORT_TCP);
    const UDP: Self = Self::of(hash::SRC_PORT_UDP, hash::DST_PORT_UDP);

    const fn of(sources: u32, destinations: u32) -> Self {
        Self {
            sources,
            destinations,
        }
    }

    const fn all(&self) -> u32 {
        self.sources | self.destinations
    }

    fn is_in(&self, mask: u32) -> bool {
        mask & self.all() != 0
    }
}

/// From the mask of the library to what the card hashes. `EINVAL` for two kinds of addresses or of ports, and
/// for nothing to hash where there is something to choose; `EOPNOTSUPP` for other fields.
fn hashed(mask: u64, log_size: u32) -> Result<Hashed> {
    let mask = u32::try_from(mask).map_err(|_| EOPNOTSUPP)?;
    let known = [Choice::V4, Choice::V6, Choice::TCP, Choice::UDP];
    if mask & !known.iter().fold(0, |all, choice| all | choice.all()) != 0 {
        return Err(EOPNOTSUPP);
    }
    if mask == 0 && log_size != 0
        || Choice::V4.is_in(mask) && Choice::V6.is_in(mask)
        || Choice::TCP.is_in(mask) && Choice::UDP.is_in(mask)
    {
        return Err(EINVAL);
    }
    let any = |bits: u32| mask & bits != 0;
    Ok(Hashed {
        v6: Choice::V6.is_in(mask),
        udp: Choice::UDP.is_in(mask),
        fields: HashFields {
            source: any(Choice::V4.sources | Choice::V6.sources),
            destination: any(Choice::V4.destinations | Choice::V6.destinations),
            source_port: any(Choice::TCP.sources | Choice::UDP.sources),
            destination_port: any(Choice::TCP.destinations | Choice::UDP.destinations),
        },
    })
}

/// Makes such a QP. The core has checked that the user may, and keeps the table.
pub(super) fn create(
    data: &Data,
    new: &mut NewQp<'_, Verbs>,
    table: WqTable<'_, Table>,
    udata: &mut Udata<'_>,
) -> Result<Pair> {
    let context = new.context()?;
    let user = context.payload();
    let home = user.home()?.clone();
    if new.kind() != QpKind::RawPacket || user.cqe_version() == 0 || new.send_cq().is_some() {
        return Err(EINVAL);
    }
    if new.create_flags() != 0 {
        data.complain(fmt!(
            "QP: create flags {:#x} are not supported",
            new.create_flags()
        ));
        return Err(EINVAL);
    }
    let request = abi::CreateRss::parse(udata)?;
    let hashed = hashed(request.fields, table.log_size()).inspect_err(|_| {
        data.complain(fmt!("QP: hash of fields {:#x}", request.fields));
    })?;
    let domain = user.transport_domain()?;
    let target = Target::Hash {
        rqt: table.payload().number()?,
        key: &request.key,
        hashed,
    };
    let tir = Tir::new(&home, domain.number(), target)?;
    let inner = Inner::new()?;
    inner.lock().qp = Some(Hardware::Rss(RssQp {
        tir,
        _domain: domain,
    }));
    // From here on an error destroys it.
    let pair = Pair {
        home,
        events: data.events.clone(),
        kind: new.kind(),
        caps: QpCaps::default(),
        send_blocks: 0,
        signals_all: false,
        inner,
        doorbell: None,
        _anchor: None,
        queues: None,
        lives: data.lives.clone(),
    };
    abi::answer_create_rss(udata)?;
    new.hide();
    new.set_number(0);
    Ok(pair)
}
