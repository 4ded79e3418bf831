// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of priorities and traffic classes: QCAM, QPTS, QPDPM, QTCT, QETCR; pauses in PPCNT.
//!
//! Offsets are counted by hand from the structures of include/linux/mlx5/mlx5_ifc.h.

use device::{
    profile::Profile,
    scaffold::driver::{Driver, Input},
};
use mlx5_hw::status::Status;

const QPTS: (u64, usize) = (0x4002, 8);
const QETCR: (u64, usize) = (0x4005, 80);
const QTCT: (u64, usize) = (0x400a, 8);
const QPDPM: (u64, usize) = (0x4013, 132);
const QCAM: (u64, usize) = (0x4019, 72);
const PFCC: (u64, usize) = (0x5007, 32);
const PPCNT: (u64, usize) = (0x5008, 256);

/// Bytes in front of the register in an answer.
const HEAD: usize = 16;

fn up() -> Driver {
    Driver::up(Profile::shipped("default").unwrap())
}

/// An empty register of the port.
fn blank((_, len): (u64, usize)) -> Vec<u8> {
    let mut data = vec![0; len];
    data[1] = 1;
    data
}

fn read(driver: &mut Driver, register: (u64, usize), data: &[u8]) -> Vec<u8> {
    let answer = driver.ok(Input::register(register.0, true, data), HEAD + register.1);
    answer.output[HEAD..HEAD + register.1].to_vec()
}

fn write(driver: &mut Driver, register: (u64, usize), data: &[u8]) {
    driver.ok(Input::register(register.0, false, data), HEAD + register.1);
}

/// The reason for which a write is refused, which changes nothing.
fn refused(driver: &mut Driver, register: (u64, usize), data: &[u8]) -> u16 {
    let before = read(driver, register, &blank(register));
    let input = Input::register(register.0, false, data);
    let (status, reason) = driver.refused(input, HEAD + register.1);
    assert_eq!(status, Status::BadParam);
    assert_eq!(read(driver, register, &blank(register)), before);
    reason
}

#[test]
fn qcam_tells_which_registers_are_there() {
    let mut driver = up();
    let out = read(&mut driver, QCAM, &[0; 72]);
    let mask = u128::from_be_bytes(out[8..24].try_into().unwrap());
    let there = [0x2, 0x5, 0xa, 0x13, 0x19].map(|bit| 1u128 << bit);
    assert_eq!(mask, there.iter().sum());
    assert_eq!(out[24..], [0; 48], "no features");
    for (at, reason) in [(1, 0x80), (3, 0x81)] {
        let mut ask = [0; 72];
        ask[at] = 1;
        let refused = driver.refused(Input::register(QCAM.0, true, &ask), HEAD + 72);
        assert_eq!(refused, (Status::BadParam, reason));
    }
    let refused = driver.refused(Input::register(QCAM.0, false, &[0; 72]), HEAD + 72);
    assert_eq!(refused, (Status::BadParam, 6), "read-only");
}

#[test]
fn reserved_bits_ports_and_lengths_are_refused() {
    let mut driver = up();
    for (register, reserved) in [
        (QPTS, [0, 2]),
        (QETCR, [0, 8]),
        (QTCT, [0, 7]),
        (QPDPM, [0, 4]),
        (QCAM, [0, 4]),
    ] {
        let (id, len) = register;
        for at in reserved {
            let mut data = blank(register);
            data[1] = u8::from(register != QCAM);
            data[at] = 0x08;
            for way in [false, true] {
                let refused = driver.refused(Input::register(id, way, &data), HEAD + len);
                assert_eq!(refused, (Status::BadParam, 4), "{id:#x} byte {at}");
            }
        }
        if register != QCAM {
            let mut data = blank(register);
            data[1] = 2;
            for way in [false, true] {
                let refused = driver.refused(Input::register(id, way, &data), HEAD + len);
                assert_eq!(refused, (Status::BadParam, 0x7020), "{id:#x}");
            }
        }
        let short = driver.refused(
            Input::register(id, true, &blank(register)[..len - 4]),
            HEAD + len,
        );
        assert_eq!(short.0, Status::BadInputLen);
    }
    // The stock driver names no port to these two.
    for (id, len) in [QETCR, QTCT] {
        driver.ok(Input::register(id, true, &vec![0; len]), HEAD + len);
    }
}

#[test]
fn trust_is_kept_and_only_the_two_states_are_known() {
    let mut driver = up();
    let mut data = blank(QPTS);
    assert_eq!(read(&mut driver, QPTS, &data)[7], 1, "tags at first");
    data[7] = 2;
    write(&mut driver, QPTS, &data);
    assert_eq!(read(&mut driver, QPTS, &blank(QPTS))[7], 2);
    for state in [0, 3, 7] {
        data[7] = state;
        assert_eq!(refused(&mut driver, QPTS, &data), 0x82, "{state}");
    }
}

