// SPDX-License-Identifier: GPL-2.0
//! PCI devices: a counted claim on a bound device, and what is built on it.
//!
//! [`BoundDevice`] is the root of every resource in this crate. It proves that the device is bound
//! to its driver for as long as the claim exists, because unbinding waits until the last claim is
//! dropped (see [`driver`]). Resources keep a claim, so they need no lifetime parameter, and a
//! resource that is forgotten shows up as an unbind that does not end and says why, never as a use
//! after free.
//!
//! C header: [`include/linux/pci.h`](srctree/include/linux/pci.h)

use core::{ops::Deref, ptr};

use kernel::{
    device::{self, Bound},
    prelude::*,
    sync::{aref::ARef, atomic::Relaxed, Arc, Refcount},
    time::Delta,
};
use rmlx5_bindings as bindings;

use crate::completion::Completion;

pub mod aer;
pub mod bar;
pub mod driver;
pub mod express;
pub mod state;

pub use bar::{Bar, Io};
pub use driver::{Adapter, ChannelState, Driver, Recovery};
pub use kernel::pci::{DeviceId, IdTable, Vendor};
pub use state::Enabled;

/// What all claims on one binding share.
///
/// # Invariants
///
/// `holders` is the number of [`BoundDevice`]s plus one for the [`Gate`] until it closes.
#[pin_data]
struct Binding {
    device: ARef<kernel::pci::Device>,
    holders: Refcount,
    #[pin]
    idle: Completion,
}

impl Binding {
    fn release(&self) {
        if self.holders.dec_and_test() {
            self.idle.complete_all();
        }
    }
}

/// A claim on a PCI device that is bound to the driver that holds the claim.
///
/// Dereferences to [`kernel::pci::Device<Bound>`], so everything that the kernel crate offers for
/// bound devices is available. Cloning is cheap and may happen in any context; dropping too.
///
/// # Invariants
///
/// The device stays bound to the driver until this value is dropped.
pub struct BoundDevice(Arc<Binding>);

impl BoundDevice {
    /// The C structure, valid as long as `self`.
    pub(crate) fn as_raw(&self) -> *mut bindings::pci_dev {
        // `kernel::pci::Device` is a transparent wrapper of `struct pci_dev`.
        ptr::from_ref::<kernel::pci::Device>(&self.0.device)
            .cast_mut()
            .cast()
    }

    /// The embedded generic device, valid as long as `self`.
    pub(crate) fn as_raw_device(&self) -> *mut bindings::device {
        // SAFETY: `as_raw` points to a live `struct pci_dev`.
        unsafe { &raw mut (*self.as_raw()).dev }
    }

    /// The generic device, for logging and for the kernel crate's own abstractions.
    pub fn device(&self) -> &device::Device<Bound> {
        (**self).as_ref()
    }

    /// The name of the device, for example `0000:01:00.0`.
    pub fn name(&self) -> &CStr {
        self.device().name()
    }

    /// Whether the function is an SR-IOV virtual function.
    pub fn is_virtfn(&self) -> bool {
        // SAFETY: `as_raw` is valid; the flag is set when the device is created.
        unsafe { (*self.as_raw()).is_virtfn() != 0 }
    }

    /// Whether the PCI core has marked the channel frozen or failed.
    ///
    /// The core takes the device lock before it does so: callbacks that run under that lock must
    /// recognise a lost device by themselves (all-ones reads).
    pub fn channel_offline(&self) -> bool {
        // SAFETY: `as_raw` is valid.
        unsafe { bindings::pci_channel_offline(self.as_raw()) != 0 }
    }

    /// Whether a configuration read still finds the device. Sleeps for up to a second when the
    /// device answers with configuration retry status.
    pub fn is_present(&self) -> bool {
        // SAFETY: `as_raw` is valid.
        unsafe { bindings::pci_device_is_present(self.as_raw()) }
    }
}

impl Clone for BoundDevice {
    fn clone(&self) -> Self {
        self.0.holders.inc();
        // INVARIANT: Counted above; the count was not zero because `self` exists.
        Self(self.0.clone())
    }
}

impl Drop for BoundDevice {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Deref for BoundDevice {
    type Target = kernel::pci::Device<Bound>;

    fn deref(&self) -> &Self::Target {
        let device = ptr::from_ref::<kernel::pci::Device>(&self.0.device);
        // SAFETY: All contexts of `pci::Device` have the same layout, and by the type invariant the
        // device is bound while `self` is borrowed.
        unsafe { &*device.cast() }
    }
}

impl AsRef<device::Device<Bound>> for BoundDevice {
    fn as_ref(&self) -> &device::Device<Bound> {
        self.device()
    }
}

/// The adapter's side of the claims. Dropping it waits until no claim is left.
pub(crate) struct Gate(Arc<Binding>);

impl Gate {
    /// Opens the gate of a device that is being bound.
    ///
    /// # Safety
    ///
    /// The gate must be dropped before the device is unbound.
    pub(crate) unsafe fn open(device: &kernel::pci::Device) -> Result<Self> {
        let binding = Arc::pin_init(
            pin_init!(Binding {
                device: device.into(),
                holders: Refcount::new(1),
                idle <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: One holder, this gate.
        Ok(Self(binding))
    }

    /// A claim on the device.
    pub(crate) fn claim(&self) -> BoundDevice {
        self.0.holders.inc();
        // INVARIANT: Counted above; by the safety requirements of `open` the gate, which waits for
        // this claim, is dropped before the device is unbound.
        BoundDevice(self.0.clone())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        const REMINDER: Delta = Delta::from_secs(10);

        self.0.release();
        while self.0.idle.wait_timeout(REMINDER).is_err() {
            dev_err!(
                self.0.device,
                "unbind waits for {} resources that are still in use\n",
                self.0.holders.as_atomic().load(Relaxed)
            );
        }
    }
}
