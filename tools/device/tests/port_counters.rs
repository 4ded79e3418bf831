// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups of PPCNT agree: every frame is in one class of size and has one priority.

use device::{
    priority::{Priorities, Trust},
    vport::{Direction, SIZE_CLASSES},
};

fn frame(len: usize, tci: Option<u16>) -> Vec<u8> {
    let mut frame = vec![2; 12];
    match tci {
        Some(tci) => {
            frame.extend_from_slice(&[0x81, 0]);
            frame.extend_from_slice(&tci.to_be_bytes());
        }
        None => frame.extend_from_slice(&[8, 0]),
    }
    frame.resize(len, 0);
    frame
}

#[test]
fn a_size_counts_with_its_fcs() {
    // Both ends of each class; lengths on the wire have four more bytes.
    let mut low = 64;
    for (class, high) in SIZE_CLASSES.into_iter().enumerate() {
        for len in [low, high] {
            let mut direction = Direction::default();
            direction.count(&frame(len - 4, None), false, 0);
            assert_eq!(direction.sizes[class], 1, "{len} bytes");
            assert_eq!(direction.sizes.iter().sum::<u64>(), 1);
        }
        low = high + 1;
    }
}

#[test]
fn the_tag_names_the_priority() {
    let priorities = Priorities::default();
    let mut direction = Direction::default();
    for frame in [
        frame(100, None),
        frame(100, Some(5 << 13 | 7)),
        frame(200, Some(5 << 13 | 0x1fff & 9)),
    ] {
        direction.count(&frame, false, priorities.of(&frame));
    }
    assert_eq!(direction.priorities[0].packets, 1);
    assert_eq!(direction.priorities[5].packets, 2);
    assert_eq!(direction.priorities[5].octets, 300);
    assert_eq!(direction.total().packets, 3);
}

/// A frame with a DSCP behind these tags; IPv6 if `six`.
fn marked(code_point: u8, tags: &[(u16, u16)], six: bool) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (tpid, tci) in tags {
        frame.extend_from_slice(&tpid.to_be_bytes());
        frame.extend_from_slice(&tci.to_be_bytes());
    }
    if six {
        let word = 6 << 28 | u32::from(code_point) << 22 | 0x000f_ffff;
        frame.extend_from_slice(&[0x86, 0xdd]);
        frame.extend_from_slice(&word.to_be_bytes());
    } else {
        // Both bits of congestion notification are set: they are no part of it.
        frame.extend_from_slice(&[8, 0, 0x45, code_point << 2 | 3]);
    }
    frame.resize(100, 0);
    frame
}

#[test]
fn a_port_that_trusts_the_dscp_looks_behind_tags() {
    let mut priorities = Priorities::default();
    priorities.of_code_point[10] = 3;
    priorities.of_code_point[46] = 5;
    let tagged = [(0x8100, 6 << 13 | 9)];
    let twice = [(0x88a8, 4 << 13 | 9), (0x8100, 6 << 13 | 9)];
    let arp = frame(60, Some(6 << 13));
    assert_eq!(priorities.of(&marked(10, &[], false)), 0, "no tag");
    assert_eq!(priorities.of(&marked(10, &tagged, false)), 6);

    priorities.trust = Trust::Dscp;
    for six in [false, true] {
        for tags in [[].as_slice(), &tagged, &twice] {
            assert_eq!(priorities.of(&marked(10, tags, six)), 3, "{tags:x?} {six}");
            assert_eq!(priorities.of(&marked(46, tags, six)), 5);
            assert_eq!(priorities.of(&marked(63, tags, six)), 7, "as it was made");
        }
    }
    // What is no IP has its tag; what cannot be seen has none.
    let mut other = arp;
    other[16..18].copy_from_slice(&[8, 6]);
    assert_eq!(priorities.of(&other), 6);
    assert_eq!(priorities.of(&marked(10, &tagged, false)[..18]), 6);
    assert_eq!(priorities.of(&marked(10, &[], false)[..14]), 0);
    for len in 0..40 {
        priorities.of(&marked(10, &twice, true)[..len]);
    }
}
