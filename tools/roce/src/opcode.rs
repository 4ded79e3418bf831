// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BTH opcodes: a service in the upper three bits, an operation in the lower five.

/// Transport service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection: requests name the receive queue (XRCETH).
    Xrc,
    /// RoCEv2 congestion notification (opcode 0x81 only).
    Cnp,
}

/// Place of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Position of a packet that is or is not the first and the last.
    pub const fn of(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Whether a message starts here.
    pub const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// What a packet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// SEND.
    Send(Position),
    /// SEND whose last packet carries immediate data.
    SendImm(Position),
    /// SEND whose last packet invalidates a remote key.
    SendInv(Position),
    /// RDMA WRITE.
    Write(Position),
    /// RDMA WRITE whose last packet carries immediate data.
    WriteImm(Position),
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse(Position),
    /// Acknowledgement or NAK.
    Ack,
    /// Response to an atomic operation.
    AtomicAck,
    /// Compare and swap request.
    CompareSwap,
    /// Fetch and add request.
    FetchAdd,
    /// Congestion notification.
    Congestion,
}

impl Operation {
    /// Whether it travels from responder to requester.
    pub const fn is_response(self) -> bool {
        matches!(self, Self::ReadResponse(_) | Self::Ack | Self::AtomicAck)
    }
}

/// Which extension headers follow the BTH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// XRCETH.
    pub(crate) xrc: bool,
    pub(crate) deth: bool,
    pub(crate) reth: bool,
    pub(crate) atomic: bool,
    pub(crate) aeth: bool,
    pub(crate) atomic_ack: bool,
    pub(crate) imm: bool,
    pub(crate) ieth: bool,
    /// 16 reserved bytes (CNP).
    pub(crate) reserved: bool,
}

/// A known opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode {
    /// Transport service.
    pub service: Service,
    /// Operation.
    pub operation: Operation,
}

const RC: u8 = 0x00;
const UC: u8 = 0x20;
const UD: u8 = 0x60;
const XRC: u8 = 0xa0;
const CNP: u8 = 0x81;

impl Opcode {
    /// An opcode of the RC service.
    pub const fn rc(operation: Operation) -> Self {
        Self {
            service: Service::Rc,
            operation,
        }
    }

    /// The opcode of a number; `None` for reserved numbers and services not spoken here (RD).
    pub fn from_code(code: u8) -> Option<Self> {
        use Operation::*;
        use Position::*;
        if code == CNP {
            return Some(Self {
                service: Service::Cnp,
                operation: Congestion,
            });
        }
        let service = match code & 0xe0 {
            RC => Service::Rc,
            UC => Service::Uc,
            UD => Service::Ud,
            XRC => Service::Xrc,
            _ => return None,
        };
        let operation = match code & 0x1f {
            0x00 => Send(First),
            0x01 => Send(Middle),
            0x02 => Send(Last),
            0x03 => SendImm(Last),
            0x04 => Send(Only),
            0x05 => SendImm(Only),
            0x06 => Write(First),
            0x07 => Write(Middle),
            0x08 => Write(Last),
            0x09 => WriteImm(Last),
            0x0a => Write(Only),
            0x0b => WriteImm(Only),
            0x0c => ReadRequest,
            0x0d => ReadResponse(First),
            0x0e => ReadResponse(Middle),
            0x0f => ReadResponse(Last),
            0x10 => ReadResponse(Only),
            0x11 => Ack,
            0x12 => AtomicAck,
            0x13 => CompareSwap,
            0x14 => FetchAdd,
            0x16 => SendInv(Last),
            0x17 => SendInv(Only),
            _ => return None,
        };
        let opcode = Self { service, operation };
        opcode.is_legal().then_some(opcode)
    }

