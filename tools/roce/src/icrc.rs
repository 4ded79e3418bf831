// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invariant CRC: CRC-32 over the IP, UDP and BTH headers with the fields masked that routers may
//! change, and everything behind them.
//!
//! Annex A17 of the specification; eight bytes of ones stand for the LRH that RoCE does not have.
//! Same rule in Linux: drivers/infiniband/sw/rxe/rxe_icrc.c.

use crate::BTH_LEN;
use crc32fast::Hasher;

const UDP_LEN: usize = 8;

/// The ICRC of `datagram`, which runs from the IP header to the last pad byte, as the four bytes
/// that follow it on the wire. `None` when it is too short or not IP.
pub fn icrc(datagram: &[u8]) -> Option<[u8; 4]> {
    let ip_len = match datagram.first()? >> 4 {
        4 => 20,
        6 => 40,
        _ => return None,
    };
    let fixed = ip_len + UDP_LEN + BTH_LEN;
    let (head, rest) = datagram.split_at_checked(fixed)?;
    let mut masked = [0u8; 40 + UDP_LEN + BTH_LEN];
    let masked = &mut masked[..fixed];
    masked.copy_from_slice(head);
    if ip_len == 20 {
        // Type of service, time to live, header checksum.
        for at in [1, 8, 10, 11] {
            masked[at] = 0xff;
        }
    } else {
        // Traffic class and flow label, hop limit.
        masked[0] |= 0x0f;
        for at in [1, 2, 3, 7] {
            masked[at] = 0xff;
        }
    }
    // UDP checksum; congestion bits of the BTH.
    for at in [ip_len + 6, ip_len + 7, ip_len + UDP_LEN + 4] {
        masked[at] = 0xff;
    }
    let mut crc = Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(masked);
    crc.update(rest);
    Some(crc.finalize().to_le_bytes())
}
