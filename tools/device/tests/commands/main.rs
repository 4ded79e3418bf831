// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command of the registry: its good path, how the shared checks refuse it, each reserved
//! bit, and what each of its fields can be refused for. A command without a recipe in `good` fails.

mod good;
mod objects;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use device::{
    cmd::{registry, registry::Entry, Needs},
    layout::{bits_at, set_bits_at},
};
use mlx5_hw::status::Status;
use world::{request, Request, World};

/// A card before the command, and the command.
fn ready(entry: &Entry) -> (World, Request) {
    let mut world = World::at(entry.needs);
    let request = good::good(&mut world, entry.name)
        .unwrap_or_else(|| panic!("{}: no recipe for its good path", entry.name));
    (world, request)
}

/// How the good path ends. An Ethernet port has no agent for a management packet.
fn outcome(name: &str) -> Status {
    match name {
        "MAD_IFC" => Status::BadPacket,
        _ => Status::Ok,
    }
}

#[test]
fn the_good_path_succeeds() {
    for entry in registry::all() {
        let (mut world, request) = ready(entry);
        let (status, code, _) = world.run(&request);
        let (name, line) = (entry.name, world.last());
        assert_eq!(status, outcome(name), "{name}: {code:#x}: {line}");
    }
}

/// Must be refused so, and leave no trace.
fn refused(world: &mut World, request: &Request, expected: (Status, u16), what: &str) {
    let before = world.state();
    let (status, code, _) = world.run(request);
    let name = request.entry.name;
    assert_eq!((status, code), expected, "{name}: {what}: {}", world.last());
    assert_eq!(world.state(), before, "{name}: {what}: something changed");
}

#[test]
fn lengths_uid_and_op_mod_are_checked_before_anything_else() {
    for entry in registry::all() {
        let (mut world, good) = ready(entry);
        let mut short = good.clone();
        short.bytes.truncate(entry.input.bytes() - 4);
        refused(
            &mut world,
            &short,
            (Status::BadInputLen, 0xf002),
            "short input",
        );
        let mut long = good.clone();
        // Not a whole element of any list.
        long.bytes.extend([0; 3]);
        if entry
            .input
            .list()
            .is_none_or(|(_, element)| element.step() > 1)
        {
            refused(
                &mut world,
                &long,
                (Status::BadInputLen, 0xf002),
                "long input",
            );
        }
        let mut room = good.clone();
        room.out_len = entry.output.bytes() - 4;
        refused(
            &mut world,
            &room,
            (Status::BadOutputLen, 0xf003),
            "short output",
        );
        if entry.input.find("uid").is_some() {
            let mut user = good.clone();
            user.bytes[3] = 1;
            refused(
                &mut world,
                &user,
                (Status::BadParam, 0xf004),
                "a user context",
            );
        }
        if !(entry.op_mod)(0x7ff0) {
            let other = good.clone().op_mod(0x7ff0);
            refused(&mut world, &other, (Status::BadOp, 0xf006), "op_mod");
        }
        let (status, ..) = world.run(&good);
        assert_eq!(
            status,
            outcome(entry.name),
            "{}: {}",
            entry.name,
            world.last()
        );
    }
}

#[test]
fn the_state_of_the_hca_is_checked() {
    for entry in registry::all() {
        let wrong: &[Needs] = match entry.needs {
            Needs::Nothing => &[],
            Needs::Enabled => &[Needs::Nothing],
            Needs::EnabledOnly => &[Needs::Nothing, Needs::Init],
            Needs::Init => &[Needs::Nothing, Needs::Enabled],
        };
        for stage in wrong {
            let mut world = World::at(*stage);
            let early = request(entry.name);
            refused(&mut world, &early, (Status::BadSysState, 0xf005), "state");
        }
    }
}

