// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The walk of frames through tables, and what the tree refuses.

mod naive;

use super::key::{criteria, Key, Mask, PARAM_LEN};
use super::table::{Action, Destination, Entry, Miss};
use super::tree::{Change, FlowError, Hit, Limits, Tree, Update};
use crate::eth::frame::{protocol, Headers};
use crate::eth::testing::{frame_v4, frame_v6};
use mlx5_hw::status::Status;
use mlx5_hw::{field, field::Mut, ifc};

const LIMITS: Limits = Limits {
    log_max_ft_size: 16,
    log_max_ft_num: 4,
    log_max_destination: 1,
    log_max_flow_counter: 0,
    flow_counter: true,
    flow_modify_en: true,
    modify_root: true,
    identified_miss_table_mode: true,
    flow_table_modify: true,
};

fn ethertype(value: u16) -> Vec<u8> {
    let mut bytes = vec![0; PARAM_LEN];
    Mut::<ifc::fte_match_param>::new(&mut bytes).unwrap().set(
        field!(fte_match_param, outer_headers.ethertype),
        value.into(),
    );
    bytes
}

fn by_ethertype() -> Mask {
    Mask::parse(&ethertype(0xffff), criteria::OUTER).unwrap()
}

fn anything() -> Mask {
    Mask::parse(&[0; PARAM_LEN], 0).unwrap()
}

fn entry(tree: &Tree, table: u32, group: u32, value: &[u8], action: Action) -> Entry {
    Entry {
        group,
        value: tree.group(table, group).unwrap().mask.value(value),
        tag: 7,
        action,
        counters: Vec::new(),
    }
}

fn to_tir(tirn: u32) -> Action {
    Action::Forward(vec![Destination::Tir(tirn)])
}

fn update(tag: u32, action: Action) -> Update {
    Update {
        tag,
        action,
        counters: Vec::new(),
    }
}

fn v4() -> Key {
    Key::new(&Headers::parse(&frame_v4(protocol::UDP, b"x")).unwrap())
}

fn v6() -> Key {
    Key::new(&Headers::parse(&frame_v6(protocol::UDP, b"x")).unwrap())
}

/// Table at level 5: IPv4 to TIR 1, all else by a catch-all at the last index to TIR 2.
fn two_rules() -> (Tree, u32, u32, u32) {
    let mut tree = Tree::default();
    let table = tree.create_table(5, 4, Miss::Default, &LIMITS).unwrap();
    let rest = tree.create_group(table, 15, 15, anything()).unwrap();
    let typed = tree.create_group(table, 0, 7, by_ethertype()).unwrap();
    let all = entry(&tree, table, rest, &[], to_tir(2));
    tree.add_entry(table, 15, all, &LIMITS).unwrap();
    let ip = entry(&tree, table, typed, &ethertype(0x0800), to_tir(1));
    tree.add_entry(table, 3, ip, &LIMITS).unwrap();
    tree.set_root(table, &LIMITS).unwrap();
    (tree, table, typed, rest)
}

#[test]
fn the_lowest_matching_index_wins() {
    let (tree, ..) = two_rules();

    assert_eq!(tree.walk(&v4()).hits, [Hit { tirn: 1, tag: 7 }]);
    assert_eq!(tree.walk(&v6()).hits, [Hit { tirn: 2, tag: 7 }]);
}

#[test]
fn without_root_or_match_a_frame_is_dropped() {
    let mut tree = Tree::default();
    assert!(tree.walk(&v4()).hits.is_empty());

    let table = tree.create_table(0, 0, Miss::Default, &LIMITS).unwrap();
    tree.set_root(table, &LIMITS).unwrap();
    assert!(tree.walk(&v4()).hits.is_empty());
}

#[test]
fn misses_and_forwards_lead_to_later_tables() {
    let (mut tree, last, ..) = two_rules();
    let first = tree.create_table(2, 2, Miss::Table(last), &LIMITS).unwrap();
    tree.set_root(first, &LIMITS).unwrap();
    assert_eq!(tree.walk(&v6()).hits, [Hit { tirn: 2, tag: 7 }]);

    let group = tree.create_group(first, 0, 0, anything()).unwrap();
    let jump = Action::Forward(vec![Destination::Table(last), Destination::Tir(9)]);
    let jump = entry(&tree, first, group, &[], jump);
    tree.add_entry(first, 0, jump, &LIMITS).unwrap();

    let tirs: Vec<_> = tree.walk(&v4()).hits.iter().map(|hit| hit.tirn).collect();
    assert_eq!(tirs, [9, 1]);
}

#[test]
fn a_modified_entry_keeps_what_was_not_named() {
    let (mut tree, table, ..) = two_rules();
    let change = |action, tag, destinations| Change {
        action,
        tag,
        destinations,
        counters: false,
    };

    tree.modify_entry(
        table,
        3,
        change(false, true, false),
        update(99, to_tir(5)),
        &LIMITS,
    )
    .unwrap();
    assert_eq!(tree.walk(&v4()).hits, [Hit { tirn: 1, tag: 99 }]);

    tree.modify_entry(
        table,
        3,
        change(false, false, true),
        update(0, to_tir(5)),
        &LIMITS,
    )
    .unwrap();
    assert_eq!(tree.walk(&v4()).hits, [Hit { tirn: 5, tag: 99 }]);

    tree.modify_entry(
        table,
        3,
        change(true, false, false),
        update(0, Action::Drop),
        &LIMITS,
    )
    .unwrap();
    assert!(tree.walk(&v4()).hits.is_empty());
}

