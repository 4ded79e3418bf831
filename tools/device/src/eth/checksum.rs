// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ones complement checksum of the Internet protocols (RFC 1071).

use super::frame::{Ip, Version};

/// A ones complement sum of big endian 16-bit words, built piece by piece.
///
/// Pieces may have any length; a piece that starts at an odd offset goes on with the low half of
/// the word that the piece before it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    words: u64,
    odd: bool,
}

impl Sum {
    /// The empty sum.
    pub const fn new() -> Self {
        Self {
            words: 0,
            odd: false,
        }
    }

    /// The sum with `bytes` behind what is already in it.
    #[must_use]
    pub fn bytes(mut self, mut bytes: &[u8]) -> Self {
        if self.odd {
            if let Some((first, rest)) = bytes.split_first() {
                self.words += u64::from(*first);
                self.odd = false;
                bytes = rest;
            }
        }
        let mut pairs = bytes.chunks_exact(2);
        for pair in &mut pairs {
            // A u64 holds 2^48 words of 16 bits: more than any frame has.
            self.words += u64::from(pair[0]) << 8 | u64::from(pair[1]);
        }
        if let [last] = pairs.remainder() {
            self.words += u64::from(*last) << 8;
            self.odd = true;
        }
        self
    }

    /// The sum with one big endian word behind it.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        self.bytes(&word.to_be_bytes())
    }

    /// The sum with the pseudo header of a TCP or UDP segment of `len` bytes (RFC 768, RFC 8200).
    #[must_use]
    pub fn pseudo(self, ip: &Ip, protocol: u8, len: u32) -> Self {
        let from = match ip.version {
            Version::V4 => 12,
            Version::V6 => 0,
        };
        // PANIC: both addresses are 16 bytes long and `from` is at most 12.
        self.bytes(&ip.src[from..])
            .bytes(&ip.dst[from..])
            .bytes(&len.to_be_bytes())
            .word(protocol.into())
    }

    /// The sum folded to 16 bits. 0xffff says that the bytes carried a right checksum.
    pub const fn folded(self) -> u16 {
        let mut words = self.words;
        while words > 0xffff {
            words = (words & 0xffff) + (words >> 16);
        }
        // CAST: the loop ends at 16 bits.
        words as u16
    }

    /// The value to put into the checksum field, when the field itself was summed as zero.
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1071_example_sums_as_printed() {
        let sum = Sum::new().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);

        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.checksum(), 0x220d);
    }

    #[test]
    fn ipv4_header_of_a_captured_frame_has_its_checksum() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];

        assert_eq!(Sum::new().bytes(&header).checksum(), 0xb861);
    }

    proptest::proptest! {
        #[test]
        fn any_split_gives_the_same_sum(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
            cuts in proptest::collection::vec(0usize..300, 0..6),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut sum = Sum::new();
            let mut from = 0;
            for cut in cuts {
                sum = sum.bytes(&bytes[from..cut]);
                from = cut;
            }
            sum = sum.bytes(&bytes[from..]);

            proptest::prop_assert_eq!(sum.folded(), Sum::new().bytes(&bytes).folded());
        }
    }
}
