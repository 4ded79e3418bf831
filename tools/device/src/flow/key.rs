// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flow steering compares: the headers of a frame in the layout of the match parameters.
//!
//! A [`Key`] is laid out as `fte_match_param` itself (outer headers, then miscellaneous), so a
//! match is one masked comparison, whatever fields a group selects.

use crate::eth::frame::{ethertype, protocol, Headers, Version, L4};
use mlx5_hw::field::Mut;
use mlx5_hw::{field, ifc, span};

/// Length of the match parameters the model looks at: outer headers and miscellaneous, in bytes.
pub const KEY_LEN: usize = 128;

/// Length of the whole `fte_match_param`, in bytes.
pub const PARAM_LEN: usize = mlx5_hw::field::bytes_of::<ifc::fte_match_param>();

/// Bits of `match_criteria_enable`.
pub mod criteria {
    /// Outer headers.
    pub const OUTER: u8 = 1 << 0;
    /// Miscellaneous parameters.
    pub const MISC: u8 = 1 << 1;
}

/// A frame as flow steering sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key([u8; KEY_LEN]);

impl Key {
    /// The key of a frame.
    pub fn new(headers: &Headers) -> Self {
        let mut bytes = [0; KEY_LEN];
        let (outer, misc) = bytes.split_at_mut(KEY_LEN / 2);
        if let Some(mut outer) = Mut::new(outer) {
            fill_outer(&mut outer, headers);
        }
        if let Some(mut misc) = Mut::new(misc) {
            fill_misc(&mut misc, headers);
        }
        Self(bytes)
    }
}

fn fill_outer(outer: &mut Mut<'_, ifc::fte_match_set_lyr_2_4>, headers: &Headers) {
    let wide = |mac: &[u8; 6]| {
        mac.iter()
            .fold(0u64, |all, byte| all << 8 | u64::from(*byte))
    };
    let (dmac, smac) = (wide(&headers.dmac), wide(&headers.smac));
    outer
        .set(field!(fte_match_set_lyr_2_4, smac_47_16), smac >> 16)
        .set(field!(fte_match_set_lyr_2_4, smac_15_0), smac & 0xffff)
        .set(field!(fte_match_set_lyr_2_4, dmac_47_16), dmac >> 16)
        .set(field!(fte_match_set_lyr_2_4, dmac_15_0), dmac & 0xffff)
        .set(
            field!(fte_match_set_lyr_2_4, ethertype),
            headers.ethertype.into(),
        );
    if let Some(tag) = headers.tags[0] {
        outer
            .set(
                field!(fte_match_set_lyr_2_4, first_prio),
                u64::from(tag.tci >> 13),
            )
            .set(
                field!(fte_match_set_lyr_2_4, first_cfi),
                u64::from(tag.tci >> 12 & 1),
            )
            .set(
                field!(fte_match_set_lyr_2_4, first_vid),
                u64::from(tag.tci & 0xfff),
            )
            .set_flag(
                field!(fte_match_set_lyr_2_4, cvlan_tag),
                tag.tpid == ethertype::CVLAN,
            )
            .set_flag(
                field!(fte_match_set_lyr_2_4, svlan_tag),
                tag.tpid == ethertype::SVLAN,
            );
    }
    let Some(ip) = headers.ip else { return };
    let version = match ip.version {
        Version::V4 => 4,
        Version::V6 => 6,
    };
    outer
        .set(field!(fte_match_set_lyr_2_4, ip_version), version)
        .set(
            field!(fte_match_set_lyr_2_4, ip_protocol),
            ip.protocol.into(),
        )
        .set(
            field!(fte_match_set_lyr_2_4, ip_dscp),
            u64::from(ip.traffic_class >> 2),
        )
        .set(
            field!(fte_match_set_lyr_2_4, ip_ecn),
            u64::from(ip.traffic_class & 3),
        )
        .set(field!(fte_match_set_lyr_2_4, ipv4_ihl), ip.ihl.into())
        .set(field!(fte_match_set_lyr_2_4, ttl_hoplimit), ip.ttl.into())
        .set_flag(field!(fte_match_set_lyr_2_4, frag), ip.fragment);
    outer
        .raw(span!(fte_match_set_lyr_2_4, src_ipv4_src_ipv6))
        .copy_from_slice(&ip.src);
    outer
        .raw(span!(fte_match_set_lyr_2_4, dst_ipv4_dst_ipv6))
        .copy_from_slice(&ip.dst);
    match headers.l4 {
        Some(L4::Tcp {
            sport,
            dport,
            flags,
            ..
        }) => {
            outer
                .set(field!(fte_match_set_lyr_2_4, tcp_sport), sport.into())
                .set(field!(fte_match_set_lyr_2_4, tcp_dport), dport.into())
                .set(field!(fte_match_set_lyr_2_4, tcp_flags), flags.into());
        }
        Some(L4::Udp { sport, dport }) => {
            outer
                .set(field!(fte_match_set_lyr_2_4, udp_sport), sport.into())
                .set(field!(fte_match_set_lyr_2_4, udp_dport), dport.into());
        }
        _ => {}
    }
}

