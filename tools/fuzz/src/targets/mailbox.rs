// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands through the real command queue, their entries and mailboxes included.
//!
//! A record is a byte that says how it is posted, a byte for that, two of nothing, and the input of the command:
//! bits 3:0 of the first byte are the slot; with bit 7 the second byte hits a place in the entry,
//! with bit 6 one in the doorbell; with bit 5 the card is reset first.

use device::{
    card::Reset,
    cmd::{registry, Needs},
    layout::bits_at,
};
use mlx5_hw::status::Status;

use crate::{good::good, input::Input, world::World, Features, Plan, Target};

/// The door.
pub struct Mailbox;

/// The commands that the good path of one takes, as the queue sees them.
fn recorded(name: &str) -> Input {
    let mut world = World::at(Needs::Init);
    let last = good(&mut world, name).expect("a recipe");
    let all = world.log.iter().chain([&last]);
    Input::new(all.map(|request| [&[0; 4][..], &request.bytes].concat()))
}

impl Target for Mailbox {
    fn name(&self) -> &'static str {
        "mailbox"
    }

    fn seeds(&self) -> Vec<Input> {
        registry::all()
            .filter(|entry| entry.needs == Needs::Init)
            .map(|entry| recorded(entry.name))
            .collect()
    }

    fn run(&self, input: &Input, plan: Plan, features: &mut Features) {
        let mut world = World::at(Needs::Init);
        for record in &input.records {
            let [how, what, _, _, bytes @ ..] = record.as_slice() else {
                continue;
            };
            post(&mut world, *how, *what, bytes, plan, features);
            world.driver.card.tick();
        }
        features.saw(world.driver.card.census().pages_used);
        let lines = world.driver.card.dump().len();
        features.saw(("objects", lines.ilog2()));
    }
}

fn post(world: &mut World, how: u8, what: u8, bytes: &[u8], plan: Plan, features: &mut Features) {
    let driver = &mut world.driver;
    if how & 0x20 != 0 {
        driver.card.reset(Reset::Flr);
        driver.program_queue();
    }
    let slot = how & 0xf;
    let opcode = device::cmd::opcode(bytes);
    let entry = registry::find(opcode);
    let out_len = entry.map_or(16, |entry| entry.output.bytes().max(16)) + 64;
    driver.post(slot, bytes, out_len);
    if how & 0x80 != 0 {
        let at = driver.slot(slot) + u64::from(what & 0x3f);
        driver.machine.poke(at, &[what]);
    }
    let mask = match how & 0x40 {
        0 => 1 << slot,
        _ => u32::from(what).rotate_left(slot.into()),
    };
    driver.ring(mask);
    let Some(answer) = driver.answer(slot, out_len) else {
        features.saw("no answer");
        // Waits for pages, or was not rung: a driver would begin anew.
        driver.program_queue();
        return;
    };
    let Ok(answer) = answer else {
        features.saw("not delivered");
        return;
    };
    features.saw((opcode, answer.status, answer.syndrome));
    // Frees what others use, or does a step of a queue twice.
    plan.trip(matches!(
        Status::from_code(answer.status),
        Some(Status::ResBusy | Status::BadResState)
    ));
    let Some(entry) = entry.filter(|_| answer.status == 0) else {
        return;
    };
    for (index, (_, at, bits)) in entry.input.leaves().iter().enumerate() {
        if (1..=32).contains(bits) {
            features.saw((opcode, index, bits_at(bytes, *at, *bits) != 0));
        }
    }
}
