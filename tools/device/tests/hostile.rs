// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever a guest writes, wherever it writes it: no panic, no hang.

use device::{
    profile::Profile,
    scaffold::driver::{Driver, Input},
};
use mlx5_hw::{ifc, raw};
use proptest::prelude::*;

fn up() -> Driver {
    let mut driver = Driver::up(Profile::shipped("small").unwrap());
    let uar = driver.alloc_uar();
    let events: Vec<u32> = (1..64).collect();
    driver.create_eq(uar, 6, 0, &events);
    driver.alloc_pd();
    driver
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn writes_anywhere_in_the_bar(
        writes in proptest::collection::vec(
            (0u64..0x12000, proptest::collection::vec(any::<u8>(), 0..300)),
            1..60,
        ),
    ) {
        let mut driver = up();
        for (offset, data) in writes {
            driver.card.bar_write(offset, &data);
            let mut back = vec![0; data.len()];
            driver.card.bar_read(offset, &mut back);
            driver.card.tick();
        }
    }

    #[test]
    fn commands_with_random_bodies(
        bodies in proptest::collection::vec(
            (any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 16..0x300)),
            1..40,
        ),
        sparse: bool,
    ) {
        let known: Vec<_> = device::cmd::registry::all().collect();
        let mut driver = up();
        for (pick, body) in bodies {
            let entry = known[pick.index(known.len())];
            let mut input = vec![0; entry.input.bytes()];
            // Mostly zero bodies get further than noise does.
            for (at, (to, from)) in input.iter_mut().zip(&body).enumerate() {
                if !sparse || at % 7 == 3 {
                    *to = *from;
                }
            }
            input[..2].copy_from_slice(&entry.opcode.to_be_bytes());
            input[2..6].fill(0);
            driver.post(0, &input, entry.output.bytes().max(16));
            driver.ring(1);
            if driver.answer(0, 16).is_none() {
                driver.program_queue();
            }
        }
    }

    #[test]
    fn mailbox_blocks_with_random_tails(
        tail in proptest::collection::vec(any::<u8>(), 64),
        next in any::<u64>(),
    ) {
        let mut driver = up();
        let query = Input::<ifc::query_hca_cap_in>::new(raw::MLX5_CMD_OP_QUERY_HCA_CAP);
        driver.post(0, &query.bytes, 0x1010);
        let entry = driver.slot(0);
        let block = driver.machine.peek(entry + 0x30, 8);
        let block = block.iter().fold(0, |pa, byte| pa << 8 | u64::from(*byte));
        driver.machine.poke(block + 512, &tail);
        driver.ring(1);
        let keep = driver.machine.peek(entry + 0x3c, 1);
        driver.post(0, &query.bytes, 0x1010);
        driver.machine.poke(entry + 0x3c, &keep);
        driver.machine.poke(block + 0x230, &next.to_be_bytes());
        driver.ring(1);
    }

    #[test]
    fn frames_of_noise(frame in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut driver = up();
        driver.card.receive(&frame);
    }
}
