// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The walk against a matcher that looks at every entry, with fields it takes from the recipe of
//! the frame instead of the frame.

use super::*;
use crate::eth::testing::tagged;
use proptest::prelude::*;

/// What a frame is made of.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    v6: bool,
    tcp: bool,
    port: u16,
    vid: Option<u16>,
    mac: u16,
}

impl Recipe {
    fn key(self) -> Key {
        let kind = if self.tcp {
            protocol::TCP
        } else {
            protocol::UDP
        };
        let (mut frame, l4) = match self.v6 {
            true => (frame_v6(kind, b"x"), 54),
            false => (frame_v4(kind, b"x"), 34),
        };
        frame[l4 + 2..l4 + 4].copy_from_slice(&self.port.to_be_bytes());
        frame[4..6].copy_from_slice(&self.mac.to_be_bytes());
        if let Some(vid) = self.vid {
            frame = tagged(&frame, 0x8100, vid);
        }
        Key::new(&Headers::parse(&frame).unwrap())
    }
}

/// A field that a group may select.
#[derive(Clone, Copy, Debug)]
enum Field {
    Ethertype,
    Protocol,
    UdpPort,
    Vid,
    Mac,
}

impl Field {
    fn of(self, recipe: Recipe) -> u16 {
        match self {
            Self::Ethertype if recipe.v6 => 0x86dd,
            Self::Ethertype => 0x0800,
            Self::Protocol if recipe.tcp => 6,
            Self::Protocol => 17,
            Self::UdpPort if recipe.tcp => 0,
            Self::UdpPort => recipe.port,
            Self::Vid => recipe.vid.unwrap_or(0),
            Self::Mac => recipe.mac,
        }
    }

    fn put(self, bytes: &mut [u8], value: u16) {
        let mut param = Mut::<ifc::fte_match_param>::new(bytes).unwrap();
        let value = u64::from(value);
        match self {
            Self::Ethertype => param.set(field!(fte_match_param, outer_headers.ethertype), value),
            Self::Protocol => param.set(field!(fte_match_param, outer_headers.ip_protocol), value),
            Self::UdpPort => param.set(field!(fte_match_param, outer_headers.udp_dport), value),
            Self::Vid => param.set(field!(fte_match_param, outer_headers.first_vid), value),
            Self::Mac => param.set(field!(fte_match_param, outer_headers.dmac_15_0), value),
        };
    }
}

/// A field with its mask.
type Select = (Field, u16);

#[derive(Clone, Copy, Debug)]
enum Act {
    Drop,
    Tir(u32),
    /// To the table after this one, if there is one.
    Next,
}

#[derive(Clone, Debug)]
struct Rule {
    /// Which recipe gives the value: entries match something now and then.
    like: Recipe,
    index: u32,
    act: Act,
}

#[derive(Clone, Debug)]
struct Plan {
    /// Groups of four entries each.
    groups: Vec<(Vec<Select>, Vec<Rule>)>,
    /// A miss goes to the next table.
    passes: bool,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let vid = prop::option::of(1u16..4);
    (any::<bool>(), any::<bool>(), 0u16..4, vid, 0u16..4).prop_map(|(v6, tcp, port, vid, mac)| {
        Recipe {
            v6,
            tcp,
            port,
            vid,
            mac,
        }
    })
}

