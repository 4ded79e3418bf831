// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capabilities: what the card can do (max) and what the driver has chosen of it (current).

use std::collections::BTreeMap;

use mlx5_hw::{
    field,
    field::{Field, Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Needs, Refused},
    hca::Hca,
    layout::{bits_at, set_bits_at, Described, Layout},
    profile::Profile,
    refuse,
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

        fn layout_of(group: u16) -> Option<&'static Layout> {
            match group {
                $($number => Some(<ifc::$layout as Described>::LAYOUT),)+
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
    qos_cap = 0xc,
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

/// Fields that SET_HCA_CAP may change, by group. The others may only be echoed.
fn writable(group: u16, name: &str) -> bool {
    match group {
        <ifc::cmd_hca_cap as Group>::TYPE => matches!(
            name,
            "pkey_table_size"
                | "log_max_qp"
                | "cmdif_checksum"
                | "log_uar_page_sz"
                | "log_max_current_uc_list"
        ),
        <ifc::atomic_caps as Group>::TYPE => name == "atomic_req_8B_endianness_mode",
        <ifc::roce_cap as Group>::TYPE => name == "sw_r_roce_src_udp_port",
        _ => false,
    }
}

/// What an input of SET_HCA_CAP changes: name of the group, then each field whose value is not the
/// one in force.
pub fn describe_set(hca: &Hca, input: &[u8]) -> String {
    let Some(set) = Ref::<ifc::set_hca_cap_in>::new(input) else {
        return String::new();
    };
    let wanted = set.raw(span!(set_hca_cap_in, capability));
    let op_mod = set.get(field!(set_hca_cap_in, op_mod));
    let (group, _) = selection(op_mod);
    let (Some(values), Some(layout)) = (hca.caps.groups.get(&group), layout_of(group)) else {
        return format!("op_mod={op_mod:#x}");
    };
    let mut words = layout.name.to_owned();
    for (name, at, bits) in layout.leaves() {
        let (value, now) = (
            bits_at(wanted, at, bits.min(64)),
            bits_at(&values.current, at, bits.min(64)),
        );
        if value != now {
            words.push_str(&format!(" {name}={value:#x}"));
        }
    }
    words
}

/// Group and set of an op_mod.
fn selection(op_mod: u64) -> (u16, bool) {
    // CAST: op_mod has 16 bits.
    ((op_mod >> 1) as u16, op_mod & 1 == 0)
}

/// QUERY_HCA_CAP.
pub struct QueryHcaCap;

impl Command for QueryHcaCap {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_HCA_CAP;
    type In = ifc::query_hca_cap_in;
    type Out = ifc::query_hca_cap_out;
    const NEEDS: Needs = Needs::Enabled;

    fn op_mod(_op_mod: u16) -> bool {
        true
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.flag(field!(query_hca_cap_in, other_function))
            || input.flag(field!(query_hca_cap_in, ec_vf_function))
            || input.flag(field!(query_hca_cap_in, function_id_type))
            || input.flag(field!(query_hca_cap_in, function_id))
        {
            refuse!(BadParam, 1, "capabilities of another function");
        }
        let (group, max) = selection(input.get(field!(query_hca_cap_in, op_mod)));
        let Some(values) = hca.caps.raw(group, max) else {
            refuse!(BadParam, 2, "capability group {group:#x} is not offered");
        };
        output
            .raw(span!(query_hca_cap_out, capability))
            .copy_from_slice(values);
        Ok(())
    }
}

/// SET_HCA_CAP.
pub struct SetHcaCap;

impl Command for SetHcaCap {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_HCA_CAP;
    type In = ifc::set_hca_cap_in;
    type Out = ifc::set_hca_cap_out;
    const NEEDS: Needs = Needs::EnabledOnly;

    fn op_mod(op_mod: u16) -> bool {
        op_mod & 1 == 0
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.flag(field!(set_hca_cap_in, other_function))
            || input.flag(field!(set_hca_cap_in, ec_vf_function))
            || input.flag(field!(set_hca_cap_in, function_id_type))
            || input.flag(field!(set_hca_cap_in, function_id))
        {
            refuse!(BadParam, 1, "capabilities of another function");
        }
        let (group, _) = selection(input.get(field!(set_hca_cap_in, op_mod)));
        let (Some(values), Some(layout)) = (hca.caps.groups.get(&group), layout_of(group)) else {
            refuse!(BadParam, 2, "capability group {group:#x} is not offered");
        };
        let wanted = input.raw(span!(set_hca_cap_in, capability));
        let mut current = values.current.clone();
        for (name, at, bits) in layout.leaves() {
            if bits > 64 {
                continue;
            }
            let value = bits_at(wanted, at, bits);
            let now = bits_at(&values.current, at, bits);
            if value == now {
                continue;
            }
            let max = bits_at(&values.max, at, bits);
            if writable(group, &name) {
                if value > max {
                    refuse!(BadParam, 3, "{name} = {value:#x}, the maximum is {max:#x}");
                }
                set_bits_at(&mut current, at, bits, value);
            } else if group != <ifc::atomic_caps as Group>::TYPE || value != 0 {
                // The stock driver sends only the field it sets of the atomic group
                // (handle_hca_cap_atomic in core/main.c): there a zero means "leave it".
                refuse!(BadParam, 4, "{name} = {value:#x} is read-only and {now:#x}");
            }
        }
        hca.caps.set_raw(group, &current);
        let log_qps = hca.caps.get(field!(cmd_hca_cap, log_max_qp));
        hca.qps.set_limit(1 << log_qps.min(24));
        Ok(())
    }
}
