// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ports and the cable between them.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fabric::{CableError, Cables, Capture, Faults, LinkSpec, Port};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

const PATIENCE: Duration = Duration::from_secs(5);

/// A socket path of this test alone.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fabric-{}-{name}", std::process::id()))
}

fn pair(name: &str) -> (Port, Port) {
    let path = path(name);
    let one = Port::open(LinkSpec::Connect(path.clone()), None).unwrap();
    let two = Port::open(LinkSpec::Listen(path), None).unwrap();
    (one, two)
}

/// Runs the ports, waiting on their descriptors, until `done` says so.
fn run(ports: [&Port; 2], mut done: impl FnMut(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let start = Instant::now();
    while !done(&got) {
        assert!(start.elapsed() < PATIENCE, "nothing more comes");
        let mut fds = ports.map(|port| PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN));
        let timeout = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&timeout)).unwrap();
        for port in ports {
            port.process(&mut |frame| got.push(frame.to_vec()));
        }
    }
    got
}

fn up(one: &Port, two: &Port) {
    run([one, two], |_| one.link() && two.link());
}

fn frames(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|i| vec![i; 60 + usize::from(i)]).collect()
}

#[test]
fn frames_cross_in_order_and_are_counted() {
    let (one, two) = pair("order");
    assert!(!one.link() && !two.link());
    up(&one, &two);
    for frame in frames(100) {
        one.send(&frame);
    }
    let got = run([&one, &two], |got| got.len() == 100);
    assert_eq!(got, frames(100));
    assert_eq!(one.counters().tx_frames, 100);
    assert_eq!(two.counters().rx_bytes, one.counters().tx_bytes);
}

#[test]
fn more_than_the_socket_holds_waits_and_arrives() {
    let (one, two) = pair("full");
    up(&one, &two);
    let frame = vec![7; 4000];
    for _ in 0..3000 {
        one.send(&frame);
    }
    let got = run([&one, &two], |got| got.len() == 3000);
    assert!(got.iter().all(|got| *got == frame));
    assert_eq!(one.counters().tx_overflow, 0);
}

#[test]
fn the_queue_is_bounded_and_counts_what_it_drops() {
    let (one, two) = pair("bounded");
    up(&one, &two);
    for _ in 0..12_000 {
        one.send(&[1; 9000]);
    }
    assert!(one.counters().tx_overflow > 0);
    let expected = 12_000 - one.counters().tx_overflow;
    run([&one, &two], |got| got.len() as u64 == expected);
}

#[test]
fn pulling_the_cable_takes_the_carrier_from_both_ends() {
    let (one, two) = pair("cable");
    up(&one, &two);
    one.set_cable(false);
    run([&one, &two], |_| !one.link() && !two.link());
    two.send(&[0; 60]);
    assert_eq!(two.counters().tx_refused, 1);
    one.set_cable(true);
    up(&one, &two);
}

#[test]
fn the_other_end_may_go_and_come_back() {
    let (one, two) = pair("again");
    up(&one, &two);
    drop(two);
    let none = Port::open(LinkSpec::None, None).unwrap();
    run([&one, &none], |_| !one.link());
    let two = Port::open(LinkSpec::Listen(path("again")), None).unwrap();
    up(&one, &two);
    one.send(&[9; 60]);
    assert_eq!(run([&one, &two], |got| got.len() == 1), [vec![9; 60]]);
}

#[test]
fn a_live_socket_path_is_not_taken_over() {
    let (_one, _two) = pair("taken");
    assert!(Port::open(LinkSpec::Listen(path("taken")), None).is_err());
}

#[test]
fn silence_has_a_carrier_and_nothing_has_none() {
    let silent = Port::open(LinkSpec::Silent, None).unwrap();
    assert_eq!(silent.process(&mut |_| ()), Some(true));
    assert_eq!(silent.process(&mut |_| ()), None);
    silent.send(&[0; 60]);
    assert_eq!(silent.counters().tx_frames, 1);
    let none = Port::open(LinkSpec::None, None).unwrap();
    assert_eq!(none.process(&mut |_| ()), None);
    assert!(!none.link());
}

#[test]
fn loss_and_duplication_do_what_they_say() {
    let (one, two) = pair("loss");
    up(&one, &two);
    one.set_faults(Faults {
        loss_every: 4,
        ..Faults::default()
    });
    frames(8).iter().for_each(|frame| one.send(frame));
    let got = run([&one, &two], |got| got.len() == 6);
    assert_eq!(
        got.iter().map(|frame| frame[0]).collect::<Vec<_>>(),
        [0, 1, 2, 4, 5, 6]
    );
    one.set_faults(Faults {
        duplicate: 1.0,
        ..Faults::default()
    });
    one.send(&[1; 60]);
    assert_eq!(run([&one, &two], |got| got.len() == 2).len(), 2);
    assert_eq!((one.counters().lost, one.counters().duplicated), (2, 1));
}

