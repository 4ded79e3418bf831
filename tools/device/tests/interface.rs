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

/// Marks in the enumeration that are no commands.
const MARKS: &[&str] = &[
    "MAX",
    "GENERAL_START",
    "GENERAL_END",
    "MOD_UPDATE_HEADER_MODIFY_ARGUMENT",
];

fn in_header() -> BTreeSet<u16> {
    (0..=u16::MAX)
        .filter(|opcode| mlx5_hw::opcode_name(*opcode).is_some_and(|name| !MARKS.contains(&name)))
        .collect()
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
