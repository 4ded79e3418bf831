// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration space as software on the other side of the bus sees it.

use pcie::{ConfigSpace, Description, Event, Fault, Identity, Link, Reset, Speed};
use proptest::prelude::*;

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
            speed: Speed::Gen3,
            width: 8,
        },
        bar0_size: 32 << 20,
        vectors: 64,
        msix_table: 0x2000,
        msix_pending: 0x3000,
        serial: 0x0123_4567_89ab_cdef,
        name: "card".to_owned(),
        product: vec![(*b"SN", "1".to_owned())],
    })
}

fn read32(card: &mut ConfigSpace, offset: u64) -> u32 {
    let mut bytes = [0; 4];
    card.read(offset, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

fn write32(card: &mut ConfigSpace, offset: u64, value: u32) -> Vec<Event> {
    card.write(offset, &value.to_le_bytes()).unwrap()
}

/// Walks the capability list: (id, offset) in list order.
fn capabilities(card: &mut ConfigSpace) -> Vec<(u8, u8)> {
    let mut at = read32(card, 0x34) as u8;
    let mut list = Vec::new();
    while at != 0 && list.len() < 48 {
        let header = read32(card, u64::from(at));
        list.push((header as u8, at));
        at = (header >> 8) as u8;
    }
    list
}

#[test]
fn capability_list_is_that_of_the_card() {
    let list = capabilities(&mut card());
    assert_eq!(
        list,
        [
            (0x10, 0x60),
            (0x03, 0x48),
            (0x11, 0x9c),
            (0x09, 0xc0),
            (0x01, 0x40)
        ]
    );
    let mut card = card();
    assert_eq!(read32(&mut card, 0x100), 0x1481_0001);
    assert_eq!(read32(&mut card, 0x148), 0x0001_0003);
    assert_eq!(read32(&mut card, 0x14c), 0x89ab_cdef);
}

#[test]
fn link_shows_what_it_can_and_what_it_has() {
    let mut card = card();
    assert_eq!(read32(&mut card, 0x6c) & 0x3ff, 4 | (16 << 4));
    assert_eq!((read32(&mut card, 0x70) >> 16) & 0x3ff, 3 | (8 << 4));
    card.retrain(Speed::Gen1, 1);
    assert_eq!((read32(&mut card, 0x70) >> 16) & 0x3ff, 1 | (1 << 4));
}

#[test]
fn payload_and_read_request_follow_device_control() {
    let mut card = card();
    assert_eq!((card.payload(), card.read_request()), (128, 512));
    card.write(0x68, &0x504fu16.to_le_bytes()).unwrap();
    assert_eq!((card.payload(), card.read_request()), (512, 4096));
    // 1024 bytes is more than the card can do, request code 7 is reserved: both stay.
    card.write(0x68, &0x706fu16.to_le_bytes()).unwrap();
    assert_eq!((card.payload(), card.read_request()), (512, 4096));
}

#[test]
fn function_reset_restores_all_but_payload_and_sticky_bits() {
    let mut card = card();
    write32(&mut card, 0x04, 0x6);
    write32(&mut card, 0x10c, 0);
    card.record(Fault::Uncorrectable(1 << 14), [1, 2, 3, 4]);
    card.write(0x68, &0x5040u16.to_le_bytes()).unwrap();
    assert_eq!(card.write(0x69, &[0xd0]).unwrap(), [Event::FunctionReset]);
    assert_eq!(read32(&mut card, 0x04) & 0x7, 0);
    assert_eq!((card.payload(), card.read_request()), (512, 512));
    assert_eq!(read32(&mut card, 0x104), 1 << 14);
    assert_eq!(read32(&mut card, 0x10c), 0);
    assert_eq!(read32(&mut card, 0x68) & 0x8000, 0);
}

#[test]
fn function_reset_does_not_let_a_bad_payload_through() {
    let mut card = card();
    card.write(0x68, &0x8060u16.to_le_bytes()).unwrap();
    assert_eq!(card.payload(), 128);
}

#[test]
fn bus_reset_restores_payload_too() {
    let mut card = card();
    card.write(0x68, &0x5040u16.to_le_bytes()).unwrap();
    card.record(Fault::Uncorrectable(1 << 4), [0; 4]);
    card.reset(Reset::Bus);
    assert_eq!((card.payload(), card.read_request()), (128, 512));
    assert_eq!(read32(&mut card, 0x104), 1 << 4);
    assert_eq!(read32(&mut card, 0x68) >> 16, 0);
    card.reset(Reset::Power);
    assert_eq!(read32(&mut card, 0x104), 0);
}

#[test]
fn severity_starts_as_the_specification_says_and_decides_device_status() {
    let mut card = card();
    assert_eq!(read32(&mut card, 0x10c), 0x0046_2030);
    card.record(Fault::Uncorrectable(1 << 14), [0; 4]);
    assert_eq!(read32(&mut card, 0x68) >> 16, 0b0010);
    card.record(Fault::Uncorrectable(1 << 4), [0; 4]);
    assert_eq!(read32(&mut card, 0x68) >> 16, 0b0110);
    card.record(Fault::Correctable(1 << 6), [0; 4]);
    assert_eq!(read32(&mut card, 0x68) >> 16, 0b0111);
    // Status registers are write one to clear.
    write32(&mut card, 0x104, 1 << 14);
    assert_eq!(read32(&mut card, 0x104), 1 << 4);
    card.write(0x6a, &[0x7]).unwrap();
    assert_eq!(read32(&mut card, 0x68) >> 16, 0);
}

#[test]
fn the_first_error_owns_the_header_log() {
    let mut card = card();
    card.record(Fault::Uncorrectable(1 << 14), [0x11, 0x22, 0x33, 0x44]);
    card.record(Fault::Uncorrectable(1 << 18), [0x55, 0x66, 0x77, 0x88]);
    assert_eq!(read32(&mut card, 0x118) & 0x1f, 14);
    assert_eq!(read32(&mut card, 0x11c), 0x11);
    assert_eq!(read32(&mut card, 0x128), 0x44);
}

#[test]
fn faults_that_do_not_exist_are_ignored() {
    assert_eq!(card().record(Fault::Uncorrectable(1 << 31), [0; 4]), 0);
    assert_eq!(card().record(Fault::Correctable(1 << 1), [0; 4]), 0);
}

#[test]
fn writes_set_off_their_events() {
    let mut card = card();
    assert_eq!(write32(&mut card, 0x04, 0x6), [Event::Master(true)]);
    assert_eq!(write32(&mut card, 0x04, 0x6), []);
    let msix = |enabled, masked| [Event::Msix { enabled, masked }];
    assert_eq!(
        card.write(0x9e, &0xc000u16.to_le_bytes()).unwrap(),
        msix(true, true)
    );
    assert_eq!(card.write(0x9f, &[0x80]).unwrap(), msix(true, false));
    let asleep = card.write(0x44, &[0x3]).unwrap();
    assert_eq!(asleep, [Event::Master(false), Event::Awake(false)]);
    assert!(!card.memory());
    let awake = card.write(0x44, &[0x0]).unwrap();
    assert_eq!(awake, [Event::Master(true), Event::Awake(true)]);
}

#[test]
fn power_states_that_do_not_exist_change_nothing() {
    let mut card = card();
    assert_eq!(card.write(0x44, &[0x1]).unwrap(), []);
    assert_eq!(read32(&mut card, 0x44) & 3, 0);
}

/// Registers and bits that nobody can change by writing, written down by hand from the
/// specification, not from the masks in the crate.
const READ_ONLY: &[(u64, u32)] = &[
    (0x00, !0),
    (0x08, !0),
    (0x2c, !0),
    (0x34, !0),
    (0x60, !0),
    (0x64, !0),
    (0x6c, !0),
    (0x84, !0),
    (0x8c, !0),
    (0x9c, 0x3fff_ffff),
    (0xa0, !0),
    (0xa4, !0),
    (0x100, !0),
    (0x148, !0),
    (0x14c, !0),
    (0x150, !0),
];

proptest! {
    #[test]
    fn random_writes_never_panic_nor_change_read_only_bits(
        writes in prop::collection::vec(
            (0u64..4200, prop::collection::vec(any::<u8>(), 0..9)), 0..300)
    ) {
        let mut card = card();
        let before: Vec<u32> = READ_ONLY.iter().map(|(at, _)| read32(&mut card, *at)).collect();
        for (offset, data) in writes {
            let fits = offset + data.len() as u64 <= 4096;
            prop_assert_eq!(card.write(offset, &data).is_ok(), fits);
            prop_assert!(card.payload() <= 512);
            prop_assert!(card.read_request() <= 4096);
        }
        for ((at, mask), old) in READ_ONLY.iter().zip(before) {
            prop_assert_eq!(read32(&mut card, *at) & mask, old & mask, "at {:#x}", at);
        }
        prop_assert_eq!(capabilities(&mut card).len(), 5);
    }
}