    fn is_legal(self) -> bool {
        match self.service {
            Service::Rc | Service::Xrc => true,
            Service::Uc => matches!(
                self.operation,
                Operation::Send(_)
                    | Operation::SendImm(_)
                    | Operation::Write(_)
                    | Operation::WriteImm(_)
            ),
            Service::Ud => matches!(
                self.operation,
                Operation::Send(Position::Only) | Operation::SendImm(Position::Only)
            ),
            Service::Cnp => matches!(self.operation, Operation::Congestion),
        }
    }

    /// The number of the opcode. First and middle packets of messages with immediate data or
    /// invalidation use the plain number: only the last packet differs.
    pub fn code(self) -> u8 {
        use Operation::*;
        use Position::*;
        let base = match self.service {
            Service::Rc => RC,
            Service::Uc => UC,
            Service::Ud => UD,
            Service::Xrc => XRC,
            Service::Cnp => return CNP,
        };
        base | match self.operation {
            Send(First) | SendImm(First) | SendInv(First) => 0x00,
            Send(Middle) | SendImm(Middle) | SendInv(Middle) => 0x01,
            Send(Last) => 0x02,
            SendImm(Last) => 0x03,
            Send(Only) => 0x04,
            SendImm(Only) => 0x05,
            Write(First) | WriteImm(First) => 0x06,
            Write(Middle) | WriteImm(Middle) => 0x07,
            Write(Last) => 0x08,
            WriteImm(Last) => 0x09,
            Write(Only) => 0x0a,
            WriteImm(Only) => 0x0b,
            ReadRequest => 0x0c,
            ReadResponse(First) => 0x0d,
            ReadResponse(Middle) => 0x0e,
            ReadResponse(Last) => 0x0f,
            ReadResponse(Only) => 0x10,
            Ack => 0x11,
            AtomicAck => 0x12,
            CompareSwap => 0x13,
            FetchAdd => 0x14,
            SendInv(Last) => 0x16,
            SendInv(Only) => 0x17,
            Congestion => 0x00,
        }
    }

    pub(crate) fn layout(self) -> Layout {
        use Operation::*;
        Layout {
            xrc: self.service == Service::Xrc && !self.operation.is_response(),
            deth: matches!(self.service, Service::Ud),
            reth: match self.operation {
                Write(at) | WriteImm(at) => at.starts(),
                ReadRequest => true,
                _ => false,
            },
            atomic: matches!(self.operation, CompareSwap | FetchAdd),
            aeth: match self.operation {
                ReadResponse(at) => at != Position::Middle,
                Ack | AtomicAck => true,
                _ => false,
            },
            atomic_ack: matches!(self.operation, AtomicAck),
            imm: match self.operation {
                SendImm(at) | WriteImm(at) => at.ends(),
                _ => false,
            },
            ieth: matches!(self.operation, SendInv(at) if at.ends()),
            reserved: matches!(self.operation, Congestion),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_number_reads_back() {
        let known = (0..=255u8)
            .filter_map(|code| Opcode::from_code(code).map(|opcode| (code, opcode)))
            .inspect(|(code, opcode)| assert_eq!(opcode.code(), *code))
            .count();
        // RC 0x00-0x14, 0x16, 0x17; UC 0x20-0x2b; UD 0x64, 0x65; XRC as RC at 0xa0; CNP.
        assert_eq!(known, 23 + 12 + 2 + 23 + 1);
    }

    #[test]
    fn numbers_of_the_specification() {
        assert_eq!(Opcode::rc(Operation::Ack).code(), 0x11);
        assert_eq!(Opcode::rc(Operation::Write(Position::Only)).code(), 0x0a);
        let ud = Opcode::from_code(0x64).map(|opcode| (opcode.service, opcode.operation));
        assert_eq!(ud, Some((Service::Ud, Operation::Send(Position::Only))));
        for unknown in [0x15, 0x18, 0x2c, 0x40, 0x60, 0x66, 0x80, 0xb5, 0xff] {
            assert_eq!(Opcode::from_code(unknown), None, "{unknown:#x}");
        }
    }
}
