// SPDX-License-Identifier: GPL-2.0
//! What a person sets: number of channels and depth of their CQs, while they work.

use kernel::prelude::*;

use super::{
    layout,
    set::{
        Channels,
        Turn, //
    },
    Core, //
};
use crate::{
    caps::Caps,
    cq::CqRing, //
};

/// Why a knob refuses a value.
pub(crate) enum Refusal {
    /// Out of range: what may it be, and why.
    Range { min: u32, max: u32 },
    /// Loopback pairs need an even number.
    Odd,
    /// The device or the host has no more.
    Error(Error),
}

impl Refusal {
    /// errno for the writer.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Range { .. } | Self::Odd => EINVAL,
            Self::Error(error) => *error,
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Channels {
    /// How many channels there are, or are to be.
    pub(crate) fn count(&self) -> u32 {
        self.set.lock().wanted
    }

    /// Depth of the CQs.
    pub(crate) fn depth(&self) -> u32 {
        1 << self.set.lock().log_cqes
    }

    /// Changes the number of channels, live. On failure the old set goes on. Sleeps.
    pub(crate) fn set_count(&self, count: u32) -> Result<(), Refusal> {
        let turn = self.turn();
        check_count(count, !self.set.lock().peer)?;
        let mut set = self.grow_or_shrink(&turn, count)?;
        set.wanted = count;
        set.used = true;
        Ok(())
    }

    /// Changes the depth of the CQs, live. On failure all are as before. Sleeps.
    pub(crate) fn set_depth(&self, cqes: u32) -> Result<u32, Refusal> {
        let turn = self.turn();
        let log = check_depth(&self.device.caps()?, cqes)?;
        self.must_be_up()?;
        let old = self.set.lock().log_cqes;
        if let Err(error) = self.resize_all(&turn, log) {
            // Back to what they were. A CQ for which there is no memory stays as it is, which does
            // no harm: either depth serves the QP.
            let _ = self.resize_all(&turn, old);
            return Err(error.into());
        }
        Ok(1 << log)
    }

    /// Memory for all of them first, then the commands.
    fn resize_all(&self, _turn: &Turn<'_>, log: u8) -> Result {
        let mut rings = KVec::new();
        let mut channels = KVec::new();
        {
            let set = self.set.lock();
            for channel in set.channels.iter().filter(|channel| !channel.core.has(log)) {
                channels.push(channel.clone(), GFP_KERNEL)?;
            }
        }
        // Nobody else adds a channel, takes one away or changes a depth meanwhile.
        for channel in channels.iter() {
            rings.push(channel.core.ring(log)?, GFP_KERNEL)?;
        }
        let mut set = self.set.lock();
        // There may have been a reset meanwhile.
        self.must_be_up()?;
        for (channel, ring) in channels.iter().zip(rings) {
            channel.core.resize(log, ring)?;
        }
        set.log_cqes = log;
        Ok(())
    }
}

/// Whether there may be `count` channels. Whether the HCA has so many shows when they are made.
pub(super) fn check_count(count: u32, loopback: bool) -> Result<(), Refusal> {
    if count == 0 || count > layout::MAX_CHANNELS {
        return Err(Refusal::Range {
            min: 1,
            max: layout::MAX_CHANNELS,
        });
    }
    if loopback && count % 2 != 0 {
        return Err(Refusal::Odd);
    }
    Ok(())
}

/// log2 of the depth that serves `cqes`.
pub(super) fn check_depth(caps: &Caps, cqes: u32) -> Result<u8, Refusal> {
    let max = 1u32 << caps.log_max_cq_size;
    if cqes < layout::MIN_CQES || cqes > max {
        return Err(Refusal::Range {
            min: layout::MIN_CQES,
            max,
        });
    }
    // CAST: below 32.
    Ok(cqes.next_power_of_two().ilog2() as u8)
}

impl Core {
    /// Whether its CQ has `1 << log` entries.
    fn has(&self, log: u8) -> bool {
        self.inner.lock().log_cqes == log
    }

    /// Memory for a CQ of `1 << log` entries, where the CQ is served.
    fn ring(&self, log: u8) -> Result<CqRing> {
        let node = self.device.comp_eq(self.vector).ok_or(ENODEV)?.node;
        CqRing::new(self.device.pdev.device(), node, log)
    }

    /// Moves the CQ to `ring` of `1 << log` entries. Nothing that is in the old one is lost.
    fn resize(&self, log: u8, ring: CqRing) -> Result {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if inner.hw.is_some() {
            // An earlier resize may still have completions in the old ring.
            self.drain(inner);
            let hw = inner.hw.as_mut().ok_or(ENODEV)?;
            hw.cq.resize(&self.device.cmd, ring)?;
        } else if let Some(rings) = &mut inner.rings {
            rings.set_cq(ring);
        }
        inner.log_cqes = log;
        drop(guard);
        // The old ring is read up to where the device left it.
        self.wake();
        Ok(())
    }
}
