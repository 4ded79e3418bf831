// SPDX-License-Identifier: GPL-2.0
//! Owners of numbers: against a map that is known to be right, for dense and sparse numbers.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::eq::table::{Page, Refusal, Spare, Table, WIDTH};

/// What a caller allocates between two tries.
fn nothing() -> Spare<u64> {
    Spare {
        directory: Vec::new(),
        slots: None,
    }
}

/// Inserts as the driver does. The number of things that were missing.
fn insert(table: &mut Table<u64>, number: u32, owner: u64) -> Result<usize, Refusal> {
    let mut spare = nothing();
    for missing in 0..=2 {
        match table.insert(number, owner, &mut spare) {
            Ok(()) => return Ok(missing),
            Err((refusal, back)) => {
                assert_eq!(back, owner);
                match refusal {
                    Refusal::Directory(rows) => {
                        assert!(rows.is_power_of_two() && rows <= 1 << 16);
                        spare.directory = (0..rows).map(|_| None).collect();
                    }
                    Refusal::Page => spare.slots = Some(Box::new([const { None }; WIDTH])),
                    other => return Err(other),
                }
            }
        }
    }
    panic!("{number:#x}: never enough");
}

fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0u32..600,
        2 => (0u32..1 << 16).prop_map(|row| row * 256),
        1 => 0u32..1 << 24,
        1 => Just((1 << 24) - 1),
    ]
}

proptest! {
    #[test]
    fn answers_as_a_map(steps in prop::collection::vec((any_number(), 0u8..3, any::<u64>()), 1..200)) {
        let mut table = Table::default();
        let mut map = BTreeMap::new();
        for (number, what, owner) in steps {
            if what == 0 {
                let (gone, page) = table.remove(number);
                prop_assert_eq!(gone, map.remove(&number));
                let row = number / 256 * 256;
                let last = map.range(row..=row + 255).next().is_none();
                prop_assert_eq!(page.is_some(), gone.is_some() && last);
            } else {
                match insert(&mut table, number, owner) {
                    Ok(_) => prop_assert_eq!(map.insert(number, owner), None),
                    Err(refusal) => {
                        prop_assert_eq!(refusal, Refusal::Taken);
                        prop_assert!(map.contains_key(&number));
                    }
                }
            }
            for near in [number ^ 1, number, number ^ 256] {
                prop_assert_eq!(table.get(near), map.get(&near));
            }
        }
        for (number, owner) in &map {
            prop_assert_eq!(table.get(*number), Some(owner));
        }
    }
}

#[test]
fn dense_numbers_need_a_page_each_256() {
    let mut table = Table::default();
    let missing: usize = (0..4096)
        .map(|number| insert(&mut table, number, number.into()).expect("free"))
        .sum();
    // 16 pages, and a directory of 1, 2, 4, 8 and 16 rows.
    assert_eq!(missing, 16 + 5);
    let pages: Vec<Page<u64>> = (0..4096)
        .filter_map(|number| table.remove(number).1)
        .collect();
    assert_eq!(pages.len(), 16);
    assert!((0..4096).all(|number| table.get(number).is_none()));
}

#[test]
fn numbers_of_more_than_24_bits_are_refused() {
    let mut table = Table::default();
    for number in [1 << 24, u32::MAX] {
        assert_eq!(insert(&mut table, number, 1), Err(Refusal::TooLarge));
        assert!(table.get(number).is_none());
        assert_eq!(table.remove(number).0, None);
    }
}

#[test]
fn a_page_that_came_meanwhile_is_used() {
    let mut table = Table::default();
    insert(&mut table, 1, 1).expect("free");
    let mut spare = Spare {
        directory: (0..4).map(|_| None).collect(),
        slots: Some(Box::new([const { None }; WIDTH])),
    };
    assert_eq!(table.insert(2, 2, &mut spare), Ok(()));
    assert!(spare.slots.is_some() && spare.directory.len() == 4);
    assert_eq!((table.get(1), table.get(2)), (Some(&1), Some(&2)));
}