/// The reserved bits of an input, first bit of the layout first. Of long holes both ends, and some
/// between.
fn reserved(entry: &Entry) -> Vec<usize> {
    let mask = entry.input.reserved_mask(entry.input.bytes());
    let is = |bit: usize| {
        mask.get(bit / 8)
            .is_some_and(|byte| byte << (bit % 8) & 0x80 != 0)
    };
    let all = (0..mask.len() * 8).filter(|bit| is(*bit));
    all.filter(|bit| {
        let end = (1..=16).any(|near| !is(bit + near) || *bit < near || !is(bit - near));
        end || bit % 37 == 0
    })
    .collect()
}

#[test]
fn each_reserved_bit_is_refused_by_itself() {
    let mut bits = 0;
    for entry in registry::all() {
        let (mut world, good) = ready(entry);
        let before = world.state();
        for bit in reserved(entry) {
            let mut bad = good.clone();
            bad.bytes[bit / 8] ^= 0x80 >> (bit % 8);
            let (status, code, _) = world.run(&bad);
            let what = format!("{}: bit {bit:#x}", entry.name);
            assert_eq!((status, code), (Status::BadParam, 0xf007), "{what}");
            bits += 1;
        }
        assert_eq!(world.state(), before, "{}: something changed", entry.name);
        let (status, ..) = world.run(&good);
        assert_eq!(
            status,
            outcome(entry.name),
            "{}: after the refusals",
            entry.name
        );
    }
    println!("{bits} reserved bits");
    assert!(bits > 5_000);
}

/// Values that a field may not like.
fn unusual(now: u64, bits: u32) -> BTreeSet<u64> {
    let all = if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    let values = [0, all, now ^ 1, 1 << (bits - 1)];
    values.into_iter().filter(|value| *value != now).collect()
}

/// What a command was refused for, as `BadParam:0x3`.
type Refusals = BTreeMap<&'static str, BTreeSet<String>>;

/// Sets each field of each command to each unusual value. A refusal leaves the card as it was.
fn provoke() -> Refusals {
    let mut refusals = Refusals::new();
    for entry in registry::all() {
        let found = refusals.entry(entry.name).or_default();
        let (mut world, mut good) = ready(entry);
        for (name, at, bits) in entry.input.leaves() {
            if bits > 64 || matches!(name.as_str(), "opcode" | "op_mod" | "uid") {
                continue;
            }
            let now = bits_at(&good.bytes, at, bits);
            for value in unusual(now, bits) {
                let mut odd = good.clone();
                set_bits_at(&mut odd.bytes, at, bits, value);
                let before = world.state();
                let (status, code, _) = world.run(&odd);
                let what = format!("{} {name} = {value:#x}", entry.name);
                assert_ne!(status, Status::Internal, "{what}: {}", world.last());
                if status == Status::Ok {
                    // What it did may be in the way of the next; one more object is not.
                    if !["CREATE_", "ALLOC_", "QUERY_"]
                        .iter()
                        .any(|start| entry.name.starts_with(start))
                    {
                        (world, good) = ready(entry);
                    }
                } else {
                    assert_eq!(world.state(), before, "{what}: refused and changed");
                    found.insert(format!("{status:?}:{code:#x}"));
                }
            }
        }
    }
    refusals
}

/// `refusals.txt`: one line a command. With `UPDATE=1` the test writes it.
#[test]
fn fields_are_refused_for_the_reasons_on_record_and_refusals_change_nothing() {
    let text: String = provoke()
        .iter()
        .map(|(name, found)| {
            let list: Vec<&str> = found.iter().map(String::as_str).collect();
            format!("{name} {}", list.join(" ")).trim_end().to_owned() + "\n"
        })
        .collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/refusals.txt");
    let head = "# SPDX-License-Identifier: Apache-2.0 OR MIT\n\
                # Status and reason of each refusal that one field out of place can bring, by command.\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{head}{text}")).expect("the file can be written");
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    for (now, then) in text.lines().zip(recorded.lines().skip(2)) {
        assert_eq!(now, then);
    }
    assert_eq!(text.lines().count() + 2, recorded.lines().count());
}
