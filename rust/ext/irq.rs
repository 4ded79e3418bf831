// SPDX-License-Identifier: GPL-2.0
//! MSI-X vectors with names made at run time, handlers that are owned, and affinity that a person
//! may change.
//!
//! Vectors are not managed by the kernel: [`Registration::prefer`] moves one to a CPU once and
//! leaves a hint for irqbalance; what is written to `/proc/irq/N/smp_affinity` later stays. As long
//! as the vectors are not freed, their numbers, names and affinity survive resets of the device
//! ([`BoundDevice::restore_state`] writes the MSI-X table again).
//!
//! C headers: [`include/linux/interrupt.h`](srctree/include/linux/interrupt.h),
//! [`include/linux/pci.h`](srctree/include/linux/pci.h)

use core::ptr::NonNull;

use kernel::{
    cpu::CpuId,
    error::to_result,
    prelude::*,
    str::{CStrExt, CString},
    sync::Arc,
};
use rmlx5_bindings as bindings;

use crate::pci::BoundDevice;

pub use kernel::irq::IrqReturn;

/// Serves an interrupt.
pub trait Handler: Send + Sync {
    /// Called in hard interrupt context with interrupts off: bounded, no sleep, `SpinLockIrq` only.
    /// The same vector's handler does not run on two CPUs at once.
    fn handle(&self) -> IrqReturn;
}

/// Vectors of a device, freed on drop.
struct Allocation {
    device: BoundDevice,
    len: u32,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: Allocated in `Vectors::alloc`; every registration kept this allocation.
        unsafe { bindings::pci_free_irq_vectors(self.device.as_raw()) }
    }
}

/// The MSI-X vectors of a device. Clones share them.
#[derive(Clone)]
pub struct Vectors(Arc<Allocation>);

impl Vectors {
    /// Allocates between `min` and `max` MSI-X vectors, as many as there are. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOSPC` when there are fewer than `min`, `ERANGE` for `min` above `max`, `EINVAL` when the
    /// device has no MSI-X or has its vectors allocated already.
    pub fn alloc(device: &BoundDevice, min: u32, max: u32) -> Result<Self> {
        // SAFETY: The device is valid and bound.
        let len = unsafe {
            bindings::pci_alloc_irq_vectors(device.as_raw(), min, max, bindings::PCI_IRQ_MSIX)
        };
        let len = u32::try_from(len).map_err(|_| Error::from_errno(len))?;
        let allocation = Allocation {
            device: device.clone(),
            len,
        };
        // A failed allocation drops `allocation`, which frees the vectors.
        Ok(Self(Arc::new(allocation, GFP_KERNEL)?))
    }

    /// How many vectors there are.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> u32 {
        self.0.len
    }

    /// The interrupt number of vector `index`, as in `/proc/interrupts`.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no such vector.
    pub fn irq(&self, index: u32) -> Result<u32> {
        if index >= self.0.len {
            return Err(EINVAL);
        }
        // SAFETY: The device is valid and has this vector.
        let irq = unsafe { bindings::pci_irq_vector(self.0.device.as_raw(), index) };
        u32::try_from(irq).map_err(|_| Error::from_errno(irq))
    }

    /// Lets `handler` serve vector `index`. `name` is what `/proc/interrupts` shows; it is also the
    /// name of a directory in `/proc/irq/N/`, so it must not contain a slash. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no such vector, `EBUSY` when it is served already, `ENOMEM`.
    pub fn request(
        &self,
        index: u32,
        name: &CStr,
        handler: Arc<dyn Handler>,
    ) -> Result<Registration> {
        let irq = self.irq(index)?;
        let served = KBox::new(
            Served {
                handler,
                name: CString::try_from(name)?,
            },
            GFP_KERNEL,
        )?;
        let served = KBox::into_raw(served);

        // SAFETY: `served` and the name in it stay where they are until `free_irq` has returned.
        let result = to_result(unsafe {
            bindings::request_threaded_irq(
                irq,
                Some(Registration::interrupt),
                None,
                0,
                (*served).name.as_char_ptr(),
                served.cast(),
            )
        });
        match (result, NonNull::new(served)) {
            // INVARIANT: Requested above.
            (Ok(()), Some(served)) => Ok(Registration {
                irq,
                served,
                _vectors: self.clone(),
            }),
            (result, _) => {
                // SAFETY: From `KBox::into_raw`, and nobody else has it.
                drop(unsafe { KBox::from_raw(served) });
                Err(result.err().unwrap_or(EINVAL))
            }
        }
    }
}

/// What an interrupt number is registered with.
struct Served {
    handler: Arc<dyn Handler>,
    name: CString,
}

/// A vector that is being served, until drop; dropping waits for a handler that runs.
///
/// # Invariants
///
/// `irq` was requested with `served`, which is owned.
pub struct Registration {
    irq: u32,
    served: NonNull<Served>,
    /// Freed after the interrupt.
    _vectors: Vectors,
}

// SAFETY: The parts are `Send`, and an interrupt may be freed by any thread.
unsafe impl Send for Registration {}
// SAFETY: The methods only call functions that have their own locks.
unsafe impl Sync for Registration {}

impl Registration {
    extern "C" fn interrupt(_irq: c_int, served: *mut c_void) -> bindings::irqreturn_t {
        // SAFETY: Registered with a `Served` that lives until `free_irq` has returned.
        let served = unsafe { &*served.cast::<Served>() };
        match served.handler.handle() {
            IrqReturn::None => bindings::irqreturn::IRQ_NONE,
            IrqReturn::Handled => bindings::irqreturn::IRQ_HANDLED,
        }
    }

    /// The interrupt number.
    pub fn irq(&self) -> u32 {
        self.irq
    }

    /// The name in `/proc/interrupts`.
    pub fn name(&self) -> &CStr {
        // SAFETY: By the type invariant `served` is valid and never changed.
        unsafe { &self.served.as_ref().name }
    }

    /// Moves the vector to `cpu` and leaves that as a hint. The next interrupt may still arrive on
    /// the old CPU. A person may move it away again.
    pub fn prefer(&self, cpu: CpuId) -> Result {
        // SAFETY: The mask of one possible CPU is a constant of the kernel, so it outlives the hint.
        to_result(unsafe {
            bindings::irq_set_affinity_and_hint(self.irq, bindings::cpumask_of(cpu.as_u32()))
        })
    }

    /// Waits until no handler of this vector runs. Must not be called by the handler.
    pub fn synchronize(&self) {
        // SAFETY: By the type invariant the interrupt is requested.
        unsafe { bindings::synchronize_irq(self.irq) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the interrupt is requested with `served`. The hint must be
        // gone before `free_irq`.
        unsafe {
            bindings::irq_update_affinity_hint(self.irq, core::ptr::null());
            bindings::free_irq(self.irq, self.served.as_ptr().cast());
        }
        // SAFETY: From `KBox::into_raw`; `free_irq` has waited for the handler.
        drop(unsafe { KBox::from_raw(self.served.as_ptr()) });
    }
}
