// SPDX-License-Identifier: GPL-2.0
//! How received frames lie in memory.

use kernel_ext::net::pool::RxPage;

/// Bytes of a page.
// CAST: 4096.
pub(super) const PAGE: u32 = RxPage::PAGE as u32;
/// Bytes in front of a frame, for headers that the stack puts there when it sends the packet on (`NET_SKB_PAD`).
pub(super) const HEADROOM: u32 = 64;
/// Bytes behind a frame, for what a packet around it needs.
// CAST: a few hundred.
const TAIL: u32 = RxPage::TAIL as u32;

/// How frames lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// In one piece of a page, `size` bytes, around which a packet is made: nothing is copied. Two frames of 1500 bytes
    /// share a page.
    Around { size: u32 },
    /// In whole pages, which become fragments; the headers are copied, and a short frame altogether.
    Pages { count: u32 },
}

impl Layout {
    /// For frames of up to `bytes` bytes.
    pub(super) const fn of(bytes: u32) -> Self {
        let size = (HEADROOM + bytes + TAIL).next_power_of_two();
        if size <= PAGE {
            Self::Around { size }
        } else {
            Self::Pages {
                count: bytes.div_ceil(PAGE),
            }
        }
    }

    /// Pieces of memory a WQE has.
    pub(super) const fn pieces(self) -> usize {
        match self {
            Self::Around { .. } => 1,
            // CAST: a few.
            Self::Pages { count } => count as usize,
        }
    }

    /// Bytes of a piece.
    pub(super) const fn size(self) -> u32 {
        match self {
            Self::Around { size } => size,
            Self::Pages { .. } => PAGE,
        }
    }

    /// Where in a piece the card writes, and how many bytes.
    pub(super) const fn window(self) -> (u32, u32) {
        match self {
            Self::Around { size } => (HEADROOM, size - HEADROOM - TAIL),
            Self::Pages { .. } => (0, PAGE),
        }
    }

    /// Bytes of the longest frame that fits into a WQE.
    pub(super) const fn longest(self) -> u32 {
        // CAST: a few.
        self.window().1 * self.pieces() as u32
    }
}