fn fill_misc(misc: &mut Mut<'_, ifc::fte_match_set_misc>, headers: &Headers) {
    if let Some(tag) = headers.tags[1] {
        misc.set(
            field!(fte_match_set_misc, outer_second_prio),
            u64::from(tag.tci >> 13),
        )
        .set(
            field!(fte_match_set_misc, outer_second_cfi),
            u64::from(tag.tci >> 12 & 1),
        )
        .set(
            field!(fte_match_set_misc, outer_second_vid),
            u64::from(tag.tci & 0xfff),
        )
        .set_flag(
            field!(fte_match_set_misc, outer_second_cvlan_tag),
            tag.tpid == ethertype::CVLAN,
        )
        .set_flag(
            field!(fte_match_set_misc, outer_second_svlan_tag),
            tag.tpid == ethertype::SVLAN,
        );
    }
    if let Some(ip) = headers.ip {
        misc.set(
            field!(fte_match_set_misc, outer_ipv6_flow_label),
            ip.flow_label.into(),
        );
        if let (protocol::ESP, Some(L4::Ipsec { spi })) = (ip.protocol, headers.l4) {
            misc.set(field!(fte_match_set_misc, outer_esp_spi), spi.into());
        }
    }
}

/// Which bits of a key count: the mask of a flow group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    bytes: [u8; KEY_LEN],
    enable: u8,
}

/// A mask asks for something that the parser does not deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// `match_criteria_enable` names a parameter set the card does not have.
    #[error("match criteria {0:#x} are not supported")]
    Criteria(u8),
    /// A mask bit lies in a set that is not enabled or in a field that is not supported.
    #[error("match mask byte {at:#x} has unsupported bits {bits:#x}")]
    Field {
        /// Byte offset in `fte_match_param`.
        at: usize,
        /// The bits.
        bits: u8,
    },
}

impl Mask {
    /// Parses `match_criteria` with its enable byte.
    ///
    /// # Errors
    /// [`MaskError`] for what the card cannot match on.
    pub fn parse(param: &[u8], enable: u8) -> Result<Self, MaskError> {
        if enable & !(criteria::OUTER | criteria::MISC) != 0 {
            return Err(MaskError::Criteria(enable));
        }
        let supported = supported();
        for (at, byte) in param.iter().enumerate() {
            let set = if at < KEY_LEN / 2 {
                criteria::OUTER
            } else {
                criteria::MISC
            };
            let allowed = match supported.get(at) {
                Some(allowed) if enable & set != 0 => *allowed,
                _ => 0,
            };
            if byte & !allowed != 0 {
                return Err(MaskError::Field {
                    at,
                    bits: byte & !allowed,
                });
            }
        }
        let mut bytes = [0; KEY_LEN];
        for (to, from) in bytes.iter_mut().zip(param) {
            *to = *from;
        }
        Ok(Self { bytes, enable })
    }

    /// `match_criteria_enable`.
    pub fn enable(&self) -> u8 {
        self.enable
    }

    /// The mask itself; the rest of `match_criteria` is zero.
    pub fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.bytes
    }

    /// The bits of a match value that count.
    pub fn value(&self, param: &[u8]) -> Value {
        let mut value = [0; KEY_LEN];
        for ((to, mask), from) in value.iter_mut().zip(&self.bytes).zip(param) {
            *to = mask & from;
        }
        Value(value)
    }

    /// The value that a frame has under this mask: it matches the entry with the same value.
    pub fn of(&self, key: &Key) -> Value {
        self.value(&key.0)
    }
}

/// The value of one flow table entry, or of a frame, under the mask of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value([u8; KEY_LEN]);

