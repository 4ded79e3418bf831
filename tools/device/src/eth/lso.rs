// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Large send offload: one header and a long payload become many frames.

use super::frame::{Headers, Version, L4};
use super::offload::{self, Request};

/// Why a large send cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LsoError {
    /// The inlined bytes end before the TCP or UDP header does, or go on behind it.
    #[error("{inlined} inlined bytes are not the headers of a TCP or UDP segment")]
    Headers {
        /// Number of inlined bytes.
        inlined: usize,
    },
    /// The maximum segment size is 0 or gives segments that no length field can hold.
    #[error("maximum segment size {mss} is out of range")]
    Mss {
        /// Payload bytes a segment.
        mss: u16,
    },
    /// There is nothing to send behind the headers.
    #[error("no payload behind the headers")]
    Empty,
}

/// TCP flags that only the last segment carries: FIN and PSH.
const LAST_ONLY: u8 = 0x09;

/// TCP flag that only the first segment carries: CWR.
const FIRST_ONLY: u8 = 0x80;

/// Cuts `payload` into segments of `mss` bytes and gives each its own headers: lengths, IPv4
/// identification (one more each), TCP sequence number and flags, and the checksums that `request`
/// asks for. `emit` gets each frame in order.
///
/// # Errors
/// Nothing was emitted when [`LsoError`] comes back.
pub fn cut(
    inlined: &[u8],
    payload: &[u8],
    mss: u16,
    request: Request,
    mut emit: impl FnMut(&[u8]),
) -> Result<(), LsoError> {
    let bad = LsoError::Headers {
        inlined: inlined.len(),
    };
    let headers = Headers::parse(inlined).ok_or(bad)?;
    let ip = headers.ip.ok_or(bad)?;
    let (l4_len, tcp) = match headers.l4.ok_or(bad)? {
        L4::Tcp { header_len, .. } => (header_len, true),
        L4::Udp { .. } => (8, false),
        L4::Ipsec { .. } => return Err(bad),
    };
    if ip.payload_at + l4_len != inlined.len() {
        return Err(bad);
    }
    if mss == 0 || inlined.len() - headers.l3_at + usize::from(mss) > 0xffff {
        return Err(LsoError::Mss { mss });
    }
    if payload.is_empty() {
        return Err(LsoError::Empty);
    }
    let sequence = inlined
        .get(ip.payload_at + 4..ip.payload_at + 8)
        .map_or(0, |raw| {
            u32::from_be_bytes(raw.try_into().unwrap_or_default())
        });
    let id = inlined
        .get(headers.l3_at + 4..headers.l3_at + 6)
        .map_or(0, |raw| {
            u16::from_be_bytes(raw.try_into().unwrap_or_default())
        });
    let count = payload.len().div_ceil(mss.into());
    let mut frame = Vec::with_capacity(inlined.len() + usize::from(mss));
    for (index, piece) in payload.chunks(mss.into()).enumerate() {
        frame.clear();
        frame.extend_from_slice(inlined);
        frame.extend_from_slice(piece);
        let (ip_at, l4_at) = (headers.l3_at, ip.payload_at);
        // CAST: checked above.
        let datagram_len = (frame.len() - ip_at) as u16;
        // CAST: as above.
        let segment_len = (frame.len() - l4_at) as u16;
        match ip.version {
            Version::V4 => {
                put(&mut frame, ip_at + 2, &datagram_len.to_be_bytes());
                // CAST: the identification counts modulo 2^16.
                let id = id.wrapping_add(index as u16);
                put(&mut frame, ip_at + 4, &id.to_be_bytes());
            }
            Version::V6 => {
                let payload_len = datagram_len.wrapping_sub(40);
                put(&mut frame, ip_at + 4, &payload_len.to_be_bytes());
            }
        }
        if tcp {
            // CAST: sequence numbers count modulo 2^32.
            let sequence = sequence.wrapping_add((index * usize::from(mss)) as u32);
            put(&mut frame, l4_at + 4, &sequence.to_be_bytes());
            if let Some(flags) = frame.get_mut(l4_at + 13) {
                if index != 0 {
                    *flags &= !FIRST_ONLY;
                }
                if index + 1 != count {
                    *flags &= !LAST_ONLY;
                }
            }
        } else {
            put(&mut frame, l4_at + 4, &segment_len.to_be_bytes());
        }
        if let Some(headers) = Headers::parse(&frame) {
            offload::fill(&mut frame, &headers, request);
        }
        emit(&frame);
    }
    Ok(())
}

