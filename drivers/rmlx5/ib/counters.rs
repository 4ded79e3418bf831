// SPDX-License-Identifier: GPL-2.0
//! What `rdma statistic` and the directories `hw_counters` show.
//!
//! The port has everything, the device as a whole what the driver counts itself.

use kernel::prelude::*;
use kernel_ext::rdma::{
    CounterName,
    CounterSet, //
};

use super::Data;
use crate::{
    caps::Caps,
    port_counters::{
        self,
        Group,
        COUNT, //
    }, //
};

/// Counters of this card: their names for the core, and which they are.
pub(super) struct Counters {
    names: KVec<CounterName>,
    which: KVec<usize>,
    /// Some of them are about congestion.
    congestion: bool,
}

impl Counters {
    fn choose(has: impl Fn(Group) -> bool) -> Result<Self> {
        let mut chosen = Self {
            names: KVec::with_capacity(COUNT, GFP_KERNEL)?,
            which: KVec::with_capacity(COUNT, GFP_KERNEL)?,
            congestion: has(Group::Congestion),
        };
        for index in 0..COUNT {
            if let Some((name, group)) = port_counters::name(index) {
                if has(group) {
                    chosen.names.push(CounterName::new(name), GFP_KERNEL)?;
                    chosen.which.push(index, GFP_KERNEL)?;
                }
            }
        }
        Ok(chosen)
    }

    /// Everything that a card with these capabilities counts, and the driver.
    pub(super) fn of_port(caps: &Caps) -> Result<Self> {
        Self::choose(|group| match group {
            Group::Basic | Group::Driver => true,
            Group::Sequence => caps.counts_sequence,
            Group::Retransmission => caps.counts_retransmission,
            Group::Errors => caps.counts_errors,
            Group::Congestion => caps.counts_congestion,
        })
    }

    /// What the driver counts.
    pub(super) fn of_device() -> Result<Self> {
        Self::choose(|group| group == Group::Driver)
    }

    fn read(&self, data: &Data, values: &mut [u64]) {
        let device = &data.device;
        let all = device
            .counters
            .read(&device.cmd, device.cmd.generation(), self.congestion);
        for (value, index) in values.iter_mut().zip(&self.which) {
            *value = all.get(*index).copied().unwrap_or(0);
        }
    }
}

/// Counters of the port.
pub(super) static PORT: CounterSet<Data> = CounterSet {
    names: |data| &data.port_counters.names,
    read: |data, values| {
        data.port_counters.read(data, values);
        Ok(())
    },
};

/// Counters of the device.
pub(super) static DEVICE: CounterSet<Data> = CounterSet {
    names: |data| &data.device_counters.names,
    read: |data, values| {
        data.device_counters.read(data, values);
        Ok(())
    },
};
