// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups of PPCNT agree: every frame is in one class of size and has one priority.

use device::vport::{Direction, SIZE_CLASSES};

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
            direction.count(&frame(len - 4, None), false);
            assert_eq!(direction.sizes[class], 1, "{len} bytes");
            assert_eq!(direction.sizes.iter().sum::<u64>(), 1);
        }
        low = high + 1;
    }
}

#[test]
fn the_tag_names_the_priority() {
    let mut direction = Direction::default();
    direction.count(&frame(100, None), false);
    direction.count(&frame(100, Some(5 << 13 | 7)), false);
    direction.count(&frame(200, Some(5 << 13 | 0x1fff & 9)), false);
    assert_eq!(direction.priorities[0].packets, 1);
    assert_eq!(direction.priorities[5].packets, 2);
    assert_eq!(direction.priorities[5].octets, 300);
    assert_eq!(direction.total().packets, 3);
}