#[test]
fn of_a_map_of_code_points_the_marked_entries_count() {
    let mut driver = up();
    let fresh = read(&mut driver, QPDPM, &blank(QPDPM));
    for code_point in 0..64 {
        assert_eq!(fresh[5 + 2 * code_point], code_point as u8 >> 3);
        assert_eq!(fresh[4 + 2 * code_point], 0, "not marked");
    }
    // What was read, one entry changed and marked, another changed and not: as `mlx5_set_dscp2prio` does.
    let mut data = fresh.clone();
    data[4 + 20..6 + 20].copy_from_slice(&[0x80, 3]);
    data[5 + 22] = 4;
    write(&mut driver, QPDPM, &data);
    let mut wanted = fresh;
    wanted[5 + 20] = 3;
    assert_eq!(read(&mut driver, QPDPM, &blank(QPDPM)), wanted);
    // One bad entry, and none is taken.
    let mut data = blank(QPDPM);
    data[4..8].copy_from_slice(&[0x80, 7, 0x80, 8]);
    assert_eq!(refused(&mut driver, QPDPM, &data), 0x83);
}

#[test]
fn each_priority_has_its_class() {
    let mut driver = up();
    let ask = |priority: u8| {
        let mut data = blank(QTCT);
        data[3] = priority;
        data
    };
    let classes = |driver: &mut Driver| {
        [0, 1, 2, 3, 4, 5, 6, 7].map(|priority| read(driver, QTCT, &ask(priority))[7])
    };
    assert_eq!(classes(&mut driver), [1, 0, 2, 3, 4, 5, 6, 7]);
    let mut data = ask(6);
    data[1] = 0;
    data[7] = 2;
    write(&mut driver, QTCT, &data);
    assert_eq!(classes(&mut driver), [1, 0, 2, 3, 4, 5, 2, 7]);
}

#[test]
fn a_card_of_few_classes_refuses_the_others() {
    let profile = "base = \"default\"\nname = \"few\"\n[caps.cmd_hca_cap]\nmax_tc = 4\n";
    let mut driver = Driver::up(Profile::parse(profile).unwrap());
    let mut data = blank(QTCT);
    data[3] = 1;
    data[7] = 4;
    assert_eq!(refused(&mut driver, QTCT, &data), 0x84);
    data[7] = 3;
    write(&mut driver, QTCT, &data);
    let mut data = blank(QETCR);
    data[8 + 4 * 8] = 0x80;
    assert_eq!(refused(&mut driver, QETCR, &data), 0x87);
    assert_eq!(
        read(&mut driver, QETCR, &blank(QETCR))[8 + 4 * 8..72],
        [0; 32]
    );
}

/// Entry of a class: what counts, group, share, unit and value of the rate.
fn class(data: &mut [u8], index: usize, counts: u8, group: u8, share: u8, rate: (u8, u16)) {
    let at = 8 + 8 * index;
    let [high, low] = rate.1.to_be_bytes();
    data[at..at + 8].copy_from_slice(&[counts, group, 0, share, 0, rate.0, high, low]);
}

const GROUP: u8 = 0x80;
const SHARE: u8 = 0x40;
const RATE: u8 = 0x20;

/// Group and share of each class.
const SHARES: [(u8, u8); 8] = [
    (0, 20),
    (0, 30),
    (0, 50),
    (1, 100),
    (2, 100),
    (3, 100),
    (4, 100),
    (5, 100),
];

/// As the stock driver sets shares: 20, 30 and 50 percent in group 0, the others strictly one after the other.
fn shares(driver: &mut Driver) {
    let (mut groups, mut bandwidth) = (vec![0; 80], vec![0; 80]);
    for (index, (group, share)) in SHARES.into_iter().enumerate() {
        class(&mut groups, index, GROUP, group, 0, (0, 0));
        class(&mut bandwidth, index, SHARE, 0, share, (0, 0));
    }
    write(driver, QETCR, &groups);
    write(driver, QETCR, &bandwidth);
}

#[test]
fn shares_are_kept_when_they_make_a_whole() {
    let mut driver = up();
    let fresh = read(&mut driver, QETCR, &[0; 80]);
    for index in 0..8 {
        assert_eq!(fresh[8 + 8 * index..][..8], [0, 7, 0, 100, 0, 0, 0, 0]);
    }
    shares(&mut driver);
    let mut wanted = vec![0; 80];
    for (index, (group, share)) in SHARES.into_iter().enumerate() {
        class(&mut wanted, index, 0, group, share, (0, 0));
    }
    assert_eq!(read(&mut driver, QETCR, &[0; 80]), wanted);

    let mut data = vec![0; 80];
    class(&mut data, 0, SHARE, 0, 21, (0, 0));
    assert_eq!(refused(&mut driver, QETCR, &data), 0x8a, "101 percent");
    class(&mut data, 1, SHARE, 0, 29, (0, 0));
    write(&mut driver, QETCR, &data);
    for share in [0, 101, 127] {
        class(&mut data, 0, SHARE, 0, share, (0, 0));
        assert_eq!(refused(&mut driver, QETCR, &data), 0x89, "{share} percent");
    }
    let mut data = vec![0; 80];
    class(&mut data, 3, GROUP, 8, 0, (0, 0));
    assert_eq!(refused(&mut driver, QETCR, &data), 0x88);
}

