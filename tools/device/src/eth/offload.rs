// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the send and receive engines do to the checksums of a frame.

use super::checksum::Sum;
use super::frame::{protocol, Headers, Ip, Version, L4};

/// Which checksums a send WQE asks for (`cs_flags` of its Ethernet segment).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// IPv4 header checksum.
    pub l3: bool,
    /// TCP or UDP checksum.
    pub l4: bool,
}

/// Computes the requested checksums of a frame in place. What is in the fields (the stack leaves
/// the sum of the pseudo header there) does not matter. Frames that carry nothing of the kind, or
/// only a fragment of it, stay as they are.
pub fn fill(frame: &mut [u8], headers: &Headers, request: Request) {
    let Some(ip) = headers.ip else { return };
    if request.l3 && ip.version == Version::V4 {
        let at = headers.l3_at;
        put(frame, at + 10, 0);
        if let Some(header) = frame.get(at..at + ip.header_len) {
            let checksum = Sum::new().bytes(header).checksum();
            put(frame, at + 10, checksum);
        }
    }
    if !request.l4 {
        return;
    }
    let (at, protocol) = match headers.l4 {
        Some(L4::Tcp { .. }) => (ip.payload_at + 16, protocol::TCP),
        Some(L4::Udp { .. }) => (ip.payload_at + 6, protocol::UDP),
        _ => return,
    };
    if headers.segment(frame).is_none() {
        return;
    }
    put(frame, at, 0);
    let Some(segment) = headers.segment(frame) else {
        return;
    };
    let mut checksum = segment_sum(&ip, protocol, segment).checksum();
    if protocol == protocol::UDP && checksum == 0 {
        // Zero means "no checksum" there (RFC 768).
        checksum = 0xffff;
    }
    put(frame, at, checksum);
}

/// What the receive engine found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// CQE member `check_sum`: from the IP header, behind all VLAN tags, to the end of the
    /// datagram, without Ethernet padding (`mlx5e_skb_csum_fixup` in core/en_rx.c adds those). The
    /// whole payload where there is no IP datagram.
    pub sum: u16,
    /// Intact IP header; IPv4: with a right checksum.
    pub l3_ok: bool,
    /// TCP or UDP with a right checksum (or none, in UDP over IPv4).
    pub l4_ok: bool,
}

/// Checks a received frame.
pub fn check(frame: &[u8], headers: &Headers) -> Verdict {
    let datagram = headers.datagram(frame);
    let covered = datagram.or(frame.get(headers.l3_at..)).unwrap_or_default();
    let mut verdict = Verdict {
        sum: Sum::new().bytes(covered).folded(),
        l3_ok: false,
        l4_ok: false,
    };
    let (Some(ip), Some(datagram)) = (headers.ip, datagram) else {
        return verdict;
    };
    verdict.l3_ok = match ip.version {
        Version::V4 => {
            let header = datagram.get(..ip.header_len).unwrap_or_default();
            Sum::new().bytes(header).folded() == 0xffff
        }
        Version::V6 => true,
    };
    let Some(segment) = headers.segment(frame) else {
        return verdict;
    };
    verdict.l4_ok = match headers.l4 {
        Some(L4::Tcp { .. }) => segment_sum(&ip, protocol::TCP, segment).folded() == 0xffff,
        Some(L4::Udp { .. }) => {
            let none = segment.get(6..8) == Some(&[0, 0]);
            match (ip.version, none) {
                (Version::V4, true) => true,
                (Version::V6, true) => false,
                (_, false) => segment_sum(&ip, protocol::UDP, segment).folded() == 0xffff,
            }
        }
        _ => false,
    };
    verdict
}