#[test]
fn links_never_lead_back() {
    let (mut tree, table, _, _) = two_rules();
    let level = |level| FlowError::Level {
        to: table,
        to_level: 5,
        level,
    };

    for same_or_later in [5, 6, 0x43] {
        let made = tree.create_table(same_or_later, 0, Miss::Table(table), &LIMITS);
        assert_eq!(made, Err(level(same_or_later)));
    }
    let later = tree.create_table(0x43, 0, Miss::Default, &LIMITS).unwrap();
    assert_eq!(
        tree.modify_miss(later, Miss::Table(table), &LIMITS),
        Err(level(0x43))
    );
}

#[test]
fn used_objects_stay() {
    let (mut tree, table, typed, rest) = two_rules();
    let first = tree
        .create_table(2, 2, Miss::Table(table), &LIMITS)
        .unwrap();
    let busy = |result: Result<(), FlowError>| result.unwrap_err().status();

    assert_eq!(busy(tree.destroy_table(table)), Status::ResBusy);
    assert_eq!(busy(tree.destroy_group(table, typed)), Status::ResBusy);

    tree.remove_entry(table, 3).unwrap();
    tree.remove_entry(table, 15).unwrap();
    tree.destroy_group(table, typed).unwrap();
    tree.destroy_group(table, rest).unwrap();
    assert_eq!(busy(tree.destroy_table(table)), Status::ResBusy);

    tree.destroy_table(first).unwrap();
    tree.destroy_table(table).unwrap();
    assert_eq!(tree.root(), None);
    assert!(tree.is_empty());
}

#[test]
fn limits_and_ranges_are_checked() {
    let (mut tree, table, typed, _) = two_rules();
    let status = |result: Result<u32, FlowError>| result.unwrap_err().status();

    assert_eq!(
        status(tree.create_table(1, 17, Miss::Default, &LIMITS)),
        Status::BadParam
    );
    for (start, end) in [(8, 16), (7, 9), (9, 8), (0, 15)] {
        let made = tree.create_group(table, start, end, anything());
        assert_eq!(status(made), Status::BadParam, "{start}..={end}");
    }
    let mut add = |index, action| {
        let entry = entry(&tree, table, typed, &ethertype(0x86dd), action);
        tree.add_entry(table, index, entry, &LIMITS)
            .unwrap_err()
            .status()
    };
    assert_eq!(add(8, to_tir(1)), Status::BadIndex);
    assert_eq!(add(3, to_tir(1)), Status::BadResState);
    assert_eq!(add(1, Action::Forward(vec![])), Status::BadParam);
    let three = Action::Forward(vec![Destination::Tir(1); 3]);
    assert_eq!(add(1, three), Status::BadParam);
    let nowhere = Action::Forward(vec![Destination::Table(0x999)]);
    assert_eq!(add(1, nowhere), Status::BadRes);

    while tree.len() < 16 {
        tree.create_table(9, 0, Miss::Default, &LIMITS).unwrap();
    }
    assert_eq!(
        status(tree.create_table(9, 0, Miss::Default, &LIMITS)),
        Status::Limit
    );
}

#[test]
fn counters_see_what_their_entry_hits_and_drops_are_no_misses() {
    let (mut tree, table, ..) = two_rules();
    let counting = Change {
        action: true,
        counters: true,
        ..Change::default()
    };
    let drop = Update {
        counters: vec![5],
        ..update(0, Action::Drop)
    };

    tree.modify_entry(table, 3, counting, drop, &LIMITS)
        .unwrap();

    let walk = tree.walk(&v4());
    assert_eq!((walk.dropped, walk.hits.len()), (true, 0));
    assert_eq!(walk.counters.into_iter().collect::<Vec<_>>(), [5]);
    let other = tree.walk(&v6());
    assert!(!other.dropped && other.counters.is_empty());
}

#[test]
fn an_entry_counts_with_as_many_counters_as_the_card_allows() {
    let (mut tree, table, ..) = two_rules();
    let counting = Change {
        counters: true,
        ..Change::default()
    };
    for (counters, limits) in [
        (vec![1, 2], LIMITS),
        (
            vec![1],
            Limits {
                flow_counter: false,
                ..LIMITS
            },
        ),
    ] {
        let more = Update {
            counters,
            ..update(0, Action::Drop)
        };
        let refused = tree.modify_entry(table, 3, counting, more, &limits);
        assert_eq!(refused.unwrap_err().status(), Status::BadParam);
    }
}

#[test]
fn what_the_capabilities_lack_is_refused() {
    let (mut tree, table, ..) = two_rules();
    let none = Limits {
        flow_modify_en: false,
        modify_root: false,
        identified_miss_table_mode: false,
        flow_table_modify: false,
        ..LIMITS
    };
    for refused in [
        tree.set_root(table, &none),
        tree.modify_miss(table, Miss::Default, &none),
        tree.modify_entry(table, 3, Change::default(), update(0, Action::Drop), &none)
            .map(drop),
    ] {
        assert_eq!(refused.unwrap_err().status(), Status::BadParam);
    }
    assert!(tree.create_table(1, 0, Miss::Table(table), &none).is_err());
}
