// SPDX-License-Identifier: GPL-2.0
//! PCI drivers with error handlers, sysfs groups and shutdown, which `kernel::pci::Driver` lacks.
//!
//! # Life of a binding
//!
//! 1. `probe` gets the first [`BoundDevice`] and returns an initialiser of the driver's data.
//! 2. The groups of [`Driver::GROUPS`] appear on the device, then the uevent of the binding.
//! 3. Callbacks run, all but the sysfs attributes under the device lock, hence one at a time.
//! 4. The groups disappear (readers have left), then `unbind` runs, then the data is dropped, then
//!    the adapter waits until every clone of the [`BoundDevice`] is gone. All this happens inside
//!    the bus's remove callback: the device is still in D0 and its DMA domain still belongs to it.
//!
//! C: `struct pci_driver`, `struct pci_error_handlers`, Documentation/PCI/pci-error-recovery.rst

use core::{cell::UnsafeCell, marker::PhantomData};

use kernel::{
    device::CoreInternal,
    device_id::RawDeviceIdIndex,
    driver,
    error::{from_result, to_result},
    prelude::*,
    str::CStrExt,
    types::Opaque,
};
use rmlx5_bindings as bindings;

use super::{BoundDevice, Gate, IdTable};
use crate::sysfs::{groups_as_raw, Groups, Owner};

/// How the PCI core describes the state of the channel when it reports an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    /// Non-fatal error: I/O still works.
    Normal,
    /// Fatal error: I/O is blocked, a reset will follow if every driver agrees.
    Frozen,
    /// The device is lost for good; no further callback but unbind.
    PermanentFailure,
}

impl ChannelState {
    fn from_raw(raw: bindings::pci_channel_state_t) -> Self {
        match raw {
            bindings::pci_channel_io_normal => Self::Normal,
            bindings::pci_channel_io_frozen => Self::Frozen,
            _ => Self::PermanentFailure,
        }
    }
}

/// The driver's vote in error recovery, `pci_ers_result_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// No reset needed: go on to `resume`.
    CanRecover,
    /// Reset the device, then call `slot_reset`.
    NeedReset,
    /// Give up; the PCI core marks the device as failed.
    Disconnect,
    /// The device works again.
    Recovered,
}

impl Recovery {
    fn into_raw(self) -> bindings::pci_ers_result_t {
        match self {
            Self::CanRecover => bindings::pci_ers_result_PCI_ERS_RESULT_CAN_RECOVER,
            Self::NeedReset => bindings::pci_ers_result_PCI_ERS_RESULT_NEED_RESET,
            Self::Disconnect => bindings::pci_ers_result_PCI_ERS_RESULT_DISCONNECT,
            Self::Recovered => bindings::pci_ers_result_PCI_ERS_RESULT_RECOVERED,
        }
    }
}

/// A PCI driver. See the module documentation for the order of the callbacks.
///
/// Every callback runs in process context under the device lock and may sleep.
pub trait Driver: Sized + 'static {
    /// Data attached to an entry of the id table.
    type IdInfo: Sync + 'static;

    /// The driver's private data. It may own any number of clones of the [`BoundDevice`]; they must
    /// be gone when its drop returns, or unbinding waits for them.
    type Data: Send + Sync + 'static;

    /// The devices that the driver asks for.
    const ID_TABLE: IdTable<Self::IdInfo>;

    /// Attribute groups on the PCI device, there from the end of probe to the start of unbind.
    const GROUPS: Groups<BoundTo<Self>> = &[None];

    /// Binds the driver to a device.
    ///
    /// `info` is [`None`] when the device was bound by `driver_override` and its id is not in the
    /// table.
    ///
    /// # Errors
    ///
    /// Any error leaves the device unbound; what the initialiser had built is dropped. `ENODEV`
    /// and `ENXIO` are not logged by the driver core.
    fn probe(
        device: &BoundDevice,
        info: Option<&'static Self::IdInfo>,
    ) -> impl PinInit<Self::Data, Error>;

    /// Lets go of the device. The data is dropped after this returns.
    fn unbind(device: &BoundDevice, data: Pin<&Self::Data>) {
        let _ = (device, data);
    }

    /// The machine goes down or jumps into another kernel: stop DMA and interrupts.
    fn shutdown(device: &BoundDevice, data: Pin<&Self::Data>) {
        let _ = (device, data);
    }

    /// A correctable error was logged; nothing is lost, nothing needs to be done.
    fn correctable_error(device: &BoundDevice, data: Pin<&Self::Data>) {
        let _ = (device, data);
    }

    /// An uncorrectable error was seen. No I/O unless `state` is [`ChannelState::Normal`].
    fn error_detected(
        device: &BoundDevice,
        data: Pin<&Self::Data>,
        state: ChannelState,
    ) -> Recovery {
        let _ = (device, data, state);
        Recovery::Disconnect
    }

    /// The device was reset: its configuration space holds reset values.
    fn slot_reset(device: &BoundDevice, data: Pin<&Self::Data>) -> Recovery {
        let _ = (device, data);
        Recovery::Disconnect
    }

    /// Everyone on the link has recovered: normal operation may go on.
    fn resume(device: &BoundDevice, data: Pin<&Self::Data>) {
        let _ = (device, data);
    }

    /// A reset asked for by somebody (sysfs `reset`, vfio) is about to happen.
    fn reset_prepare(device: &BoundDevice, data: Pin<&Self::Data>) {
        let _ = (device, data);
    }

    /// The reset announced by [`Driver::reset_prepare`] is over, whether or not it worked; the
    /// configuration space has been restored.
    fn reset_done(device: &BoundDevice, data: Pin<&Self::Data>) {
        let _ = (device, data);
    }
}

