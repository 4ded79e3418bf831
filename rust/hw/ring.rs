// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! Ring arithmetic: free running counters, slots and owner bits.

/// A free running 32-bit counter. Only wrapping operations exist: overflow checks are on in the
/// stock kernel and a counter that has run around is not a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter(u32);

impl Counter {
    /// A counter at `value`.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The raw value.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The low 16 bits, as work queue doorbell records hold them.
    #[inline]
    pub const fn low16(self) -> u16 {
        // CAST: the cut is the meaning.
        self.0 as u16
    }

    /// The low 24 bits, as CQ and EQ consumer indexes are written.
    #[inline]
    pub const fn low24(self) -> u32 {
        self.0 & 0xff_ffff
    }

    /// The counter `by` steps later.
    #[must_use]
    #[inline]
    pub const fn plus(self, by: u32) -> Self {
        Self(self.0.wrapping_add(by))
    }

    /// Steps from `earlier` to `self`.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// Geometry of a ring with a power-of-two number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    log: u8,
}

impl Ring {
    /// A ring of `1 << log` entries; `None` above 2^31.
    #[inline]
    pub const fn new(log: u8) -> Option<Self> {
        if log < 32 {
            Some(Self { log })
        } else {
            None
        }
    }

    /// log2 of the number of entries.
    #[inline]
    pub const fn log(self) -> u8 {
        self.log
    }

    /// Number of entries.
    #[inline]
    pub const fn entries(self) -> u32 {
        1u32.wrapping_shl(self.log as u32)
    }

    /// Slot of a counter.
    #[inline]
    pub const fn slot(self, counter: Counter) -> u32 {
        counter.value() & self.entries().wrapping_sub(1)
    }

    /// Owner bit the producer writes on the lap of this counter: 0 on the first lap, then 1, and
    /// so on. Source: `eq_get` in core/eq.c, `get_sw_cqe` in ib/cq.c.
    #[inline]
    pub const fn owner(self, counter: Counter) -> u8 {
        // CAST: one bit.
        (counter.value().wrapping_shr(self.log as u32) & 1) as u8
    }
}
