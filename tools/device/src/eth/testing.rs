// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames for tests, and a second opinion on checksums that shares no code with the model.

use super::frame::protocol;
use super::offload::Request;

/// Both checksums.
pub(crate) const ALL: Request = Request { l3: true, l4: true };

/// Destination MAC of the frames.
pub(crate) const DMAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Source MAC of the frames.
pub(crate) const SMAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn l4(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend_from_slice(&[0x30, 0x39, 0x00, 0x50]);
    if kind == protocol::TCP {
        segment.extend_from_slice(&[0xff, 0xff, 0xff, 0x00, 0, 0, 0, 1]);
        segment.extend_from_slice(&[0x50, 0x18, 0x01, 0x00, 0xde, 0xad, 0, 0]);
    } else {
        segment.extend_from_slice(&((payload.len() + 8) as u16).to_be_bytes());
        segment.extend_from_slice(&[0xde, 0xad]);
    }
    segment.extend_from_slice(payload);
    segment
}

/// An IPv4 frame with wrong checksums.
pub(crate) fn frame_v4(kind: u8, payload: &[u8]) -> Vec<u8> {
    let segment = l4(kind, payload);
    let mut frame = [DMAC.as_slice(), &SMAC, &[0x08, 0x00]].concat();
    frame.extend_from_slice(&[0x45, 0]);
    frame.extend_from_slice(&((segment.len() + 20) as u16).to_be_bytes());
    frame.extend_from_slice(&[0x12, 0x34, 0x40, 0, 64, kind, 0xbe, 0xef]);
    frame.extend_from_slice(&[192, 168, 1, 1, 192, 168, 1, 2]);
    frame.extend_from_slice(&segment);
    frame
}

/// An IPv6 frame with a wrong checksum.
pub(crate) fn frame_v6(kind: u8, payload: &[u8]) -> Vec<u8> {
    let segment = l4(kind, payload);
    let mut frame = [DMAC.as_slice(), &SMAC, &[0x86, 0xdd]].concat();
    frame.extend_from_slice(&[0x60, 0, 0, 0]);
    frame.extend_from_slice(&(segment.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[kind, 64]);
    frame.extend_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend_from_slice(&segment);
    frame
}

/// The same frame with a VLAN tag.
pub(crate) fn tagged(frame: &[u8], tpid: u16, tci: u16) -> Vec<u8> {
    let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// Adds words the slow way: one at a time, the carry put back at once.
fn slow_sum(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0u16, |sum, pair| {
        let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// Whether all checksums of an untagged frame are right.
pub(crate) fn is_right(frame: &[u8]) -> bool {
    let (addresses, kind, segment) = if frame[12] == 0x08 {
        if slow_sum(&frame[14..34]) != 0xffff {
            return false;
        }
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        (&frame[26..34], frame[23], &frame[34..14 + total])
    } else {
        let len = usize::from(u16::from_be_bytes([frame[18], frame[19]]));
        (&frame[22..54], frame[20], &frame[54..54 + len])
    };
    let mut all = addresses.to_vec();
    all.extend_from_slice(&(segment.len() as u32).to_be_bytes());
    all.extend_from_slice(&[0, 0, 0, kind]);
    all.extend_from_slice(segment);
    slow_sum(&all) == 0xffff
}
