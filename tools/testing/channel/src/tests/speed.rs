// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speeds of a port, against the names of the protocols in include/linux/mlx5/port.h: lanes times
//! speed of a lane is the number in the name.

use crate::port::speed::{Lane, Speed};

/// Tenths of Gb/s.
fn rate(speed: Speed) -> u32 {
    let lane = match speed.lane {
        Lane::Sdr => 25,
        Lane::Ddr => 50,
        Lane::Qdr => 100,
        Lane::Fdr => 140,
        Lane::Edr => 250,
        Lane::Hdr => 500,
        Lane::Ndr => 1000,
        Lane::Xdr => 2000,
    };
    u32::from(speed.lanes) * lane
}

#[test]
fn protocols_add_up_to_their_names() {
    for (bit, gbps) in [
        (4, 10),
        (6, 40),
        (7, 40),
        (8, 56),
        (12, 10),
        (15, 40),
        (18, 50),
        (20, 100),
        (22, 100),
        (26, 10),
        (27, 25),
        (30, 50),
    ] {
        let speed = Speed::of_legacy(1 << bit).unwrap();
        assert_eq!(rate(speed), gbps * 10, "bit {bit}");
    }
    for (bit, lanes, gbps) in [
        (3, 1, 5),
        (4, 1, 10),
        (5, 4, 40),
        (6, 1, 25),
        (7, 2, 50),
        (8, 1, 50),
        (9, 4, 100),
        (10, 2, 100),
        (11, 1, 100),
        (12, 4, 200),
        (13, 2, 200),
        (14, 1, 200),
        (15, 8, 400),
        (16, 4, 400),
        (17, 2, 400),
        (19, 8, 800),
        (20, 4, 800),
        (23, 8, 1600),
    ] {
        let speed = Speed::of_extended(1 << bit).unwrap();
        assert_eq!((speed.lanes, rate(speed)), (lanes, gbps * 10), "bit {bit}");
    }
}

#[test]
fn none_several_and_unknown_are_no_speed() {
    for bits in [0, 3, 1 << 5, 1 << 9, u32::MAX] {
        assert_eq!(Speed::of_legacy(bits), None, "{bits:#x}");
    }
    for bits in [0, 0x600, 1 << 2, 1 << 18, 1 << 31] {
        assert_eq!(Speed::of_extended(bits), None, "{bits:#x}");
    }
}
