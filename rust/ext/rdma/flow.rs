// SPDX-License-Identifier: GPL-2.0
//! Flow rules of users: which received frames come to a QP.

use core::marker::PhantomData;

use kernel::prelude::*;
use rmlx5_bindings as bindings;

use super::{object::Object, verbs::UserVerbs};

/// The core's part of a rule and the driver's.
pub(super) type FlowObject<D> = Object<bindings::ib_flow, <D as UserVerbs>::Flow>;

/// What a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// Frames that match its filters.
    Normal,
    /// What nobody else wants.
    AllDefault,
    /// What nobody else wants of what is sent to groups.
    MulticastDefault,
    /// Copies of everything.
    Sniffer,
    /// Another one, by its number (`enum ib_flow_attr_type`).
    Other(u32),
}

/// Fields of a header: bits of `value` count where `mask` has ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<T> {
    /// What the fields are to be.
    pub value: T,
    /// Which bits of them count.
    pub mask: T,
}

/// The Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetFields {
    /// Destination address.
    pub destination: [u8; 6],
    /// Source address.
    pub source: [u8; 6],
    /// EtherType, behind the tag.
    pub ethertype: u16,
    /// Control information of the VLAN tag.
    pub tag: u16,
}

/// The header of IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
    /// Protocol behind it.
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Flags.
    pub flags: u8,
}

/// The header of IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Protocol behind it.
    pub next_header: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

/// The header of TCP or UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFields {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// A part of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSpec {
    /// Fields of the outer Ethernet header.
    Ethernet(Filter<EthernetFields>),
    /// Of the outer IPv4 header; the frame has one.
    Ipv4(Filter<Ipv4Fields>),
    /// Of the outer IPv6 header; the frame has one.
    Ipv6(Filter<Ipv6Fields>),
    /// Of the TCP header; the frame has one.
    Tcp(Filter<PortFields>),
    /// Of the UDP header; the frame has one.
    Udp(Filter<PortFields>),
    /// Another one, by its number (`enum ib_flow_spec_type`).
    Other(u32),
}

/// A rule that is being made, for the duration of the call.
///
/// # Invariants
///
/// The pointer is valid for `'a`, and as many initialised bytes follow it as its `size` says.
pub struct NewFlow<'a> {
    attr: *const bindings::ib_flow_attr,
    call: PhantomData<&'a ()>,
}

impl<'a> NewFlow<'a> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(attr: *const bindings::ib_flow_attr) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            attr,
            call: PhantomData,
        }
    }

    fn get(&self) -> &'a bindings::ib_flow_attr {
        // SAFETY: By the type invariant.
        unsafe { &*self.attr }
    }

    /// What it is for.
    pub fn kind(&self) -> FlowKind {
        match self.get().type_ {
            bindings::ib_flow_attr_type_IB_FLOW_ATTR_NORMAL => FlowKind::Normal,
            bindings::ib_flow_attr_type_IB_FLOW_ATTR_ALL_DEFAULT => FlowKind::AllDefault,
            bindings::ib_flow_attr_type_IB_FLOW_ATTR_MC_DEFAULT => FlowKind::MulticastDefault,
            bindings::ib_flow_attr_type_IB_FLOW_ATTR_SNIFFER => FlowKind::Sniffer,
            other => FlowKind::Other(other),
        }
    }

    /// Rules of lower priority numbers are asked first.
    pub fn priority(&self) -> u16 {
        self.get().priority
    }

    /// `IB_FLOW_ATTR_FLAGS_*`.
    pub fn flags(&self) -> u32 {
        self.get().flags
    }

    /// Its parts, from the outer header on. `EINVAL` for one that is cut off.
    pub fn specs(&self) -> impl Iterator<Item = Result<FlowSpec>> + 'a {
        let attr = self.get();
        let length = usize::from(attr.size).saturating_sub(size_of::<bindings::ib_flow_attr>());
        // SAFETY: By the type invariant; the parts follow the structure.
        let mut rest =
            unsafe { core::slice::from_raw_parts(self.attr.add(1).cast::<u8>(), length) };
        (0..attr.num_of_specs).map(move |_| {
            let (spec, behind) = parse(rest)?;
            rest = behind;
            Ok(spec)
        })
    }
}

