// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Priorities of frames and the traffic classes they leave in (802.1Q), as QPTS, QPDPM, QTCT and QETCR set them.
//!
//! A frame has the priority of its VLAN tag or of its DSCP, as the port trusts the one or the other. The priority counts it
//! (PPCNT) and names its class. Frames never wait in the model, so shares and rates of classes are kept, not enforced.

use crate::{
    eth::frame::{ethertype, ETH_LEN, TAG_LEN},
    vport::Traffic,
};

/// Priorities, and the most traffic classes there can be.
pub const COUNT: usize = 8;

/// Values of a DSCP.
pub const CODE_POINTS: usize = 64;

/// The group of classes that are served as the vendor likes: shares say nothing there. Source:
/// `MLX5E_VENDOR_TC_GROUP_NUM` in core/en_dcbnl.c.
pub const VENDOR_GROUP: u8 = 7;

/// Which field of a frame the port believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The priority code point of the VLAN tag.
    Pcp,
    /// The DSCP of IP packets; the tag for the rest.
    Dscp,
}

/// Most that may pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// `MLX5_BW_NO_LIMIT`, `MLX5_100_MBPS_UNIT` or `MLX5_GBPS_UNIT`.
    pub unit: u8,
    /// So many units.
    pub value: u16,
}

/// How one traffic class is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Group: higher ones go first.
    pub group: u8,
    /// Share within the group, in percent.
    pub share: u8,
    /// Limit.
    pub rate: Rate,
}

/// All of it, for the one port.
#[derive(Clone, Debug)]
pub struct Priorities {
    /// What is believed.
    pub trust: Trust,
    /// Priority of each DSCP.
    pub of_code_point: [u8; CODE_POINTS],
    /// Class of each priority.
    pub class_of: [u8; COUNT],
    /// The classes.
    pub classes: [Class; COUNT],
    /// Limit of the port.
    pub rate: Rate,
    /// What has left in each class.
    pub sent: [Traffic; COUNT],
}

impl Default for Priorities {
    fn default() -> Self {
        let mut of_code_point = [0; CODE_POINTS];
        for (code_point, priority) in (0u8..).zip(&mut of_code_point) {
            // The upper half of a DSCP is the precedence of old.
            *priority = code_point >> 3;
        }
        Self {
            trust: Trust::Pcp,
            of_code_point,
            // IEEE 802.1Q, table of eight classes: background traffic (1) is below best effort (0).
            class_of: [1, 0, 2, 3, 4, 5, 6, 7],
            classes: [Class {
                group: VENDOR_GROUP,
                share: 100,
                rate: Rate::default(),
            }; COUNT],
            rate: Rate::default(),
            sent: Default::default(),
        }
    }
}

impl Priorities {
    /// Priority of a frame, 0 to 7, by as much of it as is `seen`, from the destination MAC on.
    pub fn of(&self, seen: &[u8]) -> u8 {
        let code_point = match self.trust {
            Trust::Pcp => None,
            Trust::Dscp => code_point(seen),
        };
        match code_point {
            Some(code_point) => self.of_code_point.get(usize::from(code_point)).copied(),
            None => of_tag(seen),
        }
        .unwrap_or(0)
    }

    /// The same by the headers of a RoCE packet.
    pub fn of_packet(&self, vlan: Option<roce::Vlan>, tos: u8) -> u8 {
        match self.trust {
            Trust::Pcp => vlan.map_or(0, |vlan| vlan.pcp),
            Trust::Dscp => {
                let priority = self.of_code_point.get(usize::from(tos >> 2));
                priority.copied().unwrap_or(0)
            }
        }
    }

    /// Counts a frame that leaves with this priority.
    pub fn leaves(&mut self, priority: u8, octets: usize) {
        let class = self.class_of.get(usize::from(priority)).copied();
        let class = usize::from(class.unwrap_or(0));
        if let Some(sent) = self.sent.get_mut(class) {
            sent.add(octets);
        }
    }

    /// Whether the shares of each group make a whole: what an ETS scheduler needs. The stock driver keeps to it
    /// (`mlx5e_build_tc_tx_bw` in core/en_dcbnl.c); the group at fault, if there is one.
    pub fn unbalanced(classes: &[Class]) -> Option<u8> {
        (0..VENDOR_GROUP).find(|group| {
            let members = classes.iter().filter(|class| class.group == *group);
            let (count, sum) = members.fold((0, 0), |(count, sum), class| {
                (count + 1, sum + u32::from(class.share))
            });
            count > 0 && sum != 100
        })
    }

    /// One line for a dump.
    pub fn describe(&self) -> String {
        let text = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(",");
        format!(
            "priorities: trust {} classes {} groups {} shares {} rates {} sent {}",
            match self.trust {
                Trust::Pcp => "pcp",
                Trust::Dscp => "dscp",
            },
            text(&mut self.class_of.iter().map(u8::to_string)),
            text(&mut self.classes.iter().map(|class| class.group.to_string())),
            text(&mut self.classes.iter().map(|class| class.share.to_string())),
            text(
                &mut self
                    .classes
                    .iter()
                    .map(|class| format!("{}x{}", class.rate.value, class.rate.unit))
            ),
            text(&mut self.sent.iter().map(|sent| sent.packets.to_string())),
        )
    }
}

fn half(frame: &[u8], at: usize) -> Option<u16> {
    match frame.get(at..at + 2)? {
        &[high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

/// The upper three bits of a customer tag.
fn of_tag(frame: &[u8]) -> Option<u8> {
    let tagged = half(frame, ETH_LEN - 2)? == ethertype::CVLAN;
    tagged.then_some(frame.get(ETH_LEN)? >> 5)
}

/// The DSCP of an IP packet behind at most two tags.
fn code_point(frame: &[u8]) -> Option<u8> {
    let mut at = ETH_LEN;
    for _ in 0..2 {
        match half(frame, at - 2)? {
            ethertype::CVLAN | ethertype::SVLAN => at += TAG_LEN,
            _ => break,
        }
    }
    match half(frame, at - 2)? {
        ethertype::IPV4 => Some(frame.get(at + 1)? >> 2),
        // Four bits of version, then the traffic class.
        ethertype::IPV6 => Some((half(frame, at)? >> 6) as u8 & 0x3f),
        _ => None,
    }
}
