// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Path MTU: the payload of one packet.

/// The five path MTUs of the specification, coded 1 to 5 in QP contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mtu {
    /// 256 bytes, code 1.
    B256 = 1,
    /// 512 bytes, code 2.
    B512,
    /// 1024 bytes, code 3.
    B1024,
    /// 2048 bytes, code 4.
    B2048,
    /// 4096 bytes, code 5.
    B4096,
}

impl Mtu {
    /// The MTU of a code; `None` outside 1 to 5.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::B256,
            2 => Self::B512,
            3 => Self::B1024,
            4 => Self::B2048,
            5 => Self::B4096,
            _ => return None,
        })
    }

    /// Bytes of payload.
    pub const fn bytes(self) -> usize {
        128 << self as usize
    }

    /// Packets of a message of `len` bytes; an empty message is one packet.
    pub const fn packets(self, len: u32) -> u32 {
        // CAST: at most 4096.
        let packets = len.div_ceil(self.bytes() as u32);
        if packets == 0 {
            1
        } else {
            packets
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mtu;

    #[test]
    fn codes_name_their_sizes() {
        for (code, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
            assert_eq!(Mtu::from_code(code).map(Mtu::bytes), Some(bytes));
        }
        assert_eq!(Mtu::from_code(0), None);
        assert_eq!(Mtu::from_code(6), None);
    }

    #[test]
    fn an_empty_message_is_one_packet() {
        assert_eq!(Mtu::B1024.packets(0), 1);
        assert_eq!(Mtu::B1024.packets(1024), 1);
        assert_eq!(Mtu::B1024.packets(1025), 2);
        assert_eq!(Mtu::B256.packets(1 << 30), 1 << 22);
        assert_eq!(Mtu::B256.packets(u32::MAX), 1 << 24);
    }
}