/// The structure at the start of `bytes`. `EINVAL` when it is cut off.
///
/// # Safety
///
/// Every pattern of bits must be a value of `T`.
unsafe fn read<T>(bytes: &[u8]) -> Result<T> {
    let bytes = bytes.get(..size_of::<T>()).ok_or(EINVAL)?;
    // SAFETY: There are that many bytes, and by the safety requirements they are a value.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Both sides of a filter.
fn both<F, T>(value: &F, mask: &F, convert: impl Fn(&F) -> T) -> Filter<T> {
    Filter {
        value: convert(value),
        mask: convert(mask),
    }
}

/// The first part in `bytes`, and what follows it. The core has made each as long as its structure, which
/// begins with its type and its length.
fn parse(bytes: &[u8]) -> Result<(FlowSpec, &[u8])> {
    // SAFETY: Numbers.
    let (kind, length): (u32, u16) =
        unsafe { (read(bytes)?, read(bytes.get(4..).ok_or(EINVAL)?)?) };
    let (this, rest) = bytes
        .split_at_checked(length.into())
        .filter(|(this, _)| !this.is_empty())
        .ok_or(EINVAL)?;
    let spec = match kind {
        bindings::ib_flow_spec_type_IB_FLOW_SPEC_ETH => {
            // SAFETY: A structure of numbers.
            let raw: bindings::ib_flow_spec_eth = unsafe { read(this)? };
            FlowSpec::Ethernet(both(&raw.val, &raw.mask, |from| EthernetFields {
                destination: from.dst_mac,
                source: from.src_mac,
                ethertype: u16::from_be(from.ether_type),
                tag: u16::from_be(from.vlan_tag),
            }))
        }
        bindings::ib_flow_spec_type_IB_FLOW_SPEC_IPV4 => {
            // SAFETY: A structure of numbers.
            let raw: bindings::ib_flow_spec_ipv4 = unsafe { read(this)? };
            FlowSpec::Ipv4(both(&raw.val, &raw.mask, |from| Ipv4Fields {
                // They are in the order of the wire.
                source: from.src_ip.to_ne_bytes(),
                destination: from.dst_ip.to_ne_bytes(),
                protocol: from.proto,
                tos: from.tos,
                ttl: from.ttl,
                flags: from.flags,
            }))
        }
        bindings::ib_flow_spec_type_IB_FLOW_SPEC_IPV6 => {
            // SAFETY: A structure of numbers.
            let raw: bindings::ib_flow_spec_ipv6 = unsafe { read(this)? };
            FlowSpec::Ipv6(both(&raw.val, &raw.mask, |from| Ipv6Fields {
                source: from.src_ip,
                destination: from.dst_ip,
                flow_label: u32::from_be(from.flow_label),
                next_header: from.next_hdr,
                traffic_class: from.traffic_class,
                hop_limit: from.hop_limit,
            }))
        }
        bindings::ib_flow_spec_type_IB_FLOW_SPEC_TCP
        | bindings::ib_flow_spec_type_IB_FLOW_SPEC_UDP => {
            // SAFETY: A structure of numbers.
            let raw: bindings::ib_flow_spec_tcp_udp = unsafe { read(this)? };
            let filter = both(&raw.val, &raw.mask, |from| PortFields {
                source: u16::from_be(from.src_port),
                destination: u16::from_be(from.dst_port),
            });
            match kind {
                bindings::ib_flow_spec_type_IB_FLOW_SPEC_TCP => FlowSpec::Tcp(filter),
                _ => FlowSpec::Udp(filter),
            }
        }
        other => FlowSpec::Other(other),
    };
    Ok((spec, rest))
}
