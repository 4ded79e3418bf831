// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a congested switch does to a frame: the sender that can be told of congestion (ECT) finds
//! its packet marked (CE). RFC 3168.

use std::ops::Range;

const ETH_LEN: usize = 14;
const TAG_LEN: usize = 4;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Congestion experienced; both bits of the field.
const CE: u8 = 3;

fn half(frame: &[u8], at: usize) -> Option<u16> {
    match frame.get(at..at + 2)? {
        &[high, low] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

/// Where the IP header of a frame begins, behind at most two tags, and its EtherType.
fn network(frame: &[u8]) -> Option<(usize, u16)> {
    let mut at = ETH_LEN;
    for _ in 0..2 {
        if !TAGS.contains(&half(frame, at - 2)?) {
            break;
        }
        at += TAG_LEN;
    }
    Some((at, half(frame, at - 2)?))
}

/// Marks an IP packet whose sender is capable of ECN; true if the frame is one that was not marked
/// yet. The checksum of an IPv4 header follows; in IPv6 there is none.
pub(crate) fn mark(frame: &mut [u8]) -> bool {
    let Some((at, kind)) = network(frame) else {
        return false;
    };
    // The field is in the low bits of the second byte, or above the flow label in the middle of it.
    let shift = match kind {
        IPV4 => 0,
        IPV6 => 4,
        _ => return false,
    };
    let Some(byte) = frame.get_mut(at + 1) else {
        return false;
    };
    let found = *byte >> shift & CE;
    if found == 0 || found == CE {
        return false;
    }
    *byte |= CE << shift;
    if kind == IPV4 {
        correct(frame, at + 10..at + 12, u16::from(CE - found));
    }
    true
}

/// A word under a checksum has grown by `more` (RFC 1624, equation 3).
fn correct(frame: &mut [u8], place: Range<usize>, more: u16) {
    let Some(field) = frame.get_mut(place) else {
        return;
    };
    if let &mut [high, low] = field {
        let sum = u32::from(!u16::from_be_bytes([high, low])) + u32::from(more);
        // CAST: folded once, the carry cannot come again.
        let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
        field.copy_from_slice(&(!sum).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(tos: u8) -> Vec<u8> {
        // Addresses 10.0.17.1 and 10.0.18.1, as in a notification of a ConnectX-4 Lx whose TOS is 0xc2 and
        // checksum 0x9161 (scapy's regression tests).
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, tos, 0, 0x3c, 0x71, 0x8c, 0x40, 0, 0x40, 0x11]);
        let sum = 0x9161u16 + 0xc2 - u16::from(tos);
        frame.extend(sum.to_be_bytes());
        frame.extend([10, 0, 17, 1, 10, 0, 18, 1]);
        frame
    }

    fn tagged(frame: &[u8], tag: [u8; 4]) -> Vec<u8> {
        let mut longer = frame.to_vec();
        longer.splice(12..12, tag);
        longer
    }

    /// As the receiver computes it: 0xffff over a header with a right checksum.
    fn sum(header: &[u8]) -> u32 {
        let words = header
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum: u32 = words.sum();
        (sum & 0xffff) + (sum >> 16)
    }

    #[test]
    fn both_capable_values_become_ce_and_the_checksum_holds() {
        for tos in [0xc1, 0xc2, 0x01, 0x02] {
            let mut frame = v4(tos);
            assert_eq!(sum(&frame[14..]), 0xffff, "{tos:#x} before");
            assert!(mark(&mut frame));
            assert_eq!(frame[15], tos | 3);
            assert_eq!(sum(&frame[14..]), 0xffff, "{tos:#x} after");
            assert!(!mark(&mut frame), "marked once");
        }
    }

    #[test]
    fn a_checksum_that_runs_over_its_end_is_folded() {
        let mut frame = v4(2);
        // The identification makes the checksum 0 before, and 0xfffe after.
        frame[18..20].copy_from_slice(&(0x718cu16.wrapping_add(0x9161 + 0xc0)).to_be_bytes());
        frame[24..26].copy_from_slice(&[0, 0]);
        let before = sum(&frame[14..]);
        mark(&mut frame);
        assert_eq!(sum(&frame[14..]), before);
    }

    #[test]
    fn v6_and_tags_are_looked_through() {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x6c, 0x2f, 0x12, 0x34]);
        for tag in [[0x81, 0, 0x60, 5], [0x88, 0xa8, 0, 9]] {
            frame = tagged(&frame, tag);
            let mut other = frame.clone();
            assert!(mark(&mut other));
            let at = other.len() - 4;
            assert_eq!(other[at..], [0x6c, 0x3f, 0x12, 0x34]);
            assert_eq!(other[..at], frame[..at]);
        }
    }

    #[test]
    fn what_cannot_be_told_is_left_alone() {
        let arp = [[0; 12].as_slice(), &[8, 6, 0x45, 2, 0, 0, 0, 0]].concat();
        let three = tagged(
            &tagged(&tagged(&v4(2), [0x81, 0, 0, 1]), [0x81, 0, 0, 1]),
            [0x81, 0, 0, 1],
        );
        for frame in [v4(0xc0), v4(0xc3), arp, three, vec![8; 13], vec![]] {
            let mut same = frame.clone();
            assert!(!mark(&mut same));
            assert_eq!(same, frame);
        }
    }

    #[test]
    fn a_frame_that_ends_anywhere_is_no_panic() {
        let whole = tagged(&v4(2), [0x81, 0, 0, 1]);
        for len in 0..whole.len() {
            mark(&mut whole[..len].to_vec());
        }
    }
}