/// A successful binding. Fields are dropped in this order: the gate waits for the last claim.
struct Bound<T: Driver> {
    data: Pin<KBox<T::Data>>,
    device: BoundDevice,
    _gate: Gate,
}

/// What hangs on the device as driver data: full from the end of probe to the end of remove.
///
/// # Invariants
///
/// Written in probe and remove only, when no other callback can run.
#[doc(hidden)]
pub struct Slot<T: Driver>(UnsafeCell<Option<Bound<T>>>);

// SAFETY: All parts may move between threads.
unsafe impl<T: Driver> Send for Slot<T> {}
// SAFETY: `T::Data` and `BoundDevice` are `Sync`, and by the invariant the cell does not change
// while it is shared.
unsafe impl<T: Driver> Sync for Slot<T> {}

/// Names the data of the device a driver `T` is bound to, for sysfs attributes.
pub struct BoundTo<T>(PhantomData<T>);

// SAFETY: The attribute groups of a driver exist only between the end of a successful probe and the
// start of remove, and sysfs waits for running callbacks before the groups are gone.
unsafe impl<T: Driver> Owner for BoundTo<T> {
    type Data = T::Data;

    unsafe fn data<'a>(device: *mut bindings::device) -> Option<Pin<&'a T::Data>> {
        // SAFETY: By the safety requirements `device` is bound to a driver with adapter
        // `Adapter<T>`, whose driver data is a `Slot<T>`.
        let slot = unsafe { Adapter::<T>::slot(device) };
        // SAFETY: By the type invariant nobody writes while the attribute exists.
        slot.and_then(|slot| unsafe { &*slot.0.get() }.as_ref())
            .map(|bound| bound.data.as_ref())
    }
}

/// Registers `T` with the PCI bus; use it with [`module_driver!`](kernel::module_driver) or
/// [`kernel::driver::Registration`].
pub struct Adapter<T: Driver>(PhantomData<T>);

// SAFETY: `struct pci_driver` is a C structure that embeds a `struct device_driver` at the given
// offset, and the driver data set in probe is a `Slot<T>`.
unsafe impl<T: Driver> driver::DriverLayout for Adapter<T> {
    type DriverType = bindings::pci_driver;
    type DriverData<'bound> = Slot<T>;
    const DEVICE_DRIVER_OFFSET: usize = core::mem::offset_of!(Self::DriverType, driver);
}

// SAFETY: `unregister` undoes what a successful `register` did.
unsafe impl<T: Driver> driver::RegistrationOps for Adapter<T> {
    unsafe fn register(
        pdrv: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        let pdrv = pdrv.get();

        // SAFETY: The structure is zeroed and not yet known to anybody.
        unsafe {
            (*pdrv).name = name.as_char_ptr();
            (*pdrv).probe = Some(Self::probe);
            (*pdrv).remove = Some(Self::remove);
            (*pdrv).shutdown = Some(Self::shutdown);
            (*pdrv).id_table = T::ID_TABLE.as_ptr();
            (*pdrv).err_handler = Self::ERROR_HANDLERS;
            (*pdrv).dev_groups = const { groups_as_raw(T::GROUPS) };
        }

        // SAFETY: `pdrv` stays pinned until `unregister`, by the safety requirements.
        to_result(unsafe {
            bindings::__pci_register_driver(pdrv, module.as_ptr(), name.as_char_ptr())
        })
    }

    unsafe fn unregister(pdrv: &Opaque<Self::DriverType>) {
        // SAFETY: Registered before, by the safety requirements.
        unsafe { bindings::pci_unregister_driver(pdrv.get()) }
    }
}

