// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The opcodes and registers of the header: each is implemented, or the table of the absent ones says
//! why no stock driver sends it to this card.

use std::collections::BTreeSet;

use device::{
    cmd::{
        absent::{Reason, ABSENT},
        registry,
    },
    profile::Profile,
    register::{self, absent as registers},
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

/// What `find` makes of the lines of the generated bindings (where build.rs finds them).
fn in_bindings(least: usize, find: fn(&str) -> Option<u16>) -> BTreeSet<u16> {
    let default = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../build/hw/mlx5_hw_bindings.rs"
    );
    let path = std::env::var("MLX5_HW_BINDINGS").unwrap_or_else(|_| default.to_owned());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let found: BTreeSet<u16> = text.lines().filter_map(find).collect();
    assert!(found.len() > least, "{path}: {} found", found.len());
    found
}

/// The opcodes of the header.
fn in_header() -> BTreeSet<u16> {
    in_bindings(150, opcode)
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

/// `pub const MLX5_REG_QPTS: ... = 16386;`
fn register_id(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("pub const MLX5_REG_")?;
    let (_, value) = rest.trim_end_matches(';').split_once("= ")?;
    Some(value.parse().expect("registers have numbers of 16 bits"))
}

#[test]
fn every_register_of_the_header_is_there_or_explained_not_both() {
    let header = in_bindings(60, register_id);
    let explained: BTreeSet<u16> = registers::ABSENT.iter().map(|one| one.id as u16).collect();
    assert_eq!(explained.len(), registers::ABSENT.len(), "one stands twice");
    for id in &header {
        let there = register::exists((*id).into());
        assert_ne!(there, explained.contains(id), "register {id:#x}");
    }
    let unknown: Vec<u16> = explained.difference(&header).copied().collect();
    assert_eq!(unknown, [0; 0], "not in the header");
}

#[test]
fn no_profile_offers_what_would_bring_an_access_to_an_absent_register() {
    for name in PROFILES {
        let profile = Profile::shipped(name).unwrap();
        for one in registers::ABSENT {
            let registers::Reason::Capability(caps) = one.reason else {
                continue;
            };
            assert!(!caps.is_empty(), "{:#x}: no capability named", one.id);
            for cap in caps {
                let offered = value(&profile, cap).iter().any(|value| *value != 0);
                assert!(!offered, "{name} has {cap}, but {:#x} is not there", one.id);
            }
        }
    }
}

/// All registers are one command, whose refusals are told apart by their reasons.
#[test]
fn no_two_refusals_of_registers_have_the_same_reason() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/src/register");
    let mut seen = BTreeSet::new();
    for file in std::fs::read_dir(place).expect(place) {
        let path = file.expect(place).path();
        let text = std::fs::read_to_string(&path).expect("source");
        for call in text.split("refuse!(").skip(1) {
            let reason = call.split(',').nth(1).map(str::trim).unwrap_or_default();
            assert!(seen.insert(reason.to_owned()), "{path:?}: {reason} again");
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
}

#[test]
fn absent_registers_are_a_bad_parameter() {
    let mut driver = Driver::up(Profile::shipped("default").unwrap());
    for one in registers::ABSENT {
        for read in [false, true] {
            let input = Input::register(one.id.into(), read, &[0; 64]);
            assert_eq!(driver.refused(input, 80), (Status::BadParam, 1));
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
