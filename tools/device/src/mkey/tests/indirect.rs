// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Indirect keys against a model that finds each byte by itself.

use super::*;

/// One entry of an indirect key: what of the memory below it joins.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Through the page list of the inner key, or by bus address.
    mapped: bool,
    /// Offset in the memory.
    at: u64,
    len: u64,
}

/// Memory of the inner keys.
const BASE: u64 = 0x10_0000;
const SIZE: u64 = 1 << 16;
/// Address that the inner MTT key gives to the memory, whose pages it has in reverse order.
const INNER: u64 = 0x5000_0000_0000;

impl Part {
    /// Bus address of its byte `n`.
    fn bus(self, n: u64) -> u64 {
        let at = self.at + n;
        if !self.mapped {
            return BASE + at;
        }
        BASE + (SIZE / 4096 - 1 - at / 4096) * 4096 + at % 4096
    }
}

fn part(len: impl Strategy<Value = u64>) -> impl Strategy<Value = Part> {
    (any::<bool>(), 0..SIZE - 4096, len).prop_map(|(mapped, at, len)| Part { mapped, at, len })
}

/// A world with memory that shows its address, and the inner keys: by bus address, by page list.
fn inner() -> (World, [u32; 2]) {
    let mut world = world();
    for at in (BASE..BASE + SIZE).step_by(4) {
        // CAST: the upper half is zero.
        let word = (at as u32).wrapping_mul(0x9e37_79b1);
        world.machine.poke(at, &word.to_le_bytes());
    }
    let mut raw = [0; 64];
    let mut mkc = Mut::<ifc::mkc>::new(&mut raw).unwrap();
    mkc.set(field!(mkc, lr), 1)
        .set(field!(mkc, lw), 1)
        .set(field!(mkc, length64), 1)
        .set(field!(mkc, qpn), 0xff_ffff)
        .set(field!(mkc, pd), PD.into());
    let flat = Mkey::new(mkc.as_ref(), &[], false).unwrap();
    let pages: Vec<u64> = (0..SIZE / 4096).rev().map(|n| BASE + n * 4096).collect();
    let mapped = key(INNER, SIZE, 12, &pages);
    let keys = [flat, mapped].map(|key| world.keys.insert(key).unwrap() << 8);
    (world, keys)
}

/// An indirect key over `parts`.
fn outer(mode: u64, start: u64, len: u64, log_page: u8, parts: &[Part], keys: [u32; 2]) -> Mkey {
    let mut raw = [0; 64];
    let mut mkc = Mut::<ifc::mkc>::new(&mut raw).unwrap();
    mkc.set(field!(mkc, access_mode_1_0), mode)
        .set(field!(mkc, lr), 1)
        .set(field!(mkc, lw), 1)
        .set(field!(mkc, qpn), 0xff_ffff)
        .set(field!(mkc, pd), PD.into())
        .set(field!(mkc, start_addr), start)
        .set(field!(mkc, len), len)
        .set(field!(mkc, log_page_size), log_page.into())
        .set(field!(mkc, translations_octword_size), parts.len() as u64);
    let mut xlt = Vec::new();
    for part in parts {
        let (key, va) = if part.mapped {
            (keys[1], INNER + part.at)
        } else {
            (keys[0], BASE + part.at)
        };
        xlt.extend((part.len << 32 | u64::from(key)).to_be_bytes());
        xlt.extend(va.to_be_bytes());
    }
    Mkey::new(mkc.as_ref(), &xlt, false).unwrap()
}

/// Reads, or writes a pattern, and compares with `bus`, which says where each byte is; `None` for
/// bytes that nobody has.
fn compare(
    mut world: World,
    mkey: Mkey,
    va: u64,
    want: usize,
    writes: bool,
    bus: &dyn Fn(u64) -> Option<u64>,
) -> Result<(), TestCaseError> {
    let index = world.keys.insert(mkey).unwrap();
    let places: Option<Vec<u64>> = (0..want as u64).map(bus).collect();
    let mut memory = Memory {
        env: &mut world.env,
        keys: &world.keys,
    };
    if writes {
        // What is written last stays, where parts overlap.
        let bytes: Vec<u8> = (0..want).map(|n| n as u8 ^ 0xc3).collect();
        let result = memory.write(reach(index << 8, Need::LocalWrite), va, &bytes);
        prop_assert_eq!(result.is_ok(), places.is_some(), "{:?}", result);
        let last: std::collections::BTreeMap<u64, u8> =
            places.unwrap_or_default().into_iter().zip(bytes).collect();
        for (place, byte) in last {
            prop_assert_eq!(world.machine.peek(place, 1)[0], byte);
        }
        return Ok(());
    }
    let mut buf = vec![0; want];
    let result = memory.read(reach(index << 8, Need::LocalRead), va, &mut buf);
    prop_assert_eq!(result.is_ok(), places.is_some(), "{:?}", result);
    for (place, byte) in places.unwrap_or_default().into_iter().zip(buf) {
        prop_assert_eq!(world.machine.peek(place, 1)[0], byte);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Pieces of any length, also none, one behind the other.
    #[test]
    fn klm(
        start in 0u64..1 << 40,
        parts in prop::collection::vec(part(0u64..3000), 1..12),
        short in 0u64..200,
        at in 0u64..12_000,
        want in 0usize..5000,
        writes in any::<bool>(),
    ) {
        let (world, keys) = inner();
        let sum: u64 = parts.iter().map(|part| part.len).sum();
        // The key may end before its pieces do, or promise more than they hold.
        let len = (sum + 100).saturating_sub(short);
        let mkey = outer(2, start, len, 0, &parts, keys);
        let at = at % (sum + 50);
        let bus = |n: u64| {
            let mut at = at + n;
            if at >= len {
                return None;
            }
            for part in &parts {
                if at < part.len {
                    return Some(part.bus(at));
                }
                at -= part.len;
            }
            None
        };
        compare(world, mkey, start + at, want, writes, &bus)?;
    }

    /// Pieces of one length; the first one begins where its part of the address space does.
    #[test]
    fn ksm(
        start in 0u64..1 << 40,
        log in 8u8..13,
        parts in prop::collection::vec(part(Just(0)), 1..12),
        at in 0u64..40_000,
        want in 0usize..5000,
        writes in any::<bool>(),
    ) {
        let (world, keys) = inner();
        let size = 1u64 << log;
        let skew = start % size;
        let len = size * parts.len() as u64 - skew;
        let mkey = outer(3, start, len, log, &parts, keys);
        let at = at % (len + 50);
        let bus = |n: u64| {
            let offset = at + n + skew;
            (at + n < len).then(|| parts[(offset / size) as usize].bus(offset % size))
        };
        compare(world, mkey, start + at, want, writes, &bus)?;
    }
}
