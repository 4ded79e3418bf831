// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Base transport header.

use crate::{
    read::Reader, //
    Opcode,
    ParseError,
    Psn,
};

/// Length of a BTH in bytes.
pub const BTH_LEN: usize = 12;

/// Base transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event: the receiver's CQE counts for "solicited only" arming.
    pub solicited: bool,
    /// Migration state bit; set on a QP that is in state MIGRATED, the normal one.
    pub migrated: bool,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion, set by switches; not covered by the ICRC.
    pub fecn: bool,
    /// Backward congestion; not covered by the ICRC.
    pub becn: bool,
    /// Destination QP number, 24 bits.
    pub dest_qp: u32,
    /// The sender wants an acknowledgement.
    pub ack_req: bool,
    /// Sequence number.
    pub psn: Psn,
}

impl Bth {
    pub(crate) fn parse(input: &mut Reader<'_>) -> Result<(Self, usize), ParseError> {
        let [code, flags, p0, p1, congestion, q0, q1, q2, ack, s0, s1, s2] =
            input.take().ok_or(ParseError::Short("BTH"))?;
        if flags & 0x0f != 0 {
            return Err(ParseError::TransportVersion(flags & 0x0f));
        }
        let bth = Self {
            opcode: Opcode::from_code(code).ok_or(ParseError::Opcode(code))?,
            solicited: flags & 0x80 != 0,
            migrated: flags & 0x40 != 0,
            pkey: u16::from_be_bytes([p0, p1]),
            fecn: congestion & 0x80 != 0,
            becn: congestion & 0x40 != 0,
            dest_qp: u32::from_be_bytes([0, q0, q1, q2]),
            ack_req: ack & 0x80 != 0,
            psn: Psn::new(u32::from_be_bytes([0, s0, s1, s2])),
        };
        Ok((bth, usize::from(flags >> 4 & 3)))
    }

    pub(crate) fn bytes(&self, pad: u8) -> [u8; BTH_LEN] {
        let bit = |set: bool, mask: u8| if set { mask } else { 0 };
        let [p0, p1] = self.pkey.to_be_bytes();
        let [_, q0, q1, q2] = self.dest_qp.to_be_bytes();
        let [_, s0, s1, s2] = self.psn.value().to_be_bytes();
        [
            self.opcode.code(),
            bit(self.solicited, 0x80) | bit(self.migrated, 0x40) | (pad & 3) << 4,
            p0,
            p1,
            bit(self.fecn, 0x80) | bit(self.becn, 0x40),
            q0,
            q1,
            q2,
            bit(self.ack_req, 0x80),
            s0,
            s1,
            s2,
        ]
    }
}
