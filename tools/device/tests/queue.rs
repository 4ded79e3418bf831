// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command queue: delivery, completion events, slots.

use device::{
    fault::Fault,
    profile::Profile,
    scaffold::driver::{xor, Driver, Input},
};
use mlx5_hw::{
    field, ifc, raw,
    status::{Delivery, Status},
};

fn up() -> Driver {
    Driver::up(Profile::shipped("default").unwrap())
}

fn query_adapter() -> Vec<u8> {
    Input::<ifc::query_adapter_in>::new(raw::MLX5_CMD_OP_QUERY_ADAPTER).bytes
}

/// Posts QUERY_ADAPTER in slot 0, lets `spoil` change the entry, rings.
fn spoiled(spoil: impl FnOnce(&mut Driver, u64)) -> Result<u8, Delivery> {
    let mut driver = up();
    driver.post(0, &query_adapter(), 0x110);
    let entry = driver.slot(0);
    spoil(&mut driver, entry);
    driver.ring(1);
    driver
        .answer(0, 16)
        .expect("answered")
        .map(|answer| answer.status)
}

#[test]
fn an_untouched_command_is_delivered() {
    assert_eq!(spoiled(|_, _| {}), Ok(Status::Ok.code()));
}

#[test]
fn another_transport_type_is_a_bad_descriptor() {
    let outcome = spoiled(|driver, entry| driver.machine.poke(entry, &[6]));
    assert_eq!(outcome, Err(Delivery::Descriptor));
}

#[test]
fn reserved_bytes_of_the_entry_are_refused() {
    let outcome = spoiled(|driver, entry| driver.machine.poke(entry + 2, &[1]));
    assert_eq!(outcome, Err(Delivery::Reserved));
}

#[test]
fn a_block_with_another_token_is_a_token_error() {
    let outcome = spoiled(|driver, entry| driver.machine.poke(entry + 0x3c, &[0xee]));
    assert_eq!(outcome, Err(Delivery::Token));
}

#[test]
fn a_block_out_of_order_is_a_block_number_error() {
    let outcome = spoiled(|driver, entry| {
        let block = driver.machine.peek(entry + 0x30, 8);
        let block = block.iter().fold(0, |pa, byte| pa << 8 | u64::from(*byte));
        driver.machine.poke(block + 0x238, &7u32.to_be_bytes());
    });
    assert_eq!(outcome, Err(Delivery::BlockNumber));
}

#[test]
fn an_odd_output_pointer_is_an_alignment_error() {
    let outcome = spoiled(|driver, entry| driver.machine.poke(entry + 0x37, &[8]));
    assert_eq!(outcome, Err(Delivery::OutputAlignment));
}

#[test]
fn absurd_lengths_are_refused() {
    let outcome = spoiled(|driver, entry| driver.machine.poke(entry + 4, &[0xff; 4]));
    assert_eq!(outcome, Err(Delivery::InputLen));
    let outcome = spoiled(|driver, entry| driver.machine.poke(entry + 0x38, &[0xff; 4]));
    assert_eq!(outcome, Err(Delivery::OutputLen));
}

#[test]
fn an_unknown_opcode_is_bad_op() {
    let mut driver = up();
    let mut input = vec![0; 16];
    input[..2].copy_from_slice(&0x0fffu16.to_be_bytes());
    let answer = driver.raw(&input, 16).unwrap();
    assert_eq!(answer.status, Status::BadOp.code());
}

#[test]
fn every_command_refuses_short_input_and_short_output() {
    let mut driver = up();
    for entry in device::cmd::registry::all() {
        let mut input = vec![0; entry.input.bytes()];
        input[..2].copy_from_slice(&entry.opcode.to_be_bytes());
        let long = entry.output.bytes().max(16);
        let answer = driver.raw(&input[..input.len() - 4], long).unwrap();
        assert_eq!(answer.status, Status::BadInputLen.code(), "{}", entry.name);
        let answer = driver.raw(&input, entry.output.bytes() - 4).unwrap();
        assert_eq!(answer.status, Status::BadOutputLen.code(), "{}", entry.name);
    }
}

#[test]
fn every_command_refuses_each_reserved_byte() {
    for entry in device::cmd::registry::all() {
        let mut driver = up();
        let len = entry.input.bytes();
        let mask = entry.input.reserved_mask(len);
        for at in (8..len).filter(|at| mask[*at] == 0xff) {
            let mut input = vec![0; len];
            input[..2].copy_from_slice(&entry.opcode.to_be_bytes());
            input[at] = 0x10;
            let out_len = entry.output.bytes().max(16);
            let answer = driver.raw(&input, out_len).unwrap();
            assert_ne!(
                answer.status,
                Status::Ok.code(),
                "{} byte {at:#x}",
                entry.name
            );
        }
    }
}

