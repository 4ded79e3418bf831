// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware pages: every one is accounted for, at every moment.

use device::{
    profile::Profile,
    scaffold::driver::{Driver, EventQueue, Input},
};
use mlx5_hw::{field, ifc, raw, status::Status};
use proptest::prelude::*;

const PD_OUT: usize = 16;

fn up() -> (Driver, EventQueue) {
    let mut driver = Driver::up(Profile::shipped("default").unwrap());
    let uar = driver.alloc_uar();
    let queue = driver.create_eq(uar, 8, 0, &[raw::MLX5_EVENT_TYPE_PAGE_REQUEST]);
    (driver, queue)
}

fn alloc_pd() -> Input<ifc::alloc_pd_in> {
    Input::new(raw::MLX5_CMD_OP_ALLOC_PD)
}

fn check(driver: &Driver) {
    let census = driver.card.census();
    assert_eq!(census.pages_given, driver.pages.len() as u64);
    assert!(census.pages_used <= census.pages_given, "{census:?}");
}

fn teardown(driver: &mut Driver) {
    driver.ok(
        Input::<ifc::teardown_hca_in>::new(raw::MLX5_CMD_OP_TEARDOWN_HCA),
        16,
    );
    while driver.take_pages(100) > 0 {}
    assert_eq!(driver.pages, [], "every page came back");
    driver.ok(
        Input::<ifc::disable_hca_in>::new(raw::MLX5_CMD_OP_DISABLE_HCA),
        12,
    );
}

#[test]
fn a_create_beyond_the_pages_waits_and_is_done_when_they_come() {
    let (mut driver, mut queue) = up();
    let parked = loop {
        driver.post(0, &alloc_pd().bytes, PD_OUT);
        driver.ring(1);
        match driver.answer(0, PD_OUT) {
            Some(answer) => assert_eq!(answer.unwrap().status, 0),
            None => break driver.card.census().objects["PD"],
        }
    };
    let asked = driver.serve_pages(&mut queue);
    assert!(asked.iter().all(|count| *count > 0), "{asked:?}");
    let answer = driver.answer(0, PD_OUT).expect("done with the pages");
    assert_eq!(answer.unwrap().status, 0);
    assert_eq!(driver.card.census().objects["PD"], parked + 1);
    check(&driver);
    teardown(&mut driver);
}

#[test]
fn a_host_that_cannot_give_gets_the_command_refused() {
    let (mut driver, _) = up();
    loop {
        driver.post(0, &alloc_pd().bytes, PD_OUT);
        driver.ring(1);
        if driver.answer(0, PD_OUT).is_none() {
            break;
        }
    }
    let cannot = Input::<ifc::manage_pages_in>::new(raw::MLX5_CMD_OP_MANAGE_PAGES);
    driver.post(31, &cannot.bytes, 16);
    driver.ring(1 << 31);
    assert!(driver.answer(31, 16).is_some());
    let answer = driver.answer(0, PD_OUT).expect("refused");
    assert_eq!(answer.unwrap().status, Status::NoRes.code());
    teardown(&mut driver);
}

#[test]
fn pages_nobody_asked_for_are_refused() {
    let (mut driver, _) = up();
    let page = driver.machine.alloc(4096 * 4096);
    let pages: Vec<u64> = (0..4096).map(|n| page + 4096 * n).collect();
    let give = Input::<ifc::manage_pages_in>::new(raw::MLX5_CMD_OP_MANAGE_PAGES)
        .op_mod(1)
        .set(field!(manage_pages_in, input_num_entries), 4096)
        .list(&pages);
    assert_eq!(driver.refused(give, 16), (Status::BadParam, 3));
}

#[test]
fn a_page_given_twice_or_not_aligned_is_refused() {
    let mut driver = Driver::new(Profile::shipped("default").unwrap());
    driver.ok(
        Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA),
        12,
    );
    let query = Input::<ifc::query_pages_in>::new(raw::MLX5_CMD_OP_QUERY_PAGES).op_mod(1);
    driver.ok(query, 16);
    let give = |pages: &[u64]| {
        Input::<ifc::manage_pages_in>::new(raw::MLX5_CMD_OP_MANAGE_PAGES)
            .op_mod(1)
            .set(
                field!(manage_pages_in, input_num_entries),
                pages.len() as u64,
            )
            .list(pages)
    };
    assert_eq!(
        driver.refused(give(&[0x5000, 0x5000]), 16),
        (Status::BadParam, 5)
    );
    assert_eq!(driver.refused(give(&[0x5800]), 16), (Status::BadParam, 4));
}

#[test]
fn disabling_with_pages_held_is_refused() {
    let mut driver = Driver::up(Profile::shipped("default").unwrap());
    driver.ok(
        Input::<ifc::teardown_hca_in>::new(raw::MLX5_CMD_OP_TEARDOWN_HCA),
        16,
    );
    let disable = Input::<ifc::disable_hca_in>::new(raw::MLX5_CMD_OP_DISABLE_HCA);
    assert_eq!(driver.refused(disable, 12).0, Status::BadResState);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn the_account_is_exact_whatever_is_made_and_freed(
        steps in proptest::collection::vec((0u8..8, 1usize..200), 1..40),
    ) {
        let (mut driver, mut queue) = up();
        let mut live = Vec::new();
        for (kind, count) in steps {
            for _ in 0..count {
                if kind < 5 {
                    driver.post(0, &alloc_pd().bytes, PD_OUT);
                    driver.ring(1);
                    if driver.answer(0, PD_OUT).is_none() {
                        driver.serve_pages(&mut queue);
                    }
                    let answer = driver.answer(0, PD_OUT).expect("answered");
                    live.push(answer.unwrap().number());
                } else if let Some(pd) = live.pop() {
                    let free = Input::new(raw::MLX5_CMD_OP_DEALLOC_PD)
                        .set(field!(dealloc_pd_in, pd), pd.into());
                    driver.ok(free, 16);
                }
                check(&driver);
            }
            driver.serve_pages(&mut queue);
            check(&driver);
        }
        teardown(&mut driver);
    }
}
