// SPDX-License-Identifier: GPL-2.0
//! Flow rules of users: from what the verb says to what the card compares.
//!
//! Source: `mlx5_ib_create_flow`, `parse_flow_attr`, `is_valid_ethertype` and `flow_is_multicast_only` in
//! ib/fs.c; `check_valid_spec` in core/fs_core.c.

use kernel::prelude::*;
use kernel_ext::rdma::{
    EthernetFields,
    Filter,
    FlowKind,
    FlowSpec,
    Ipv4Fields,
    Ipv6Fields,
    NewFlow,
    PortFields,
    Qp,
    Udata, //
};
use mlx5_hw::{
    field,
    field::Mut,
    ifc,
    span, //
};

use super::{
    abi,
    qp::Pair,
    rule::{
        check_priority,
        checked,
        UserRule,
        GROUPS,
        PRIORITIES, //
    },
    Data, //
};
use crate::net::{
    entrance::{
        Effect,
        Pattern,
        RuleCaps, //
    },
    headers::{
        Fields,
        Headers, //
    }, //
};

/// `IB_FLOW_ATTR_FLAGS_DONT_TRAP` and `..._EGRESS` of include/rdma/ib_verbs.h.
const KNOWN_FLAGS: u32 = 1 << 1 | 1 << 2;
/// `IB_FLOW_SPEC_INNER`, and the types behind it that the C driver knows: ESP, VXLAN, GRE, MPLS, tag, drop,
/// action, count (`enum ib_flow_spec_type`).
const INNER: u32 = 0x100;
const UNSUPPORTED: [u32; 8] = [0x34, 0x50, 0x51, 0x60, 0x1000, 0x1001, 0x1002, 0x1003];
/// EtherTypes and IP protocols.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

type Outer<'a, 'b> = &'a mut Mut<'b, ifc::fte_match_set_lyr_2_4>;

/// Masks and values as they come together.
struct Both {
    mask: Headers,
    values: Headers,
}

impl Both {
    /// Sets outer fields by both sides of a filter.
    fn outer<T>(&mut self, filter: &Filter<T>, set: impl Fn(Outer<'_, '_>, &T)) -> Result {
        self.mask.set_outer(|outer| set(outer, &filter.mask))?;
        self.values.set_outer(|outer| set(outer, &filter.value))
    }

    /// Rules for IP: what the frame has to be.
    fn version(&mut self, caps: &RuleCaps, version: u8, ethertype: u16) -> Result {
        match caps.ip_version {
            true => self.outer(
                &Filter {
                    value: version,
                    mask: 0xf,
                },
                |outer, version| {
                    outer.set(field!(fte_match_set_lyr_2_4, ip_version), (*version).into());
                },
            ),
            false => self.outer(
                &Filter {
                    value: ethertype,
                    mask: u16::MAX,
                },
                |outer, ethertype| {
                    outer.set(
                        field!(fte_match_set_lyr_2_4, ethertype),
                        (*ethertype).into(),
                    );
                },
            ),
        }
    }

    /// What is behind IP. `EINVAL` when another part of the rule says something else.
    fn protocol(&mut self, value: u8, mask: u8) -> Result {
        if mask == 0 {
            return Ok(());
        }
        let get = |headers: &Headers| {
            Ok::<_, Error>(
                headers
                    .outer()?
                    .get(field!(fte_match_set_lyr_2_4, ip_protocol)),
            )
        };
        match (get(&self.mask)?, get(&self.values)?) {
            (0, _) => self.outer(&Filter { value, mask }, |outer, protocol| {
                outer.set(
                    field!(fte_match_set_lyr_2_4, ip_protocol),
                    (*protocol).into(),
                );
            }),
            before if before == (mask.into(), value.into()) => Ok(()),
            _ => Err(EINVAL),
        }
    }

