// SPDX-License-Identifier: GPL-2.0
//! Counters of ports and devices: `rdma statistic`, and `hw_counters/` in sysfs.

use core::{marker::PhantomData, ptr};

use kernel::{error::from_result, prelude::*, str::CStrExt};
use rmlx5_bindings as bindings;

use super::{
    device::{Driver, Shell},
    verbs::UserVerbs,
};

/// The name of a counter, as the core wants it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct CounterName(bindings::rdma_stat_desc);

// SAFETY: It points to nothing but static text.
unsafe impl Send for CounterName {}
// SAFETY: As above.
unsafe impl Sync for CounterName {}

impl CounterName {
    /// A counter that is always there.
    pub fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: name.as_char_ptr(),
            flags: 0,
            priv_: ptr::null(),
        })
    }
}

/// The counters of a port or of a device, for a driver with data `T`.
pub struct CounterSet<T: 'static> {
    /// Their names; as many, and the same ones, at each call. At least one.
    pub names: fn(&T) -> &[CounterName],
    /// Reads all of them, in the order of the names. May sleep.
    pub read: fn(&T, &mut [u64]) -> Result,
}

/// Functions for driver `D`.
pub(super) struct CounterOps<D>(PhantomData<D>);

impl<D: UserVerbs> CounterOps<D> {
    pub(super) fn fill(ops: &mut bindings::ib_device_ops) {
        if <D as Driver>::PORT_COUNTERS.is_some() {
            ops.alloc_hw_port_stats = Some(Self::alloc_port);
            ops.get_hw_stats = Some(Self::get);
        }
        if <D as Driver>::DEVICE_COUNTERS.is_some() {
            ops.alloc_hw_device_stats = Some(Self::alloc_device);
            ops.get_hw_stats = Some(Self::get);
        }
    }

    fn set(port: u32) -> Option<&'static CounterSet<D::Data>> {
        match port {
            0 => D::DEVICE_COUNTERS,
            _ => D::PORT_COUNTERS,
        }
    }

    /// # Safety
    ///
    /// As for [`Shell::data`].
    unsafe fn alloc(ib: *mut bindings::ib_device, port: u32) -> *mut bindings::rdma_hw_stats {
        let Some(set) = Self::set(port) else {
            return ptr::null_mut();
        };
        // SAFETY: By the safety requirements. The names live as long as the data, which is until the
        // device is unregistered; the core does not look at them later.
        unsafe {
            let names = (set.names)(Shell::<D>::data(ib));
            bindings::rdma_alloc_hw_stats_struct(
                names.as_ptr().cast(),
                // CAST: some dozens.
                names.len() as c_int,
                // CAST: a small number of milliseconds.
                bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize,
            )
        }
    }

    extern "C" fn alloc_port(
        ib: *mut bindings::ib_device,
        port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        // SAFETY: The core passes a device of this driver.
        unsafe { Self::alloc(ib, port) }
    }

    extern "C" fn alloc_device(ib: *mut bindings::ib_device) -> *mut bindings::rdma_hw_stats {
        // SAFETY: The core passes a device of this driver.
        unsafe { Self::alloc(ib, 0) }
    }

    /// Reads all counters, whichever one is wanted.
    extern "C" fn get(
        ib: *mut bindings::ib_device,
        stats: *mut bindings::rdma_hw_stats,
        port: u32,
        _index: c_int,
    ) -> c_int {
        from_result(|| {
            let set = Self::set(port).ok_or(EINVAL)?;
            // SAFETY: The core passes a device of this driver, and counters that `alloc` made for the
            // same port, with room for as many values; nobody else uses these now.
            let (data, count, values) = unsafe {
                let count = (*stats).num_counters;
                let first = (&raw mut (*stats).value).cast::<u64>();
                // CAST: what `alloc` said.
                let values = core::slice::from_raw_parts_mut(first, count as usize);
                (Shell::<D>::data(ib), count, values)
            };
            (set.read)(data, values)?;
            Ok(count)
        })
    }
}