#[test]
fn reorder_lets_the_next_frame_overtake_and_never_loses() {
    let (one, two) = pair("reorder");
    up(&one, &two);
    one.set_faults(Faults {
        reorder: 1.0,
        ..Faults::default()
    });
    frames(3).iter().for_each(|frame| one.send(frame));
    // The third is held with nobody behind it: time releases it.
    let got = run([&one, &two], |got| got.len() == 3);
    assert_eq!(
        got.iter().map(|frame| frame[0]).collect::<Vec<_>>(),
        [1, 0, 2]
    );
}

#[test]
fn only_packets_that_are_capable_of_ecn_are_marked_and_counted() {
    let (one, two) = pair("ecn");
    up(&one, &two);
    // IPv6 with traffic class 0x02 and 0x00, and what is no IP.
    let v6 = |class: u8| {
        [
            [0; 12].as_slice(),
            &[0x86, 0xdd, 0x60 | class >> 4, class << 4],
            &[0; 60],
        ]
        .concat()
    };
    let sent = [v6(2), v6(0), vec![2; 60]];
    one.set_faults(Faults {
        ecn: 1.0,
        ..Faults::default()
    });
    sent.iter().for_each(|frame| one.send(frame));
    let got = run([&one, &two], |got| got.len() == 3);
    assert_eq!(got, [v6(3), v6(0), vec![2; 60]]);
    assert_eq!((one.counters().marked, two.counters().marked), (1, 0));
    one.set_faults(Faults::default());
    one.send(&sent[0]);
    assert_eq!(run([&one, &two], |got| got.len() == 1), [v6(2)]);
    assert_eq!(one.counters().marked, 1);
}

#[test]
fn delay_holds_every_frame_for_its_time() {
    let (one, two) = pair("delay");
    up(&one, &two);
    one.set_faults(Faults {
        delay: Duration::from_millis(50),
        ..Faults::default()
    });
    let start = Instant::now();
    frames(2).iter().for_each(|frame| one.send(frame));
    assert_eq!(run([&one, &two], |got| got.len() == 2), frames(2));
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn capture_holds_what_passed() {
    let file = path("capture.pcap");
    let silent = Port::open(LinkSpec::Silent, Some(Capture::create(&file).unwrap())).unwrap();
    silent.process(&mut |_| ());
    silent.send(&[0xab; 77]);
    let mut reader = pcap_file::pcap::PcapReader::new(std::fs::File::open(&file).unwrap()).unwrap();
    let packet = reader.next_packet().unwrap().unwrap();
    assert_eq!(&packet.data[..], &[0xab; 77]);
    assert!(reader.next_packet().is_none());
    std::fs::remove_file(file).unwrap();
}

#[test]
fn ports_of_one_process_are_joined_by_name() {
    let mut cables = Cables::default();
    let mut open = |name: &str| cables.open(LinkSpec::Join(name.into()), None);
    let [one, other, two] = ["a", "b", "a"].map(|name| open(name).unwrap());
    assert!(matches!(open("a"), Err(CableError::Third(name)) if name == "a"));
    up(&one, &two);
    for frame in frames(50) {
        one.send(&frame);
        two.send(&frame);
    }
    let got = run([&one, &two], |got| got.len() == 100);
    assert_eq!(got.iter().filter(|frame| frame[0] == 7).count(), 2);
    // The other cable saw nothing, and has only one end.
    assert_eq!(other.counters().rx_frames, 0);
    assert!(matches!(cables.close(), Err(CableError::Loose(name)) if name == "b"));
    // Both ends see the cable pulled, and plugged in again.
    two.set_cable(false);
    run([&one, &two], |_| !one.link() && !two.link());
    two.set_cable(true);
    up(&one, &two);
    // Nothing else opens such a port.
    assert!(Port::open(LinkSpec::Join("c".into()), None).is_err());
}

#[test]
fn a_port_that_is_gone_takes_the_carrier_of_the_other_with_it() {
    let mut cables = Cables::default();
    let mut open = || cables.open(LinkSpec::Join("a".into()), None).unwrap();
    let (one, two) = (open(), open());
    up(&one, &two);
    drop(two);
    run([&one, &one], |_| !one.link());
    one.send(&[0; 60]);
    assert_eq!(one.counters().tx_refused, 1);
}