fn segment_sum(ip: &Ip, protocol: u8, segment: &[u8]) -> Sum {
    // CAST: a segment is at most 64 KiB long, its length field has 16 bits.
    Sum::new()
        .pseudo(ip, protocol, segment.len() as u32)
        .bytes(segment)
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(field) = frame.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eth::testing::{frame_v4, frame_v6, is_right, tagged, ALL};

    fn filled(mut frame: Vec<u8>, request: Request) -> Vec<u8> {
        let headers = Headers::parse(&frame).unwrap();
        fill(&mut frame, &headers, request);
        frame
    }

    #[test]
    fn filled_frames_are_right_by_an_independent_sum() {
        for kind in [protocol::TCP, protocol::UDP] {
            for len in [0, 1, 2, 999, 1460] {
                let payload = vec![0xa5; len];

                assert!(is_right(&filled(frame_v4(kind, &payload), ALL)));
                assert!(is_right(&filled(frame_v6(kind, &payload), ALL)));
            }
        }
    }

    #[test]
    fn nothing_changes_without_a_request() {
        let frame = frame_v4(protocol::TCP, b"x");

        assert_eq!(filled(frame.clone(), Request::default()), frame);
    }

    #[test]
    fn a_fragment_keeps_its_payload() {
        let mut frame = frame_v4(protocol::UDP, b"payload");
        frame[20] = 0x20;
        let before = frame[34..].to_vec();

        let after = filled(frame, ALL);

        assert_eq!(after[34..], before);
    }

    #[test]
    fn check_agrees_with_fill_and_sees_each_flipped_bit() {
        for frame in [
            frame_v4(protocol::TCP, b"payload"),
            frame_v6(protocol::UDP, b"payload"),
            tagged(&frame_v4(protocol::UDP, b"odd"), 0x8100, 5),
        ] {
            let good = filled(frame, ALL);
            let headers = Headers::parse(&good).unwrap();
            let verdict = check(&good, &headers);
            assert!(verdict.l3_ok && verdict.l4_ok);

            let mut bad = good.clone();
            *bad.last_mut().unwrap() ^= 0x10;
            assert!(!check(&bad, &headers).l4_ok);
            assert_ne!(check(&bad, &headers).sum, verdict.sum);
        }
    }

    #[test]
    fn padding_is_not_in_the_sum() {
        let good = filled(frame_v4(protocol::UDP, b"abc"), ALL);
        let headers = Headers::parse(&good).unwrap();
        let mut padded = good.clone();
        padded.resize(60, 0x77);

        assert_eq!(check(&padded, &headers), check(&good, &headers));
    }

    #[test]
    fn udp_without_checksum_is_fine_over_ipv4_only() {
        let mut v4 = filled(frame_v4(protocol::UDP, b"abc"), ALL);
        v4[40..42].fill(0);
        let mut v6 = filled(frame_v6(protocol::UDP, b"abc"), ALL);
        v6[60..62].fill(0);

        assert!(check(&v4, &Headers::parse(&v4).unwrap()).l4_ok);
        assert!(!check(&v6, &Headers::parse(&v6).unwrap()).l4_ok);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(mut frame in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(headers) = Headers::parse(&frame) {
                check(&frame, &headers);
                fill(&mut frame, &headers, ALL);
            }
        }

        #[test]
        fn no_damage_to_a_real_frame_panics(
            v6: bool,
            cut in 0usize..140,
            damage in proptest::collection::vec((0usize..140, proptest::num::u8::ANY), 0..8),
        ) {
            let mut frame = if v6 {
                frame_v6(protocol::TCP, &[1; 60])
            } else {
                frame_v4(protocol::UDP, &[1; 60])
            };
            for (at, byte) in damage {
                if let Some(old) = frame.get_mut(at) {
                    *old = byte;
                }
            }
            frame.truncate(cut);
            if let Some(headers) = Headers::parse(&frame) {
                check(&frame, &headers);
                fill(&mut frame, &headers, ALL);
                let _ = crate::eth::lso::cut(&frame, &[0; 100], 10, ALL, |_| ());
            }
        }
    }
}
