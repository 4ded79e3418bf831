// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame under construction.

use crate::{
    icrc::icrc,
    ip::PROTO_UDP, //
    Headers,
    Packet,
    BTH_LEN,
    UDP_PORT,
};

/// Bytes kept free before the payload: more than the longest set of headers (Ethernet with tag 18,
/// IPv6 40, UDP 8, BTH 12, DETH 8 or RETH 16 with immediate 4, atomic 28).
pub const HEADROOM: usize = 128;

/// A frame whose payload is put in place first and whose headers are then written around it. Meant
/// to be kept and used again: it allocates only while it grows.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// HEADROOM bytes, the payload, room for pad and ICRC.
    bytes: Vec<u8>,
    /// Length of the payload.
    payload: usize,
}

const TAIL: usize = 3 + 4;
const _: () = assert!(HEADROOM >= 18 + 40 + 8 + BTH_LEN + 28 + 8);
const _: () = assert!(PROTO_UDP == 17);

impl Frame {
    /// An empty frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for `len` bytes of payload and gives it out to be filled. Old content may show.
    pub fn payload_mut(&mut self, len: usize) -> &mut [u8] {
        let want = HEADROOM + len + TAIL;
        if self.bytes.len() < want {
            self.bytes.resize(want, 0);
        }
        self.payload = len;
        &mut self.bytes[HEADROOM..HEADROOM + len]
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.bytes
            .get(HEADROOM..HEADROOM + self.payload)
            .unwrap_or(&[])
    }

    /// Writes headers, pad and ICRC around the payload; the frame from destination MAC to ICRC.
    /// `None` when the payload does not fit an IP datagram.
    pub fn seal(&mut self, headers: &Headers) -> Option<&[u8]> {
        let len = self.payload;
        self.payload_mut(len);
        // CAST: 0 to 3.
        let pad = (len.wrapping_neg() & 3) as u8;
        let layout = headers.bth.opcode.layout();
        let mut raw = [0u8; HEADROOM];
        let mut at = 0;
        {
            let mut put = |bytes: &[u8]| {
                // PANIC: all headers together are shorter than HEADROOM, asserted above.
                raw[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            };
            let mut transport = BTH_LEN;
            headers.ext.emit(layout, |bytes| transport += bytes.len());
            let body = u16::try_from(8 + transport + len + usize::from(pad) + 4).ok()?;
            body.checked_add(20)?;
            headers.eth.emit(headers.ip.ethertype(), &mut put);
            headers.ip.emit(body, &mut put);
            put(&headers.sport.to_be_bytes());
            put(&UDP_PORT.to_be_bytes());
            put(&body.to_be_bytes());
            // RoCEv2 senders leave the checksum out; the ICRC is stronger.
            put(&[0, 0]);
            put(&headers.bth.bytes(pad));
            headers.ext.emit(layout, &mut put);
        }
        let start = HEADROOM - at;
        self.bytes[start..HEADROOM].copy_from_slice(&raw[..at]);
        let end = HEADROOM + len + usize::from(pad);
        self.bytes[HEADROOM + len..end].fill(0);
        let eth_len = if headers.eth.vlan.is_some() { 18 } else { 14 };
        let crc = icrc(&self.bytes[start + eth_len..end])?;
        self.bytes[end..end + 4].copy_from_slice(&crc);
        Some(&self.bytes[start..end + 4])
    }

    /// A frame with the payload of a parsed packet, to be sealed again.
    pub fn of(packet: &Packet<'_>) -> Self {
        let mut frame = Self::new();
        frame
            .payload_mut(packet.payload.len())
            .copy_from_slice(packet.payload);
        frame
    }
}
