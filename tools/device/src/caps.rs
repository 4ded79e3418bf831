// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities: what the card can do (max) and what the driver has chosen of it (current).

use std::collections::BTreeMap;

use mlx5_hw::{
    field,
    field::{Field, Ref},
    ifc,
};

use crate::{
    hca::Hca,
    layout::{set_bits_at, Described, Layout},
    profile::Profile,
};

/// Length of one group in QUERY_HCA_CAP and SET_HCA_CAP, in bytes.
pub const GROUP_BYTES: usize = mlx5_hw::field::bytes_of::<ifc::hca_cap_union>();

/// A capability layout and its number (`enum mlx5_cap_type` in include/linux/mlx5/device.h).
pub trait Group: Described {
    /// The number.
    const TYPE: u16;
}

macro_rules! groups {
    ($($layout:ident = $number:expr,)+) => {
        $(impl Group for ifc::$layout { const TYPE: u16 = $number; })+

        /// Number and layout of a group by its ifc name, as profiles write it.
        pub fn group(name: &str) -> Option<(u16, &'static Layout)> {
            match name {
                $(stringify!($layout) => Some(($number, <ifc::$layout as Described>::LAYOUT)),)+
                _ => None,
            }
        }
    };
}

groups! {
    cmd_hca_cap = 0x0,
    per_protocol_networking_offload_caps = 0x1,
    atomic_caps = 0x3,
    roce_cap = 0x4,
    flow_table_nic_cap = 0x7,
}

/// Both sets of one group.
#[derive(Clone, Debug)]
struct Values {
    max: Vec<u8>,
    current: Vec<u8>,
}

/// All groups the profile has.
#[derive(Clone, Debug)]
pub struct Caps {
    groups: BTreeMap<u16, Values>,
}

impl Caps {
    /// The sets of a fresh function: current is what the profile says, and so is max unless the
    /// profile has a different maximum.
    pub fn new(profile: &Profile) -> Self {
        let mut groups = BTreeMap::new();
        for (name, fields) in &profile.caps {
            let Some((number, layout)) = group(name) else {
                continue;
            };
            let mut current = vec![0; GROUP_BYTES];
            put(layout, &mut current, fields);
            let mut max = current.clone();
            if let Some(fields) = profile.max_caps.get(name) {
                put(layout, &mut max, fields);
            }
            groups.insert(number, Values { max, current });
        }
        Self { groups }
    }

    /// A field in force; 0 when the group is not offered.
    pub fn get<L: Group>(&self, field: Field<L>) -> u64 {
        self.groups
            .get(&L::TYPE)
            .and_then(|values| Ref::<L>::new(&values.current))
            .map_or(0, |caps| caps.get(field))
    }

    /// Whether a one-bit field is in force.
    pub fn has<L: Group>(&self, field: Field<L>) -> bool {
        self.get(field) != 0
    }

    /// The largest value a field may get.
    pub fn max<L: Group>(&self, field: Field<L>) -> u64 {
        self.groups
            .get(&L::TYPE)
            .and_then(|values| Ref::<L>::new(&values.max))
            .map_or(0, |caps| caps.get(field))
    }

    /// `1 << field`, for the many fields that are logarithms.
    pub fn pow<L: Group>(&self, field: Field<L>) -> u64 {
        1u64.checked_shl(self.get(field) as u32).unwrap_or(u64::MAX)
    }

    /// The raw bytes of a group.
    pub fn raw(&self, group: u16, max: bool) -> Option<&[u8]> {
        let values = self.groups.get(&group)?;
        Some(if max { &values.max } else { &values.current })
    }

    /// Replaces what is in force of a group.
    pub fn set_raw(&mut self, group: u16, current: &[u8]) {
        if let Some(values) = self.groups.get_mut(&group) {
            values.current = current.to_vec();
        }
    }
}

fn put(layout: &Layout, bytes: &mut [u8], fields: &BTreeMap<String, u64>) {
    for (name, value) in fields {
        if let Some((at, bits)) = layout.find(name) {
            set_bits_at(bytes, at, bits, *value);
        }
    }
}

/// Whether commands carry checksums that both sides verify.
pub fn checksums_on(hca: &Hca) -> bool {
    hca.caps.get(field!(cmd_hca_cap, cmdif_checksum)) == 3
}