fn put(frame: &mut [u8], at: usize, value: &[u8]) {
    if let Some(field) = frame.get_mut(at..at + value.len()) {
        field.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eth::frame::protocol;
    use crate::eth::testing::{frame_v4, frame_v6, is_right, ALL};

    fn cut_all(whole: &[u8], mss: u16) -> Vec<Vec<u8>> {
        let headers = Headers::parse(whole).unwrap();
        let l4_len = match headers.l4.unwrap() {
            L4::Tcp { header_len, .. } => header_len,
            _ => 8,
        };
        let (inlined, payload) = whole.split_at(headers.ip.unwrap().payload_at + l4_len);
        let mut frames = Vec::new();
        cut(inlined, payload, mss, ALL, |frame| {
            frames.push(frame.to_vec())
        })
        .unwrap();
        frames
    }

    /// Puts the payloads together by sequence number.
    fn reassemble(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut expected = None;
        for frame in frames {
            let headers = Headers::parse(frame).unwrap();
            let segment = headers.segment(frame).unwrap();
            let sequence = u32::from_be_bytes(segment[4..8].try_into().unwrap());
            let start = *expected.get_or_insert(sequence);
            assert_eq!(sequence.wrapping_sub(start) as usize, stream.len());
            stream.extend_from_slice(&segment[usize::from(segment[12] >> 4) * 4..]);
        }
        stream
    }

    #[test]
    fn tcp_segments_reassemble_with_right_checksums() {
        let payload: Vec<u8> = (0..10_000u32).map(|at| (at * 7) as u8).collect();
        for whole in [
            frame_v4(protocol::TCP, &payload),
            frame_v6(protocol::TCP, &payload),
        ] {
            let frames = cut_all(&whole, 1448);

            assert_eq!(frames.len(), 7);
            assert_eq!(reassemble(&frames), payload);
            assert!(frames.iter().all(|frame| is_right(frame)));
        }
    }

    #[test]
    fn only_the_ends_carry_push_fin_and_cwr() {
        let mut whole = frame_v4(protocol::TCP, &[1; 300]);
        whole[14 + 20 + 13] = 0x80 | 0x10 | 0x09;

        let flags: Vec<_> = cut_all(&whole, 100).iter().map(|f| f[47]).collect();

        assert_eq!(flags, [0x90, 0x10, 0x19]);
    }

    #[test]
    fn identification_counts_up_and_wraps() {
        let mut whole = frame_v4(protocol::TCP, &[1; 300]);
        whole[18..20].copy_from_slice(&[0xff, 0xff]);

        let ids: Vec<_> = cut_all(&whole, 100)
            .iter()
            .map(|f| u16::from_be_bytes([f[18], f[19]]))
            .collect();

        assert_eq!(ids, [0xffff, 0, 1]);
    }

    #[test]
    fn udp_datagrams_have_their_own_lengths() {
        let frames = cut_all(&frame_v6(protocol::UDP, &[7; 250]), 100);

        let lengths: Vec<_> = frames
            .iter()
            .map(|frame| u16::from_be_bytes([frame[58], frame[59]]))
            .collect();
        assert_eq!(lengths, [108, 108, 58]);
        assert!(frames.iter().all(|frame| is_right(frame)));
    }

    #[test]
    fn a_header_that_is_cut_off_is_refused() {
        let whole = frame_v4(protocol::TCP, &[1; 300]);
        for inlined in [0, 14, 18, 34, 53, 55] {
            let result = cut(&whole[..inlined], &[1; 10], 100, ALL, |_| panic!("emitted"));

            assert_eq!(result, Err(LsoError::Headers { inlined }));
        }
    }
}
