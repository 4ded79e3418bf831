// SPDX-License-Identifier: GPL-2.0
//! Nodes of a machine with non-uniform memory access.
//!
//! C headers: [`include/linux/numa.h`](srctree/include/linux/numa.h),
//! [`include/linux/cpumask.h`](srctree/include/linux/cpumask.h)

use kernel::{
    alloc::flags::__GFP_NOWARN,
    cpu::CpuId,
    device,
    dma::Coherent,
    prelude::*, //
};
use rmlx5_bindings as bindings;

/// A node, or none: `NUMA_NO_NODE` lets the allocator choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(i32);

impl Node {
    /// No preference.
    pub const NONE: Self = Self(bindings::NUMA_NO_NODE);

    /// The node a device is attached to.
    pub fn of_device<Ctx: device::DeviceContext>(device: &device::Device<Ctx>) -> Self {
        // `device::Device` is a transparent wrapper of `struct device`.
        let device = core::ptr::from_ref(device).cast_mut().cast();
        // SAFETY: `device` is a valid device.
        Self(unsafe { bindings::dev_to_node(device) })
    }

    /// The node of a CPU.
    pub fn of_cpu(cpu: CpuId) -> Self {
        // CAST: CPU numbers fit, by the type invariant of `CpuId`.
        // SAFETY: `CpuId` holds a possible CPU.
        Self(unsafe { bindings::cpu_to_node(cpu.as_u32() as i32) })
    }

    /// The number, [`None`] when there is no preference.
    pub fn number(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }

    pub(crate) fn as_raw(self) -> i32 {
        self.0
    }

    /// The `index`th online CPU counted outwards from this node, wrapping around at the number of
    /// online CPUs.
    pub fn nearby_cpu(self, index: u32) -> Option<CpuId> {
        // SAFETY: The function accepts any index and any node.
        CpuId::from_u32(unsafe { bindings::cpumask_local_spread(index, self.0) })
    }
}

/// The number of CPUs that are online now.
pub fn online_cpus() -> u32 {
    // SAFETY: Always safe to call.
    unsafe { bindings::num_online_cpus() }
}

/// Allocates `len` zeroed bytes for DMA, contiguous for the device, on `node` if there is memory.
///
/// Sleeps. Allocations with a node run one at a time.
///
/// # Errors
///
/// `ENOMEM`, and `EINVAL` when `len` is zero.
pub fn coherent(
    device: &device::Device<device::Bound>,
    node: Node,
    len: usize,
) -> Result<Coherent<[u8]>> {
    if len == 0 {
        return Err(EINVAL);
    }
    let _lent = Lent::new(device, node);
    // Who asks for too much gets ENOMEM and says so; the allocator's own report would name nobody.
    Coherent::zeroed_slice(device, len, GFP_KERNEL | __GFP_NOWARN)
}

/// A device that has another node for a while.
struct Lent<'a> {
    device: &'a device::Device<device::Bound>,
    own: i32,
}

impl<'a> Lent<'a> {
    fn new(device: &'a device::Device<device::Bound>, node: Node) -> Option<Self> {
        if node == Node::NONE || node == Node::of_device(device) {
            return None;
        }
        let raw = core::ptr::from_ref(device).cast_mut().cast();
        // SAFETY: The device is valid; given back in drop.
        let own = unsafe { bindings::dev_node_lend(raw, node.0) };
        Some(Self { device, own })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let raw = core::ptr::from_ref(self.device).cast_mut().cast();
        // SAFETY: Lent in `new`.
        unsafe { bindings::dev_node_return(raw, self.own) }
    }
}
