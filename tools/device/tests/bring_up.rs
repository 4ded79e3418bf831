// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the queue address to INIT_HCA and back, as the stock driver does it.

use device::{
    profile::Profile,
    scaffold::driver::{Driver, Input},
};
use mlx5_hw::{field, ifc, raw, status::Status};

fn profile() -> Profile {
    Profile::shipped("default").unwrap()
}

#[test]
fn every_shipped_profile_loads() {
    for name in ["default", "minimal", "small", "degraded"] {
        Profile::shipped(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn up_and_down_returns_every_page() {
    let mut driver = Driver::up(profile());
    assert_eq!(driver.card.census().pages_given, driver.pages.len() as u64);
    driver.ok(
        Input::<ifc::teardown_hca_in>::new(raw::MLX5_CMD_OP_TEARDOWN_HCA),
        16,
    );
    while driver.take_pages(7) > 0 {}
    assert!(driver.pages.is_empty());
    driver.ok(
        Input::<ifc::disable_hca_in>::new(raw::MLX5_CMD_OP_DISABLE_HCA),
        12,
    );
    driver.bring_up();
}

#[test]
fn init_without_its_pages_is_refused() {
    let mut driver = Driver::new(profile());
    driver.ok(
        Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA),
        12,
    );
    driver.give_startup_pages(1);
    let init = Input::<ifc::init_hca_in>::new(raw::MLX5_CMD_OP_INIT_HCA);
    assert_eq!(driver.refused(init, 16).0, Status::NoRes);
}

#[test]
fn commands_before_their_phase_are_refused() {
    let mut driver = Driver::new(profile());
    let query = Input::<ifc::query_issi_in>::new(raw::MLX5_CMD_OP_QUERY_ISSI);
    assert_eq!(driver.refused(query, 0x70).0, Status::BadSysState);
    driver.ok(
        Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA),
        12,
    );
    let pd = Input::<ifc::alloc_pd_in>::new(raw::MLX5_CMD_OP_ALLOC_PD);
    assert_eq!(driver.refused(pd, 16).0, Status::BadSysState);
}

#[test]
fn the_general_capabilities_can_be_echoed_as_the_stock_driver_does() {
    let mut driver = Driver::new(profile());
    driver.ok(
        Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA),
        12,
    );
    let query = Input::<ifc::query_hca_cap_in>::new(raw::MLX5_CMD_OP_QUERY_HCA_CAP).op_mod(1);
    let current = driver.ok(query, 0x1010).output;
    let mut set = Input::<ifc::set_hca_cap_in>::new(raw::MLX5_CMD_OP_SET_HCA_CAP);
    set.bytes[16..].copy_from_slice(&current[16..]);
    let set = set
        .set(
            field!(set_hca_cap_in, capability.cmd_hca_cap.cmdif_checksum),
            0,
        )
        .set(
            field!(set_hca_cap_in, capability.cmd_hca_cap.log_max_qp),
            17,
        );
    driver.ok(set, 16);
}

#[test]
fn a_capability_above_its_maximum_is_refused_and_named() {
    let mut driver = Driver::new(profile());
    driver.ok(
        Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA),
        12,
    );
    let query = Input::<ifc::query_hca_cap_in>::new(raw::MLX5_CMD_OP_QUERY_HCA_CAP).op_mod(1);
    let current = driver.ok(query, 0x1010).output;
    let mut set = Input::<ifc::set_hca_cap_in>::new(raw::MLX5_CMD_OP_SET_HCA_CAP);
    set.bytes[16..].copy_from_slice(&current[16..]);
    let set = set.set(
        field!(set_hca_cap_in, capability.cmd_hca_cap.log_max_qp),
        31,
    );
    assert_eq!(driver.refused(set, 16), (Status::BadParam, 3));
    let line = driver.card.trace().since(0).last().unwrap().text.clone();
    assert!(line.contains("log_max_qp"), "{line}");
}
