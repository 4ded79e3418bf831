// SPDX-License-Identifier: GPL-2.0
//! How many objects of each kind exist, over all cards. What is left when the module goes is a leak,
//! and is named.

use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

/// Kinds of objects that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    /// DMA buffer ([`crate::buf::Buf`]).
    Buffer,
    /// Page lent to the firmware.
    Page,
    Uar,
    Eq,
    Interrupt,
    Pd,
    Mkey,
    Cq,
    Qp,
    Channel,
    /// Domain of extended reliable connections.
    Xrcd,
    /// Shared receive queue.
    Srq,
    /// Send queue of the network interface.
    Sq,
    /// Receive queue of the network interface.
    Rq,
}

impl Kind {
    /// All kinds, in the order of their counters.
    pub(crate) const ALL: [Self; 15] = [
        Self::Device,
        Self::Buffer,
        Self::Page,
        Self::Uar,
        Self::Eq,
        Self::Interrupt,
        Self::Pd,
        Self::Mkey,
        Self::Cq,
        Self::Qp,
        Self::Channel,
        Self::Xrcd,
        Self::Srq,
        Self::Sq,
        Self::Rq,
    ];

    /// For logs and debugfs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Buffer => "buffer",
            Self::Page => "page",
            Self::Uar => "uar",
            Self::Eq => "eq",
            Self::Interrupt => "interrupt",
            Self::Pd => "pd",
            Self::Mkey => "mkey",
            Self::Cq => "cq",
            Self::Qp => "qp",
            Self::Channel => "channel",
            Self::Xrcd => "xrcd",
            Self::Srq => "srq",
            Self::Sq => "sq",
            Self::Rq => "rq",
        }
    }

    fn live(self) -> Option<&'static Atomic<i64>> {
        // CAST: the number of the variant, which is the place in `ALL`.
        LIVE.get(self as usize)
    }

    /// Objects of this kind that exist now.
    pub(crate) fn count(self) -> i64 {
        self.live().map_or(0, |live| live.load(Relaxed))
    }
}

static LIVE: [Atomic<i64>; Kind::ALL.len()] = [const { Atomic::new(0) }; Kind::ALL.len()];

/// Part of an object that is counted as long as it exists.
pub(crate) struct Counted(Kind);

impl Counted {
    /// One more.
    pub(crate) fn new(kind: Kind) -> Self {
        if let Some(live) = kind.live() {
            live.add(1i64, Relaxed);
        }
        Self(kind)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(live) = self.0.live() {
            live.add(-1i64, Relaxed);
        }
    }
}

/// Held by the module behind its driver registration: looks when everything should be gone.
pub(crate) struct Inspection;

impl Drop for Inspection {
    fn drop(&mut self) {
        for kind in Kind::ALL {
            let count = kind.count();
            if count != 0 {
                pr_err!("leak: {} {} objects left at unload\n", count, kind.name());
            }
        }
    }
}