impl<T: Driver> Adapter<T> {
    const ERROR_HANDLERS: &'static bindings::pci_error_handlers = &bindings::pci_error_handlers {
        error_detected: Some(Self::error_detected),
        mmio_enabled: None,
        slot_reset: Some(Self::slot_reset),
        reset_prepare: Some(Self::reset_prepare),
        reset_done: Some(Self::reset_done),
        resume: Some(Self::resume),
        cor_error_detected: Some(Self::correctable_error),
    };

    /// # Safety
    ///
    /// `device` must be bound to a driver registered through this adapter, and stay so for `'a`.
    unsafe fn slot<'a>(device: *mut bindings::device) -> Option<&'a Slot<T>> {
        // SAFETY: `device` is valid by the safety requirements.
        let data = unsafe { bindings::dev_get_drvdata(device) };
        // SAFETY: Driver data is null or the `Pin<KBox<Slot<T>>>` that probe stored, which as a
        // foreign pointer points to the slot.
        unsafe { data.cast::<Slot<T>>().as_ref() }
    }

    /// Runs a callback on what is bound to `pdev`.
    ///
    /// # Safety
    ///
    /// `pdev` must be bound to this driver and its lock be held, as the PCI core does for its
    /// callbacks.
    unsafe fn with<R>(
        pdev: *mut bindings::pci_dev,
        f: impl FnOnce(&BoundDevice, Pin<&T::Data>) -> R,
    ) -> Option<R> {
        // SAFETY: The device lock keeps the driver bound, by the safety requirements.
        let slot = unsafe { Self::slot(&raw mut (*pdev).dev) }?;
        // SAFETY: By the type invariant of `Slot` nobody writes under the device lock but us.
        let bound = unsafe { &*slot.0.get() }.as_ref()?;
        Some(f(&bound.device, bound.data.as_ref()))
    }

    extern "C" fn probe(pdev: *mut bindings::pci_dev, id: *const bindings::pci_device_id) -> c_int {
        // SAFETY: The PCI bus calls probe with a valid device, which the kernel crate's type wraps,
        // and keeps it for the duration of this function.
        let pdev = unsafe { &*pdev.cast::<kernel::pci::Device<CoreInternal<'_>>>() };
        // SAFETY: `DeviceId` is a transparent wrapper and `id` is valid during probe.
        let id = unsafe { &*id.cast::<kernel::pci::DeviceId>() };
        // SAFETY: `id` comes from `T::ID_TABLE`, or is the wildcard of `driver_override` whose
        // driver data is zero; dynamic ids must repeat an entry of the table.
        let info = unsafe { id.info_unchecked_opt::<T::IdInfo>() };

        from_result(|| {
            // On an early return these are dropped last to first: data, claim, gate.
            // SAFETY: The gate is dropped here on failure, else at the end of `remove`.
            let gate = unsafe { Gate::open(pdev) }?;
            let device = gate.claim();
            let data = KBox::pin_init(T::probe(&device, info), GFP_KERNEL)?;
            let bound = Bound::<T> {
                data,
                device,
                _gate: gate,
            };
            // INVARIANT: Nobody can reach the slot before the device lock is released.
            pdev.as_ref()
                .set_drvdata(Ok(Slot(UnsafeCell::new(Some(bound)))))?;
            Ok(0)
        })
    }

    extern "C" fn remove(pdev: *mut bindings::pci_dev) {
        // SAFETY: Called by the bus under the device lock, after a successful probe.
        unsafe { Self::with(pdev, T::unbind) };

        // SAFETY: As above.
        if let Some(slot) = unsafe { Self::slot(&raw mut (*pdev).dev) } {
            // SAFETY: The attribute groups are gone and the device lock is held, so nothing else
            // looks at the slot.
            // INVARIANT: This is remove.
            let bound = unsafe { (*slot.0.get()).take() };
            drop(bound);
        }
    }

    extern "C" fn shutdown(pdev: *mut bindings::pci_dev) {
        // SAFETY: Called by the bus under the device lock for a bound device.
        unsafe { Self::with(pdev, T::shutdown) };
    }

    extern "C" fn correctable_error(pdev: *mut bindings::pci_dev) {
        // SAFETY: The AER core holds the device lock and has checked that a driver is bound.
        unsafe { Self::with(pdev, T::correctable_error) };
    }

    extern "C" fn error_detected(
        pdev: *mut bindings::pci_dev,
        state: bindings::pci_channel_state_t,
    ) -> bindings::pci_ers_result_t {
        let state = ChannelState::from_raw(state);
        // SAFETY: The AER core holds the device lock and has checked that a driver is bound.
        unsafe { Self::with(pdev, |device, data| T::error_detected(device, data, state)) }
            .unwrap_or(Recovery::Disconnect)
            .into_raw()
    }

    extern "C" fn slot_reset(pdev: *mut bindings::pci_dev) -> bindings::pci_ers_result_t {
        // SAFETY: The AER core holds the device lock and has checked that a driver is bound.
        unsafe { Self::with(pdev, T::slot_reset) }
            .unwrap_or(Recovery::Disconnect)
            .into_raw()
    }

    extern "C" fn resume(pdev: *mut bindings::pci_dev) {
        // SAFETY: The AER core holds the device lock and has checked that a driver is bound.
        unsafe { Self::with(pdev, T::resume) };
    }

    extern "C" fn reset_prepare(pdev: *mut bindings::pci_dev) {
        // SAFETY: The PCI core holds the device lock around a reset and looks at the bound driver.
        unsafe { Self::with(pdev, T::reset_prepare) };
    }

    extern "C" fn reset_done(pdev: *mut bindings::pci_dev) {
        // SAFETY: The PCI core holds the device lock around a reset and looks at the bound driver.
        unsafe { Self::with(pdev, T::reset_done) };
    }
}
