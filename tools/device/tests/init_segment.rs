// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The initialization segment: what a driver reads before it can talk, and the ways to start over.

use std::time::Duration;

use device::{
    card::Reset,
    fault::Fault,
    profile::Profile,
    scaffold::driver::{Driver, Input},
};
use mlx5_hw::{ifc, raw, status::Status};

const CMDQ_LOW: u64 = 0x14;
const INITIALIZING: u64 = 0x1fc;
const FW_VER: u64 = 0x230;
const RFR: u64 = 0x238;
const SYNDROME: u64 = 0x23c;
const TIMER_LOW: u64 = 0x1004;
const HEALTH_COUNTER: u64 = 0x1010;

fn new() -> Driver {
    Driver::new(Profile::shipped("default").unwrap())
}

fn up() -> Driver {
    Driver::up(Profile::shipped("default").unwrap())
}

fn nic_state(driver: &mut Driver) -> u32 {
    driver.bar32(CMDQ_LOW) >> 8 & 7
}

fn objects(driver: &Driver) -> usize {
    driver.card.census().objects.values().sum()
}

#[test]
fn versions_and_queue_geometry_are_readable_at_once() {
    let mut driver = new();
    assert_eq!(driver.bar32(0), 36 << 16 | 22);
    assert_eq!(driver.bar32(4), 5 << 16 | 1010);
    assert_eq!(driver.bar32(CMDQ_LOW) & 0xff, 0x56);
    // Ready; a full driver, none, or a boot program may take it.
    assert_eq!(driver.bar32(INITIALIZING), 0b111 << 24);
    assert_ne!(driver.bar32(FW_VER), u32::MAX);
}

#[test]
fn reads_of_any_width_see_the_same_bytes() {
    let mut driver = new();
    let mut whole = [0; 8];
    driver.card.bar_read(0, &mut whole);
    for at in 0..8u64 {
        let mut byte = [0];
        driver.card.bar_read(at, &mut byte);
        assert_eq!(byte[0], whole[at as usize]);
    }
}

#[test]
fn the_health_counter_is_never_zero_and_moves() {
    let mut driver = new();
    let mut last = driver.bar32(HEALTH_COUNTER);
    assert_ne!(last, 0);
    for _ in 0..10 {
        driver.machine.advance(Duration::from_millis(50));
        let now = driver.bar32(HEALTH_COUNTER);
        assert!(now != 0 && now != last);
        last = now;
    }
}

#[test]
fn the_timer_runs_at_the_frequency_of_the_capabilities() {
    let mut driver = new();
    let before = driver.bar32(TIMER_LOW);
    driver.machine.advance(Duration::from_micros(3));
    assert_eq!(driver.bar32(TIMER_LOW) - before, 3000, "1 GHz");
}

#[test]
fn what_cannot_be_written_does_not_change() {
    let mut driver = new();
    for offset in [0u64, 4, INITIALIZING, FW_VER, SYNDROME, HEALTH_COUNTER] {
        let before = driver.bar32(offset);
        driver.card.bar_write(offset, &[0xff; 4]);
        assert_eq!(driver.bar32(offset), before, "{offset:#x}");
    }
}

#[test]
fn a_software_reset_drops_everything_and_waits_for_a_new_queue_address() {
    let mut driver = up();
    driver.alloc_pd();
    driver
        .card
        .inject(Fault::Health {
            syndrome: raw::MLX5_INITIAL_SEG_HEALTH_SYNDROME_FW_INTERNAL_ERR as u8,
            reset_request: true,
        })
        .unwrap();
    assert_eq!(driver.bar32(SYNDROME) >> 16 & 0xff, 1);
    assert_eq!(driver.bar32(RFR) >> 31, 1);
    assert_eq!(driver.bar32(INITIALIZING) >> 30, 1, "a reset is offered");
    let order = driver.queue as u32 | raw::MLX5_INITIAL_SEG_NIC_INTERFACE_SW_RESET << 8;
    driver.card.bar_write(CMDQ_LOW, &order.to_be_bytes());
    assert_eq!(
        nic_state(&mut driver),
        raw::MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED
    );
    assert_eq!(driver.bar32(SYNDROME) >> 16 & 0xff, 0);
    assert_eq!((objects(&driver), driver.card.census().pages_given), (0, 0));
    driver.pages.clear();
    driver.program_queue();
    assert_eq!(nic_state(&mut driver), 0);
    driver.bring_up();
}

#[test]
fn a_new_queue_address_starts_over_even_without_a_reset() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let mut stale = driver.create_eq(uar, 6, 0, &[raw::MLX5_EVENT_TYPE_CMD]);
    driver.program_queue();
    assert_eq!((objects(&driver), driver.card.census().pages_given), (0, 0));
    driver.pages.clear();
    driver.bring_up();
    assert_eq!(driver.next_event(&mut stale), None, "the old EQ is silent");
}

#[test]
fn every_reset_wipes_the_function_and_leaves_host_memory_alone() {
    for reset in [Reset::Flr, Reset::Bus] {
        let mut driver = up();
        let pages = driver.pages.clone();
        for page in &pages {
            driver.machine.poke(*page, b"mine");
        }
        driver.card.reset(reset);
        assert_eq!((objects(&driver), driver.card.census().pages_given), (0, 0));
        assert!(pages
            .iter()
            .all(|page| driver.machine.peek(*page, 4) == b"mine"));
        driver.pages.clear();
        driver.program_queue();
        let query = Input::<ifc::query_issi_in>::new(raw::MLX5_CMD_OP_QUERY_ISSI);
        assert_eq!(driver.refused(query, 0x70).0, Status::BadSysState);
        driver.bring_up();
    }
}

#[test]
fn identity_and_counters_outlive_resets() {
    let mut driver = up();
    let commands: u64 = driver.card.counters().commands.values().sum();
    let lines = driver.card.trace().next();
    driver.card.reset(Reset::Flr);
    assert_eq!(
        driver.card.counters().commands.values().sum::<u64>(),
        commands
    );
    assert_eq!(driver.card.trace().next(), lines);
    assert_eq!(driver.card.counters().resets["flr"], 1);
    assert_eq!(driver.bar32(0), 36 << 16 | 22);
}
