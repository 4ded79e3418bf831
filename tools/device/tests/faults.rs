// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults on order: each happens as often as it was ordered, and is then used up.

use device::{
    fault::Fault,
    profile::Profile,
    scaffold::driver::{Driver, EventQueue, Input},
};
use mlx5_hw::{ifc, raw, status::Status};

fn up() -> (Driver, EventQueue) {
    let mut driver = Driver::up(Profile::shipped("default").unwrap());
    let uar = driver.alloc_uar();
    let queue = driver.create_eq(uar, 6, 3, &[raw::MLX5_EVENT_TYPE_CMD]);
    (driver, queue)
}

#[test]
fn a_completion_is_spoilt_as_ordered_and_only_there() {
    use device::cq::Cqe;
    let mut faults = device::fault::Faults::default();
    let lie = Fault::SpoilCqe {
        cqn: 0x80,
        at: 60,
        bits: 0x7f00_0090,
        count: 1,
    };
    assert!(faults.order(lie).is_none());
    // Not a dword of a completion.
    for at in [1, 64] {
        let lie = Fault::SpoilCqe {
            cqn: 0x80,
            at,
            bits: 1,
            count: 1,
        };
        assert!(faults.order(lie).is_some());
    }
    let plain = Cqe::from_bytes([0; 64]);
    assert_eq!(faults.completion(0x81, plain), plain);
    let bytes = faults.completion(0x80, plain).owned(1);
    assert_eq!(bytes[..60], [0; 60]);
    assert_eq!(bytes[60..], [0x7f, 0, 0, 0x91]);
    assert_eq!(faults.completion(0x80, plain), plain);
}

fn alloc_pd() -> Input<ifc::alloc_pd_in> {
    Input::new(raw::MLX5_CMD_OP_ALLOC_PD)
}

fn events(driver: &Driver, queue: &mut EventQueue) -> Vec<u32> {
    std::iter::from_fn(|| driver.next_event(queue))
        .map(|event| {
            let [a, b, c, d, ..] = event.data;
            u32::from_be_bytes([a, b, c, d])
        })
        .collect()
}

#[test]
fn a_failed_command_has_the_status_ordered_and_makes_nothing() {
    let (mut driver, _) = up();
    driver
        .card
        .inject(Fault::FailCommand {
            opcode: Some(raw::MLX5_CMD_OP_ALLOC_PD as u16),
            status: Status::Internal.code(),
            count: 1,
        })
        .unwrap();
    driver.alloc_uar();
    assert_eq!(driver.refused(alloc_pd(), 16).0, Status::Internal);
    assert_eq!(driver.card.census().objects["PD"], 0);
    driver.ok(alloc_pd(), 16);
}

#[test]
fn a_swallowed_interrupt_is_lost_but_its_entry_is_there() {
    let (mut driver, mut queue) = up();
    driver
        .card
        .inject(Fault::SwallowInterrupt {
            vector: 3,
            count: 1,
        })
        .unwrap();
    driver.ok(alloc_pd(), 16);
    assert_eq!(driver.machine.take_interrupts(), []);
    assert_eq!(driver.card.counters().interrupts_swallowed, 1);
    assert_eq!(events(&driver, &mut queue), [1]);
    driver.update_eq(&queue, true);
    driver.ok(alloc_pd(), 16);
    assert_eq!(driver.machine.take_interrupts(), [3]);
}

#[test]
fn a_duplicated_event_comes_twice_and_the_next_once() {
    let (mut driver, mut queue) = up();
    driver
        .card
        .inject(Fault::DuplicateCommandEvent { count: 1 })
        .unwrap();
    driver.ok(alloc_pd(), 16);
    assert_eq!(events(&driver, &mut queue), [1, 1]);
    driver.ok(alloc_pd(), 16);
    assert_eq!(events(&driver, &mut queue), [1]);
}

#[test]
fn a_spurious_event_names_the_slots_ordered() {
    let (mut driver, mut queue) = up();
    let slots = 0x8000_0400;
    driver
        .card
        .inject(Fault::SpuriousCommandEvent { slots })
        .unwrap();
    assert_eq!(events(&driver, &mut queue), [slots]);
}

#[test]
fn faults_on_what_is_not_there_are_refused() {
    let mut driver = Driver::up(Profile::shipped("default").unwrap());
    let spurious = Fault::SpuriousCommandEvent { slots: 1 };
    assert!(driver.card.inject(spurious).is_err(), "no command EQ");
    let context = Fault::QpContext { qpn: 0x99 };
    assert!(driver.card.inject(context).is_err(), "no such QP");
}

#[test]
fn the_trace_names_the_command_its_fields_and_the_reason() {
    let (mut driver, _) = up();
    let bad = Input::<ifc::dealloc_pd_in>::new(raw::MLX5_CMD_OP_DEALLOC_PD)
        .set(mlx5_hw::field!(dealloc_pd_in, pd), 0x4711);
    driver.refused(bad, 16);
    let line = driver.card.trace().since(0).last().unwrap().text.clone();
    assert!(line.starts_with("DEALLOC_PD pd=0x4711 -> BadRes"), "{line}");
    let mut version = Input::<ifc::set_driver_version_in>::new(raw::MLX5_CMD_OP_SET_DRIVER_VERSION);
    version.bytes[16..21].copy_from_slice(b"Linux");
    driver.ok(version, 16);
    let line = driver.card.trace().since(0).last().unwrap().text.clone();
    assert_eq!(line, "SET_DRIVER_VERSION driver_version=\"Linux\" -> OK");
}