impl Value {
    /// The value; the rest of `match_value` is zero.
    pub fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

/// The bits that [`Key::new`] can set.
fn supported() -> [u8; KEY_LEN] {
    let mut bytes = [0; KEY_LEN];
    let (outer, misc) = bytes.split_at_mut(KEY_LEN / 2);
    macro_rules! ones {
        ($view:ident, $layout:ident, $($member:ident)+) => {
            $($view.set(field!($layout, $member), field!($layout, $member).max());)+
        };
    }
    if let Some(mut outer) = Mut::<ifc::fte_match_set_lyr_2_4>::new(outer) {
        ones!(outer, fte_match_set_lyr_2_4,
            smac_47_16 smac_15_0 ethertype dmac_47_16 dmac_15_0 first_prio first_cfi first_vid
            ip_protocol ip_dscp ip_ecn cvlan_tag svlan_tag frag ip_version tcp_flags tcp_sport
            tcp_dport ipv4_ihl ttl_hoplimit udp_sport udp_dport);
        outer
            .raw(span!(fte_match_set_lyr_2_4, src_ipv4_src_ipv6))
            .fill(0xff);
        outer
            .raw(span!(fte_match_set_lyr_2_4, dst_ipv4_dst_ipv6))
            .fill(0xff);
    }
    if let Some(mut misc) = Mut::<ifc::fte_match_set_misc>::new(misc) {
        ones!(misc, fte_match_set_misc,
            source_port outer_second_prio outer_second_cfi outer_second_vid outer_second_cvlan_tag
            outer_second_svlan_tag outer_ipv6_flow_label outer_esp_spi);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eth::testing::{frame_v4, frame_v6, tagged, DMAC};

    fn param(fill: impl FnOnce(&mut Mut<'_, ifc::fte_match_param>)) -> Vec<u8> {
        let mut bytes = vec![0; PARAM_LEN];
        fill(&mut Mut::new(&mut bytes).unwrap());
        bytes
    }

    fn key(frame: &[u8]) -> Key {
        Key::new(&Headers::parse(frame).unwrap())
    }

    #[test]
    fn ethertype_and_protocol_select_tcp_over_ipv4_only() {
        let both = |ethertype: u64, protocol: u64| {
            param(|all| {
                all.set(field!(fte_match_param, outer_headers.ethertype), ethertype)
                    .set(field!(fte_match_param, outer_headers.ip_protocol), protocol);
            })
        };
        let mask = Mask::parse(&both(0xffff, 0xff), criteria::OUTER).unwrap();
        let tcp4 = mask.value(&both(0x0800, 6));

        assert_eq!(mask.of(&key(&frame_v4(protocol::TCP, b""))), tcp4);
        assert_ne!(mask.of(&key(&frame_v4(protocol::UDP, b""))), tcp4);
        assert_ne!(mask.of(&key(&frame_v6(protocol::TCP, b""))), tcp4);
    }

    #[test]
    fn the_ethertype_behind_the_tag_counts() {
        let param = param(|all| {
            all.set(field!(fte_match_param, outer_headers.ethertype), 0x0800)
                .set(field!(fte_match_param, outer_headers.cvlan_tag), 1)
                .set(field!(fte_match_param, outer_headers.first_vid), 5);
        });
        let mask = {
            let mut ones = param.clone();
            Mut::<ifc::fte_match_param>::new(&mut ones)
                .unwrap()
                .set(field!(fte_match_param, outer_headers.ethertype), 0xffff)
                .set(field!(fte_match_param, outer_headers.first_vid), 0xfff);
            Mask::parse(&ones, criteria::OUTER).unwrap()
        };
        let value = mask.value(&param);
        let plain = frame_v4(protocol::TCP, b"");

        assert_eq!(mask.of(&key(&tagged(&plain, 0x8100, 0x2005))), value);
        assert_ne!(mask.of(&key(&tagged(&plain, 0x8100, 6))), value);
        assert_ne!(mask.of(&key(&tagged(&plain, 0x88a8, 5))), value);
        assert_ne!(mask.of(&key(&plain)), value);
    }

    #[test]
    fn multicast_bit_alone_can_be_matched() {
        let bit = param(|all| {
            all.set(
                field!(fte_match_param, outer_headers.dmac_47_16),
                0x0100_0000,
            );
        });
        let mask = Mask::parse(&bit, criteria::OUTER).unwrap();
        let value = mask.value(&bit);
        let unicast = frame_v4(protocol::UDP, b"");
        let mut multicast = unicast.clone();
        multicast[0] |= 1;

        assert_eq!(unicast[..6], DMAC);
        assert_eq!(mask.of(&key(&multicast)), value);
        assert_ne!(mask.of(&key(&unicast)), value);
    }

    #[test]
    fn a_mask_of_nothing_matches_everything() {
        let mask = Mask::parse(&[0; PARAM_LEN], 0).unwrap();
        let value = mask.value(&[0xff; PARAM_LEN]);

        assert_eq!(mask.of(&key(&frame_v6(protocol::UDP, b"x"))), value);
    }

    #[test]
    fn masks_beyond_the_parser_are_refused() {
        let inner = param(|all| {
            all.set(field!(fte_match_param, inner_headers.ethertype), 0xffff);
        });
        let tunnel = param(|all| {
            all.set(field!(fte_match_param, misc_parameters.vxlan_vni), 1);
        });
        let outer = param(|all| {
            all.set(field!(fte_match_param, outer_headers.ethertype), 0xffff);
        });

        assert_eq!(Mask::parse(&inner, 4).err(), Some(MaskError::Criteria(4)));
        assert!(Mask::parse(&inner, criteria::OUTER).is_err());
        assert!(Mask::parse(&tunnel, criteria::MISC).is_err());
        // A set that is not enabled must not have mask bits.
        assert!(Mask::parse(&outer, criteria::MISC).is_err());
    }
}
