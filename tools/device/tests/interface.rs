// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The opcodes of the header: each is implemented, or the table of the absent ones says why no
//! stock driver sends it to this card.

use std::collections::BTreeSet;

use device::{
    cmd::{
        absent::{Reason, ABSENT},
        registry,
    },
    profile::Profile,
    scaffold::driver::{Driver, Input},
};
use mlx5_hw::{ifc, status::Status};

const PROFILES: &[&str] = &["default", "minimal", "small", "degraded"];

/// Constants of that form that are no commands.
const MARKS: &[&str] = &[
    "MLX5_CMD_OP_MAX",
    "MLX5_CMD_OP_GENERAL_START",
    "MLX5_CMD_OP_GENERAL_END",
    "MLX5_CMD_OP_MOD_UPDATE_HEADER_MODIFY_ARGUMENT",
];

/// The opcodes of the header, out of the generated bindings (where build.rs finds them).
fn in_header() -> BTreeSet<u16> {
    let default = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../build/hw/mlx5_hw_bindings.rs"
    );
    let path = std::env::var("MLX5_HW_BINDINGS").unwrap_or_else(|_| default.to_owned());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let found: BTreeSet<u16> = text.lines().filter_map(opcode).collect();
    assert!(found.len() > 150, "{path}: {} opcodes", found.len());
    found
}

/// `pub const MLX5_CMD_OP_NOP: ... = 2061;`, and a few are called `MLX5_CMD_OPCODE_*`.
fn opcode(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("pub const ")?;
    let (name, rest) = rest.split_once(':')?;
    if !name.starts_with("MLX5_CMD_OP_") && !name.starts_with("MLX5_CMD_OPCODE_") {
        return None;
    }
    let (_, value) = rest.trim_end_matches(';').split_once("= ")?;
    (!MARKS.contains(&name)).then(|| value.parse().expect("opcodes are 16 bits wide"))
}

fn implemented() -> BTreeSet<u16> {
    registry::all().map(|entry| entry.opcode).collect()
}

fn absent() -> BTreeSet<u16> {
    ABSENT.iter().map(|one| one.opcode as u16).collect()
}

fn names(opcodes: impl IntoIterator<Item = u16>) -> Vec<String> {
    opcodes.into_iter().map(registry::name).collect()
}

#[test]
fn every_opcode_of_the_header_is_implemented_or_explained_not_both() {
    let (known, explained) = (implemented(), absent());
    let covered: BTreeSet<u16> = known.union(&explained).copied().collect();
    assert_eq!(names(&in_header() - &covered), [""; 0], "neither");
    assert_eq!(names(&covered - &in_header()), [""; 0], "not in the header");
    assert_eq!(names(&known & &explained), [""; 0], "both");
    assert_eq!(explained.len(), ABSENT.len(), "an opcode stands twice");
    println!("{} implemented, {} absent", known.len(), explained.len());
}

/// Both sets of a profile: what is in force, and what could be.
fn value(profile: &Profile, path: &str) -> Vec<u64> {
    let (group, field) = path.split_once('.').unwrap();
    let (_, layout) = device::caps::group(group).unwrap_or_else(|| panic!("no group {group}"));
    assert!(layout.find(field).is_some(), "{group} has no {field}");
    [&profile.caps, &profile.max_caps]
        .iter()
        .filter_map(|caps| caps.get(group)?.get(field).copied())
        .collect()
}

#[test]
fn no_profile_offers_what_would_bring_an_absent_command() {
    for name in PROFILES {
        let profile = Profile::shipped(name).unwrap();
        for one in ABSENT {
            let command = registry::name(one.opcode as u16);
            match one.reason {
                Reason::Capability(caps) => {
                    assert!(!caps.is_empty(), "{command}: no capability named");
                    for cap in caps {
                        let offered = value(&profile, cap).iter().any(|value| *value != 0);
                        assert!(!offered, "{name} has {cap}, but {command} is not there");
                    }
                }
                Reason::Value(cap, bad) => {
                    let values = value(&profile, cap);
                    assert!(
                        !values.is_empty() && !values.contains(&bad),
                        "{command}: {cap}"
                    );
                }
                Reason::Uncalled | Reason::Unreachable(_) => {}
            }
        }
    }
}

#[test]
fn absent_commands_are_bad_op() {
    let mut driver = Driver::up(Profile::shipped("default").unwrap());
    for one in ABSENT {
        let input = Input::<ifc::alloc_pd_in>::new(one.opcode);
        let (status, code) = driver.refused(input, 16);
        assert_eq!((status, code), (Status::BadOp, 0xf001));
    }
}
