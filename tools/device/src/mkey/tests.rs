// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation against a model that goes byte by byte.

mod indirect;

use super::*;
use crate::{env::Env, profile::Profile, scaffold::Machine, table::Table};
use proptest::prelude::*;
use std::sync::Arc;

const PD: u32 = 0x10;

struct World {
    env: Env,
    keys: Table<Mkey>,
    machine: Machine,
}

fn world() -> World {
    let machine = Machine::new(8 << 20);
    let profile = Arc::new(Profile::shipped("minimal").unwrap());
    World {
        env: Env::new(profile, machine.host()),
        keys: Table::new(0x800, 0x1000, 0x1000),
        machine,
    }
}

fn key(start: u64, len: u64, log_page: u8, pages: &[u64]) -> Mkey {
    let mut raw = [0; 64];
    let mut mkc = Mut::<ifc::mkc>::new(&mut raw).unwrap();
    mkc.set(field!(mkc, access_mode_1_0), 1)
        .set(field!(mkc, lr), 1)
        .set(field!(mkc, lw), 1)
        .set(field!(mkc, rr), 1)
        .set(field!(mkc, qpn), 0xff_ffff)
        .set(field!(mkc, pd), PD.into())
        .set(field!(mkc, start_addr), start)
        .set(field!(mkc, len), len)
        .set(field!(mkc, log_page_size), log_page.into())
        .set(
            field!(mkc, translations_octword_size),
            pages.len().div_ceil(2) as u64,
        );
    let mut xlt: Vec<u8> = pages.iter().flat_map(|page| page.to_be_bytes()).collect();
    xlt.resize(pages.len().div_ceil(2) * 16, 0);
    Mkey::new(mkc.as_ref(), &xlt, false).unwrap()
}

fn reach(key: u32, need: Need) -> Reach {
    Reach {
        key,
        pd: PD,
        qpn: 5,
        reserved: false,
        need,
    }
}

proptest! {
    #[test]
    fn every_byte_comes_from_where_the_page_list_says(
        start in 0u64..1 << 40,
        len in 1u64..40_000,
        log_page in 12u8..15,
        order in any::<prop::sample::Index>(),
        at in 0u64..45_000,
        want in 0usize..6000,
    ) {
        let mut world = world();
        let size = 1u64 << log_page;
        let skew = start % size;
        let count = (skew + len).div_ceil(size);
        // A permutation of pages, aligned to their size.
        let turn = order.index(count as usize) as u64;
        let base = 0x10_0000u64;
        let pages: Vec<u64> = (0..count)
            .map(|n| base + (n + turn) % count * size)
            .collect();
        for n in 0..count * size / 8 {
            let byte = base + 8 * n;
            world.machine.poke(byte, &(byte ^ 0x5a5a_0000_0000).to_le_bytes());
        }
        let mkey = key(start, len, log_page, &pages);
        let index = world.keys.insert(mkey).unwrap();
        let mut memory = Memory { env: &mut world.env, keys: &world.keys };
        let mut buf = vec![0; want];
        let result = memory.read(reach(index << 8, Need::LocalRead), start + at, &mut buf);
        let inside = at + want as u64 <= len || want == 0;
        prop_assert_eq!(result.is_ok(), inside);
        if inside {
            for (n, byte) in buf.iter().enumerate() {
                let offset = skew + at + n as u64;
                let bus = pages[(offset / size) as usize] + offset % size;
                prop_assert_eq!(*byte, world.machine.peek(bus, 1)[0]);
            }
        }
    }

    #[test]
    fn no_address_and_length_escape_a_key(va: u64, len in 1u64..1 << 33, start: u64, size: u64) {
        let Some(_) = start.checked_add(size) else {
            return Ok(());
        };
        let mut world = world();
        let index = world.keys.insert(key(start, size, 12, &[0x1000])).unwrap();
        let memory = Memory { env: &mut world.env, keys: &world.keys };
        let inside = u128::from(va) >= u128::from(start)
            && u128::from(va) + u128::from(len) <= u128::from(start) + u128::from(size);
        let checked = memory.check(reach(index << 8, Need::RemoteRead), va, len);
        prop_assert_eq!(checked.is_ok(), inside);
    }
}

#[test]
fn rights_domain_variant_and_state_are_checked() {
    let mut world = world();
    let index = world.keys.insert(key(0, 4096, 12, &[0x1000])).unwrap();
    let memory = Memory {
        env: &mut world.env,
        keys: &world.keys,
    };
    let good = reach(index << 8, Need::LocalRead);
    assert!(memory.check(good, 0, 4096).is_ok());
    let fault = |reach: Reach| memory.check(reach, 0, 1).unwrap_err();
    let need = Need::RemoteWrite;
    let key = good.key;
    assert_eq!(fault(Reach { need, ..good }), Fault::Rights { key, need });
    assert_eq!(
        fault(Reach {
            key: key + 1,
            ..good
        }),
        Fault::NoKey(key + 1)
    );
    let (owner, pd) = (PD, PD + 1);
    assert_eq!(fault(Reach { pd, ..good }), Fault::Pd { key, owner, pd });
    assert_eq!(
        fault(Reach {
            key: RESERVED_LKEY,
            ..good
        }),
        Fault::NoKey(RESERVED_LKEY)
    );
    let reserved = Reach {
        key: RESERVED_LKEY,
        reserved: true,
        ..good
    };
    assert!(memory.check(reserved, 0x1234_5678, 1 << 30).is_ok());
    world.keys.get_mut(index).unwrap().invalidate();
    let memory = Memory {
        env: &mut world.env,
        keys: &world.keys,
    };
    assert_eq!(memory.check(good, 0, 1), Err(Fault::Free(key)));
}

#[test]
fn a_range_that_wraps_is_no_key() {
    let mut raw = [0; 64];
    let mut mkc = Mut::<ifc::mkc>::new(&mut raw).unwrap();
    mkc.set(field!(mkc, start_addr), u64::MAX - 10)
        .set(field!(mkc, len), 12);
    assert!(Mkey::new(mkc.as_ref(), &[], false).is_err());
}