#[test]
fn rates_are_kept_by_class_and_for_the_port() {
    let mut driver = up();
    let mut data = vec![0; 80];
    class(&mut data, 2, RATE, 0, 0, (3, 15));
    class(&mut data, 5, RATE, 0, 0, (4, 255));
    // Not marked: nothing of it counts.
    class(&mut data, 6, 0, 9, 120, (9, 9));
    data[72..].copy_from_slice(&[0x20, 0, 0, 0, 0, 4, 0, 40]);
    write(&mut driver, QETCR, &data);
    let out = read(&mut driver, QETCR, &[0; 80]);
    assert_eq!(out[8 + 16..][..8], [0, 7, 0, 100, 0, 3, 0, 15]);
    assert_eq!(out[8 + 40..][..8], [0, 7, 0, 100, 0, 4, 0, 255]);
    assert_eq!(out[8 + 48..][..8], [0, 7, 0, 100, 0, 0, 0, 0]);
    assert_eq!(out[72..], [0, 0, 0, 0, 0, 4, 0, 40]);

    let mut none = vec![0; 80];
    class(&mut none, 2, RATE, 0, 0, (0, 15));
    write(&mut driver, QETCR, &none);
    assert_eq!(read(&mut driver, QETCR, &[0; 80])[8 + 16..][4..8], [0; 4]);

    for (rate, reason) in [
        ((1, 5), 0x85),
        ((15, 5), 0x85),
        ((3, 256), 0x86),
        ((4, 0), 0x86),
    ] {
        let mut data = vec![0; 80];
        class(&mut data, 0, RATE, 0, 0, rate);
        assert_eq!(refused(&mut driver, QETCR, &data), reason, "{rate:?}");
    }
    let mut data = vec![0; 80];
    data[72..].copy_from_slice(&[0x20, 0, 0, 0, 0, 2, 0, 40]);
    assert_eq!(refused(&mut driver, QETCR, &data), 0x85);
}

#[test]
fn a_reset_forgets_it_all() {
    let mut driver = up();
    shares(&mut driver);
    let mut trust = blank(QPTS);
    trust[7] = 2;
    write(&mut driver, QPTS, &trust);
    driver.card.reset(device::card::Reset::Flr);
    driver.program_queue();
    driver.bring_up();
    assert_eq!(read(&mut driver, QPTS, &blank(QPTS))[7], 1);
    assert_eq!(read(&mut driver, QETCR, &[0; 80])[9], 7);
}

fn counter(out: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(out[8 + at..16 + at].try_into().unwrap())
}

fn group(driver: &mut Driver, group: u8, priority: u8) -> Vec<u8> {
    let mut ask = blank(PPCNT);
    ask[3] = group;
    ask[7] = priority;
    read(driver, PPCNT, &ask)
}

fn control(opcode: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08];
    frame.extend_from_slice(&opcode.to_be_bytes());
    frame.extend_from_slice(rest);
    frame.resize(60, 0);
    frame
}

#[test]
fn pauses_are_counted_by_priority_and_go_no_further() {
    let mut driver = up();
    driver.card.set_link(true);
    let mut enable = blank(PFCC);
    enable[5] = 0xff;
    enable[7] = 0xff;
    enable[9] = 0x0a;
    enable[13] = 0x0a;
    write(&mut driver, PFCC, &enable);
    driver.card.receive(&control(0x0101, &[0, 0x0a]));
    driver.card.receive(&control(0x0101, &[0, 0x08]));
    driver.card.receive(&control(0x0001, &[0xff, 0xff]));
    driver.card.receive(&control(0x0002, &[0xff, 0xff]));
    driver.card.receive(&control(0x0101, &[])[..16]);
    // rx_pause and tx_pause of the priority.
    for (priority, pauses) in [1, 1, 0, 2, 0, 0, 0, 0].into_iter().enumerate() {
        let out = group(&mut driver, 0x10, priority as u8);
        assert_eq!(counter(&out, 0x50), pauses, "priority {priority}");
        assert_eq!((counter(&out, 0x60), counter(&out, 0x20)), (0, 0));
    }
    // Frames and pauses of the link: a_frames_received_ok, a_pause_mac_ctrl_frames_received.
    let out = group(&mut driver, 0, 0);
    assert_eq!((counter(&out, 0x8), counter(&out, 0x88)), (0, 1));
}