#[test]
fn no_event_for_a_command_posted_before_the_command_eq_and_one_for_each_after() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let mut queue = driver.create_eq(uar, 6, 0, &[raw::MLX5_EVENT_TYPE_CMD]);
    assert_eq!(driver.next_event(&mut queue), None, "CREATE_EQ was polled");
    assert_eq!(driver.machine.take_interrupts(), []);
    driver.raw(&query_adapter(), 0x110).unwrap();
    let event = driver.next_event(&mut queue).expect("an event");
    assert_eq!(u32::from(event.kind), raw::MLX5_EVENT_TYPE_CMD);
    assert_eq!(event.data[..4], 1u32.to_be_bytes());
    assert_eq!(driver.next_event(&mut queue), None);
    assert_eq!(driver.machine.take_interrupts(), [0]);
}

#[test]
fn slots_are_independent_of_each_other() {
    let mut driver = up();
    driver
        .card
        .inject(Fault::SwallowCommand {
            opcode: Some(raw::MLX5_CMD_OP_ALLOC_PD as u16),
            count: 1,
        })
        .unwrap();
    let pd = Input::<ifc::alloc_pd_in>::new(raw::MLX5_CMD_OP_ALLOC_PD).bytes;
    let uar = Input::<ifc::alloc_uar_in>::new(raw::MLX5_CMD_OP_ALLOC_UAR).bytes;
    driver.post(3, &pd, 16);
    driver.post(9, &uar, 16);
    driver.ring(1 << 3 | 1 << 9);
    assert_eq!(driver.answer(3, 16), None, "swallowed");
    assert!(driver.answer(9, 16).unwrap().is_ok());
}

#[test]
fn a_delayed_command_is_answered_when_its_time_has_come() {
    let mut driver = up();
    driver
        .card
        .inject(Fault::DelayCommand {
            opcode: None,
            millis: 20,
            count: 1,
        })
        .unwrap();
    let pd = Input::<ifc::alloc_pd_in>::new(raw::MLX5_CMD_OP_ALLOC_PD).bytes;
    driver.post(0, &pd, 16);
    driver.ring(1);
    assert_eq!(driver.answer(0, 16), None);
    let deadline = driver.card.next_deadline().expect("a deadline");
    driver.machine.advance(deadline);
    driver.card.tick();
    assert!(driver.answer(0, 16).unwrap().is_ok());
}

#[test]
fn an_entry_that_software_owns_is_left_alone() {
    let mut driver = up();
    driver.post(0, &query_adapter(), 0x110);
    let entry = driver.slot(0);
    driver.machine.poke(entry + 0x3f, &[0]);
    let before = driver.machine.peek(entry, 64);
    driver.ring(1);
    assert_eq!(driver.machine.peek(entry, 64), before);
}

#[test]
fn a_reset_forgets_commands_in_work_and_the_queue() {
    let mut driver = up();
    driver
        .card
        .inject(Fault::SwallowCommand {
            opcode: None,
            count: 1,
        })
        .unwrap();
    driver.post(0, &query_adapter(), 0x110);
    driver.ring(1);
    driver.card.reset(device::card::Reset::Flr);
    driver.ring(1);
    assert_eq!(driver.answer(0, 16), None, "no queue address");
    driver.program_queue();
    driver.bring_up();
}

/// A card whose commands carry checksums.
fn signing() -> Driver {
    let mut driver = Driver::new(Profile::shipped("default").unwrap());
    driver.ok(
        Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA),
        12,
    );
    let query = Input::<ifc::query_hca_cap_in>::new(raw::MLX5_CMD_OP_QUERY_HCA_CAP).op_mod(1);
    let current = driver.ok(query, 0x1010).output;
    let mut set = Input::<ifc::set_hca_cap_in>::new(raw::MLX5_CMD_OP_SET_HCA_CAP);
    set.bytes[16..].copy_from_slice(&current[16..]);
    let checksum = field!(set_hca_cap_in, capability.cmd_hca_cap.cmdif_checksum);
    driver.ok(set.set(checksum, 3), 16);
    driver
}

#[test]
fn with_checksums_on_blocks_without_one_are_not_delivered() {
    let mut driver = signing();
    let outcome = driver.raw(&query_adapter(), 0x110);
    assert_eq!(outcome.unwrap_err(), Delivery::Signature);
}

#[test]
fn with_checksums_on_a_damaged_entry_is_not_delivered() {
    let mut driver = signing();
    driver.signed = true;
    driver.post(0, &query_adapter(), 0x110);
    let entry = driver.slot(0);
    driver.machine.poke(entry + 0x1c, &[1]);
    driver.ring(1);
    let outcome = driver.answer(0, 0x110).expect("answered");
    assert_eq!(outcome.unwrap_err(), Delivery::Signature);
}

#[test]
fn with_checksums_on_answers_verify_as_the_stock_driver_verifies_them() {
    let mut driver = signing();
    driver.signed = true;
    driver.raw(&query_adapter(), 0x110).expect("delivered");
    let (entry, blocks) = driver.left(0, 0x110);
    assert_eq!(xor(&entry), 0xff);
    assert_eq!(blocks.len(), 1);
    for block in blocks {
        assert_eq!(xor(&block[512..575]), 0xff, "control part");
        assert_eq!(xor(&block), 0xff, "whole block");
    }
}
