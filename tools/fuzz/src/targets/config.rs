// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space: any reads and writes, resets between them.
//!
//! A record is kind, offset (two bytes) and data: kind 0 reads as many bytes, 1 resets, all others
//! write.

use pcie::{ConfigSpace, Description, Event, Identity, Link, Reset, Speed, CONFIG_SIZE};

use crate::{input::Input, Features, Plan, Target};

/// The door.
pub struct Config;

fn card() -> ConfigSpace {
    ConfigSpace::new(&Description {
        identity: Identity {
            vendor: 0x15b3,
            device: 0x101d,
            subsystem_vendor: 0x15b3,
            subsystem: 0x0016,
            revision: 0,
            class: 0x02_0000,
        },
        link: Link {
            max_speed: Speed::Gen4,
            max_width: 16,
            speed: Speed::Gen4,
            width: 16,
        },
        bar0_size: 32 << 20,
        vectors: 64,
        msix_table: 0x2000,
        msix_pending: 0x3000,
        serial: 1,
        name: "card".to_owned(),
        product: vec![(*b"SN", "1".to_owned())],
    })
}

fn image(card: &mut ConfigSpace) -> Vec<u8> {
    let mut image = vec![0; CONFIG_SIZE];
    card.read(0, &mut image).expect("inside the space");
    image
}

impl Target for Config {
    fn name(&self) -> &'static str {
        "config"
    }

    fn seeds(&self) -> Vec<Input> {
        vec![Input::new([vec![2, 0, 4, 6, 0], vec![0, 0, 0, 0, 0, 0, 0]])]
    }

    fn run(&self, input: &Input, plan: Plan, features: &mut Features) {
        let mut card = card();
        for record in &input.records {
            let [kind, high, low, data @ ..] = record.as_slice() else {
                continue;
            };
            let offset = u64::from(u16::from_be_bytes([*high, *low]));
            match kind {
                0 => {
                    let mut buf = data.to_vec();
                    features.saw(("read", card.read(offset, &mut buf).is_ok()));
                }
                1 => card.reset(match data.first() {
                    Some(1) => Reset::Bus,
                    Some(2) => Reset::Function,
                    _ => Reset::Power,
                }),
                _ => {
                    let before = image(&mut card);
                    let Ok(events) = card.write(offset, data) else {
                        features.saw("out of range");
                        continue;
                    };
                    let after = image(&mut card);
                    for (at, (old, new)) in before.iter().zip(&after).enumerate() {
                        if old != new {
                            features.saw(("changed", at, old ^ new));
                        }
                    }
                    for event in events {
                        features.saw(format!("{event:?}"));
                        plan.trip(event == Event::FunctionReset);
                    }
                }
            }
        }
        // Whatever was written, the card stays itself.
        let mut ids = [0; 4];
        card.read(0, &mut ids).expect("inside the space");
        assert_eq!(ids, [0xb3, 0x15, 0x1d, 0x10], "vendor and device id");
    }
}