fn select() -> impl Strategy<Value = Select> {
    prop_oneof![
        Just((Field::Ethertype, 0xffff)),
        Just((Field::Ethertype, 0x8000)),
        Just((Field::Protocol, 0xff)),
        (1u16..4).prop_map(|mask| (Field::UdpPort, mask)),
        (1u16..4).prop_map(|mask| (Field::Vid, mask)),
        (1u16..4).prop_map(|mask| (Field::Mac, mask)),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let act = prop_oneof![
        Just(Act::Drop),
        (1u32..100).prop_map(Act::Tir),
        Just(Act::Next)
    ];
    (recipe(), 0u32..4, act).prop_map(|(like, index, act)| Rule { like, index, act })
}

fn plan() -> impl Strategy<Value = Plan> {
    let group = (
        prop::collection::vec(select(), 0..3),
        prop::collection::vec(rule(), 0..4),
    );
    (prop::collection::vec(group, 1..4), any::<bool>())
        .prop_map(|(groups, passes)| Plan { groups, passes })
}

/// One entry as the naive matcher keeps it.
struct Naive {
    index: u32,
    group: usize,
    rule: Rule,
}

/// The selected fields are combined: where a field is named twice, both masks count.
fn param(selects: &[Select], value: impl Fn(Field) -> u16) -> Vec<u8> {
    let mut bytes = vec![0; PARAM_LEN];
    let mut masks = std::collections::BTreeMap::new();
    for (field, mask) in selects {
        let all = masks.entry(*field as u8).or_insert((*field, 0));
        all.1 |= mask;
    }
    for (field, mask) in masks.into_values() {
        field.put(&mut bytes, value(field) & mask);
    }
    bytes
}

/// Builds the table behind which `next` stands; what the naive matcher knows of it.
fn build(tree: &mut Tree, level: u8, plan: &Plan, next: Option<u32>) -> (u32, Vec<Naive>) {
    let miss = match next.filter(|_| plan.passes) {
        Some(next) => Miss::Table(next),
        None => Miss::Default,
    };
    let table = tree.create_table(level, 4, miss, &LIMITS).unwrap();
    let mut known: Vec<Naive> = Vec::new();
    // The first group of the plan has the highest indexes: order of creation is not order.
    for (n, (selects, rules)) in plan.groups.iter().enumerate() {
        let start = 4 * (plan.groups.len() - 1 - n) as u32;
        let criteria = u8::from(!selects.is_empty());
        let mask = Mask::parse(&param(selects, |_| 0xffff), criteria).unwrap();
        let group = tree.create_group(table, start, start + 3, mask).unwrap();
        for rule in rules {
            let index = start + rule.index;
            let action = match (rule.act, next) {
                (Act::Tir(tirn), _) => to_tir(tirn),
                (Act::Next, Some(next)) => Action::Forward(vec![Destination::Table(next)]),
                (Act::Drop | Act::Next, _) => Action::Drop,
            };
            let value = param(selects, |field| field.of(rule.like));
            let entry = entry(tree, table, group, &value, action);
            let taken = known.iter().any(|naive| naive.index == index);
            let added = tree.add_entry(table, index, entry, &LIMITS);
            assert_eq!(added.is_ok(), !taken, "{added:?}");
            if !taken {
                known.push(Naive {
                    index,
                    group: n,
                    rule: rule.clone(),
                });
            }
        }
    }
    (table, known)
}

/// Where a frame ends: at a TIR, dropped by an entry, or nowhere.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Tir(u32),
    Dropped,
    Missed,
}

fn judge(plans: &[Plan], tables: &[Vec<Naive>], recipe: Recipe) -> Fate {
    for (n, (plan, table)) in plans.iter().zip(tables).enumerate() {
        let last = n + 1 == plans.len();
        let matching = table.iter().filter(|naive| {
            let (selects, _) = &plan.groups[naive.group];
            selects
                .iter()
                .all(|(field, mask)| (field.of(recipe) ^ field.of(naive.rule.like)) & mask == 0)
        });
        match matching.min_by_key(|naive| naive.index) {
            Some(naive) => match naive.rule.act {
                Act::Tir(tirn) => return Fate::Tir(tirn),
                Act::Next if !last => {}
                Act::Drop | Act::Next => return Fate::Dropped,
            },
            None if plan.passes && !last => {}
            None => return Fate::Missed,
        }
    }
    Fate::Missed
}

fn walked(tree: &Tree, recipe: Recipe) -> Fate {
    let walk = tree.walk(&recipe.key());
    match walk.hits.as_slice() {
        [hit] => Fate::Tir(hit.tirn),
        [] if walk.dropped => Fate::Dropped,
        [] => Fate::Missed,
        more => panic!("{more:?}"),
    }
}

proptest! {
    #[test]
    fn the_walk_ends_where_the_naive_matcher_says(
        plans in prop::collection::vec(plan(), 1..4),
        frames in prop::collection::vec(recipe(), 1..24),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut tree = Tree::default();
        let mut ids = Vec::new();
        let mut tables = Vec::new();
        // From the last to the first: a table can only lead to one that is there.
        for (n, plan) in plans.iter().enumerate().rev() {
            let next = ids.last().copied();
            let (id, known) = build(&mut tree, n as u8, plan, next);
            ids.push(id);
            tables.push(known);
        }
        ids.reverse();
        tables.reverse();
        tree.set_root(ids[0], &LIMITS).unwrap();
        for recipe in &frames {
            prop_assert_eq!(walked(&tree, *recipe), judge(&plans, &tables, *recipe));
        }
        // The same when some entries are gone.
        for index in gone {
            let at = index.index(tables.len());
            if let Some(naive) = tables[at].pop() {
                tree.remove_entry(ids[at], naive.index).unwrap();
            }
        }
        for recipe in &frames {
            prop_assert_eq!(walked(&tree, *recipe), judge(&plans, &tables, *recipe));
        }
    }
}