    fn ethernet(&mut self, filter: &Filter<EthernetFields>) -> Result {
        let tagged = filter.mask.tag != 0;
        self.outer(filter, |outer, fields| {
            let [d0, d1, d2, d3, d4, d5] = fields.destination;
            let [s0, s1, s2, s3, s4, s5] = fields.source;
            outer
                .set(
                    field!(fte_match_set_lyr_2_4, dmac_47_16),
                    u32::from_be_bytes([d0, d1, d2, d3]).into(),
                )
                .set(
                    field!(fte_match_set_lyr_2_4, dmac_15_0),
                    u16::from_be_bytes([d4, d5]).into(),
                )
                .set(
                    field!(fte_match_set_lyr_2_4, smac_47_16),
                    u32::from_be_bytes([s0, s1, s2, s3]).into(),
                )
                .set(
                    field!(fte_match_set_lyr_2_4, smac_15_0),
                    u16::from_be_bytes([s4, s5]).into(),
                )
                .set(
                    field!(fte_match_set_lyr_2_4, ethertype),
                    fields.ethertype.into(),
                );
            if tagged {
                let tag = fields.tag;
                outer
                    .set_flag(field!(fte_match_set_lyr_2_4, cvlan_tag), true)
                    .set(
                        field!(fte_match_set_lyr_2_4, first_vid),
                        (tag & 0xfff).into(),
                    )
                    .set(
                        field!(fte_match_set_lyr_2_4, first_cfi),
                        (tag >> 12 & 1).into(),
                    )
                    .set(
                        field!(fte_match_set_lyr_2_4, first_prio),
                        (tag >> 13).into(),
                    );
            }
        })
    }

    fn ipv4(&mut self, caps: &RuleCaps, filter: &Filter<Ipv4Fields>) -> Result {
        if filter.mask.ttl != 0 || filter.mask.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        self.version(caps, 4, IPV4)?;
        self.outer(filter, |outer, fields| {
            for (span, address) in [
                (
                    span!(fte_match_set_lyr_2_4, src_ipv4_src_ipv6),
                    fields.source,
                ),
                (
                    span!(fte_match_set_lyr_2_4, dst_ipv4_dst_ipv6),
                    fields.destination,
                ),
            ] {
                // The last four bytes of the room that an address of IPv6 has.
                if let Some(place) = outer.raw(span).last_chunk_mut() {
                    *place = address;
                }
            }
            traffic_class(outer, fields.tos);
        })?;
        self.protocol(filter.value.protocol, filter.mask.protocol)
    }

    fn ipv6(&mut self, caps: &RuleCaps, filter: &Filter<Ipv6Fields>) -> Result {
        if filter.mask.hop_limit != 0 {
            return Err(EOPNOTSUPP);
        }
        self.version(caps, 6, IPV6)?;
        self.outer(filter, |outer, fields| {
            outer
                .raw(span!(fte_match_set_lyr_2_4, src_ipv4_src_ipv6))
                .copy_from_slice(&fields.source);
            outer
                .raw(span!(fte_match_set_lyr_2_4, dst_ipv4_dst_ipv6))
                .copy_from_slice(&fields.destination);
            traffic_class(outer, fields.traffic_class);
        })?;
        self.protocol(filter.value.next_header, filter.mask.next_header)?;
        let label = |fields: &Ipv6Fields| u64::from(fields.flow_label & 0xf_ffff);
        for (headers, fields) in [
            (&mut self.mask, &filter.mask),
            (&mut self.values, &filter.value),
        ] {
            headers.set_misc(|misc| {
                misc.set(
                    field!(fte_match_set_misc, outer_ipv6_flow_label),
                    label(fields),
                );
            })?;
        }
        Ok(())
    }

    fn tcp(&mut self, filter: &Filter<PortFields>) -> Result {
        self.protocol(TCP, u8::MAX)?;
        self.outer(filter, |outer, fields| {
            outer
                .set(
                    field!(fte_match_set_lyr_2_4, tcp_sport),
                    fields.source.into(),
                )
                .set(
                    field!(fte_match_set_lyr_2_4, tcp_dport),
                    fields.destination.into(),
                );
        })
    }

    fn udp(&mut self, filter: &Filter<PortFields>) -> Result {
        self.protocol(UDP, u8::MAX)?;
        self.outer(filter, |outer, fields| {
            outer
                .set(
                    field!(fte_match_set_lyr_2_4, udp_sport),
                    fields.source.into(),
                )
                .set(
                    field!(fte_match_set_lyr_2_4, udp_dport),
                    fields.destination.into(),
                );
        })
    }
}

