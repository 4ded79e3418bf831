// SPDX-License-Identifier: GPL-2.0
//! What a key or a QP lets others do.

use kernel::prelude::*;
use rmlx5_bindings as bindings;

/// `IB_ACCESS_*` flags of a memory region or a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

macro_rules! flags {
    ($($(#[$meta:meta])* $name:ident, $get:ident = $flag:ident;)*) => {
        impl Access {
            $(
                $(#[$meta])*
                pub const $name: Self = Self(bindings::$flag);
            )*

            $(
                $(#[$meta])*
                pub const fn $get(self) -> bool {
                    self.0 & bindings::$flag != 0
                }
            )*
        }
    };
}

flags! {
    /// This side may write.
    LOCAL_WRITE, local_write = ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    /// The other end may write.
    REMOTE_WRITE, remote_write = ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    /// The other end may read.
    REMOTE_READ, remote_read = ib_access_flags_IB_ACCESS_REMOTE_READ;
    /// The other end may do atomics.
    REMOTE_ATOMIC, remote_atomic = ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
    /// Memory windows may be bound to it.
    WINDOW_BIND, window_bind = ib_access_flags_IB_ACCESS_MW_BIND;
    /// Addresses count from 0.
    ZERO_BASED, zero_based = ib_access_flags_IB_ZERO_BASED;
    /// Pages are not pinned.
    ON_DEMAND, on_demand = ib_access_flags_IB_ACCESS_ON_DEMAND;
    /// The memory is in huge pages.
    HUGE_PAGES, huge_pages = ib_access_flags_IB_ACCESS_HUGETLB;
    /// PCIe writes may overtake each other.
    RELAXED_ORDERING, relaxed_ordering = ib_access_flags_IB_ACCESS_RELAXED_ORDERING;
}

impl Access {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// Flags that a device may ignore.
    const OPTIONAL: u32 = bindings::ib_access_flags_IB_ACCESS_OPTIONAL;

    pub(super) const fn from_raw(flags: c_int) -> Self {
        // CAST: a set of bits.
        Self(flags as u32)
    }

    pub(super) const fn as_raw(self) -> c_int {
        // CAST: bit 31 is not used.
        self.0 as c_int
    }

    /// As a number, for log lines and [`Access::from_bits`].
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From what [`Access::bits`] returned.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// With the flags of `other`.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags that only one of both has.
    pub const fn differs(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    /// Whether it has nothing but flags of `known`, and flags that may be ignored.
    pub const fn is_within(self, known: Self) -> bool {
        self.0 & !known.0 & !Self::OPTIONAL == 0
    }
}