fn traffic_class(outer: Outer<'_, '_>, class: u8) {
    outer
        .set(field!(fte_match_set_lyr_2_4, ip_ecn), (class & 3).into())
        .set(field!(fte_match_set_lyr_2_4, ip_dscp), (class >> 2).into());
}

/// Whether the EtherType that a rule names is that of the IP header that it looks into.
fn check_ethertype(new: &NewFlow<'_>) -> Result {
    let (mut named, mut needed) = (None, None);
    for spec in new.specs() {
        match spec? {
            FlowSpec::Ethernet(filter) if filter.mask.ethertype != 0 => {
                named = Some((filter.value.ethertype, filter.mask.ethertype));
            }
            FlowSpec::Ipv4(_) => needed = Some(IPV4),
            FlowSpec::Ipv6(_) => needed = Some(IPV6),
            _ => (),
        }
    }
    match (named, needed) {
        (Some(named), Some(needed)) if named != (needed, u16::MAX) => Err(EINVAL),
        _ => Ok(()),
    }
}

/// Whether only frames to groups can match.
fn is_for_groups(new: &NewFlow<'_>) -> Result<bool> {
    let group = |address: [u8; 6]| address.first().is_some_and(|byte| byte & 1 != 0);
    Ok(match new.specs().next().transpose()? {
        Some(FlowSpec::Ipv4(filter)) => {
            let [first, ..] = filter.value.destination;
            first & 0xf0 == 0xe0
        }
        Some(FlowSpec::Ethernet(filter)) => {
            group(filter.mask.destination) && group(filter.value.destination)
        }
        _ => false,
    })
}

/// What the card compares.
fn pattern(data: &Data, new: &NewFlow<'_>, caps: &RuleCaps) -> Result<Pattern> {
    check_ethertype(new)?;
    let mut both = Both {
        mask: Headers::NOTHING,
        values: Headers::NOTHING,
    };
    for spec in new.specs() {
        match spec? {
            FlowSpec::Ethernet(filter) => both.ethernet(&filter)?,
            FlowSpec::Ipv4(filter) => both.ipv4(caps, &filter)?,
            FlowSpec::Ipv6(filter) => both.ipv6(caps, &filter)?,
            FlowSpec::Tcp(filter) => both.tcp(&filter)?,
            FlowSpec::Udp(filter) => both.udp(&filter)?,
            FlowSpec::Other(kind) if kind & INNER != 0 || UNSUPPORTED.contains(&kind) => {
                data.complain(fmt!("flow rule: type {kind:#x} is not supported"));
                return Err(EOPNOTSUPP);
            }
            FlowSpec::Other(_) => return Err(EINVAL),
        }
    }
    let band = match is_for_groups(new)? {
        true => GROUPS,
        // CAST: below 16.
        false => new.priority().min(PRIORITIES - 1) as u8,
    };
    let criteria = both.mask.criteria();
    let (mask, values) = (
        Fields::new(both.mask.bytes())?,
        Fields::new(both.values.bytes())?,
    );
    checked(data, band, criteria, mask, values)
}

/// Makes a rule. The core has checked that the user may, and keeps the QP.
pub(super) fn create(
    data: &Data,
    qp: Qp<'_, Pair>,
    new: &NewFlow<'_>,
    udata: &mut Udata<'_>,
) -> Result<UserRule> {
    let pair = qp.payload();
    pair.home().alive()?;
    abi::parse_create_flow(udata)?;
    check_priority(data, new.priority())?;
    if new.flags() & !KNOWN_FLAGS != 0 {
        return Err(EINVAL);
    }
    if new.kind() != FlowKind::Normal || new.flags() != 0 {
        data.complain(fmt!(
            "flow rule: kind {:?} with flags {:#x} is not supported",
            new.kind(),
            new.flags()
        ));
        return Err(EOPNOTSUPP);
    }
    let effect = Effect {
        tir: Some(pair.tir()?),
        tag: None,
    };
    let rule = data
        .entrance
        .add(pair.home(), effect, |caps| pattern(data, new, caps))?;
    Ok(UserRule::new(rule, None))
}
