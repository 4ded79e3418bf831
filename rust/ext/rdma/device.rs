// SPDX-License-Identifier: GPL-2.0
//! Registering an RDMA device.

use core::{fmt, marker::PhantomData, mem::offset_of, ptr::NonNull};

use kernel::{
    error::to_result,
    prelude::*,
    str::CStrExt,
    sync::atomic::{ordering::Relaxed, Atomic},
    types::Opaque,
    ModuleMetadata,
};
use pin_init::PinInit;
use rmlx5_bindings as bindings;

use super::{
    attr::{DeviceAttributes, PortAttributes},
    counter::CounterSet,
    gid::{Gid, GidKinds},
    ioctl::Definition,
    kverbs::KernelVerbs,
    mmap::Vma,
    object::Context,
    ops::Ops,
    udata::Udata,
};
use crate::{
    net::NetDevice,
    pci::BoundDevice,
    sysfs::{Group, Groups, Owner},
};

/// Which user space library fits (`enum rdma_driver_id` of the uapi).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DriverId {
    /// None in particular.
    Unknown = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN,
    /// libmlx5.
    Mlx5 = bindings::rdma_driver_id_RDMA_DRIVER_MLX5,
}

/// A RoCE driver. See the documentation of [`crate::rdma`] for locking.
pub trait Driver: Sized + 'static {
    /// The module that implements this; it cannot go away while a device file is open.
    type Module: ModuleMetadata;

    /// The driver's data of a device.
    type Data: Send + Sync + 'static;

    /// The driver's part of a user context; dropped when the context is destroyed.
    type Context: Send + Sync + 'static;

    /// The driver's part of a protection domain; dropped when it is destroyed, which cannot fail.
    type Pd: Send + Sync + 'static;

    /// The driver's part of a page of the device that a process has asked for
    /// ([`PageMethods`](super::ioctl::PageMethods)); dropped when neither its object nor a mapping is there any more,
    /// and before the context is.
    type Page: Send + Sync + 'static;

    /// The user space library.
    const DRIVER_ID: DriverId;

    /// Version of the interface to the user space library.
    const UVERBS_ABI: u32;

    /// Attributes beside the device's own files.
    const GROUP: Option<&'static Group<DataOf<Self>>> = None;

    /// Attributes in directories of their own. They too are there when the uevent of the device is
    /// sent.
    const NAMED_GROUPS: Groups<DataOf<Self>> = &[None];

    /// Counters of each port.
    const PORT_COUNTERS: Option<&'static CounterSet<Self::Data>> = None;

    /// Counters of the device as a whole.
    const DEVICE_COUNTERS: Option<&'static CounterSet<Self::Data>> = None;

    /// Limits and identity. Called once when the device is registered, without `udata`, and
    /// whenever user space asks.
    fn query_device(data: &Self::Data, udata: Option<Udata<'_>>) -> Result<DeviceAttributes>;

    /// State of a port, counted from 1.
    fn query_port(data: &Self::Data, port: u32) -> Result<PortAttributes>;

    /// Writes the firmware version, at most 31 bytes; the rest is cut off.
    fn firmware(data: &Self::Data, to: &mut dyn fmt::Write) -> fmt::Result;

    /// A GID appears in the table of a port. An error leaves it out.
    fn add_gid(data: &Self::Data, gid: &Gid<'_>) -> Result {
        let _ = (data, gid);
        Ok(())
    }

    /// A GID goes from the table of a port.
    fn delete_gid(data: &Self::Data, gid: &Gid<'_>) -> Result {
        let _ = (data, gid);
        Ok(())
    }

    /// Makes a user context and answers the user space library.
    fn create_context(data: &Self::Data, udata: Udata<'_>) -> impl PinInit<Self::Context, Error>;

    /// Maps device memory into user space.
    fn mmap(data: &Self::Data, vma: Vma<'_, Self>) -> Result {
        let _ = (data, vma);
        Err(EINVAL)
    }

    /// Makes a protection domain. A user's has a context and udata, the kernel's has neither.
    fn create_pd(
        data: &Self::Data,
        user: Option<(Context<'_, Self::Context>, Udata<'_>)>,
    ) -> impl PinInit<Self::Pd, Error>;
}

/// What the core has to know about a device besides the functions.
pub struct Config {
    /// GUID of the node, in the order of the wire.
    pub node_guid: [u8; 8],
    /// Number of ports.
    pub ports: u32,
    /// Entries of the GID table of each port.
    pub gid_table_len: u16,
    /// What kinds of GIDs the core makes of an address.
    pub gid_kinds: GidKinds,
    /// Completion vectors that users may choose from.
    pub completion_vectors: u32,
}

/// A copy of the name of a device.
#[derive(Clone, Copy)]
pub struct Name([u8; Self::LEN]);

impl Name {
    // CAST: A small constant.
    const LEN: usize = bindings::IB_DEVICE_NAME_MAX as usize;

    /// The name; empty if it is not UTF-8.
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or(&[]);
        core::str::from_utf8(text).unwrap_or("")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// The kernel's own trait, which its printing macros want.
impl kernel::fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The core's device and behind it what callbacks need.
#[repr(C)]
pub(super) struct Shell<D: Driver> {
    ib: Opaque<bindings::ib_device>,
    data: *const D::Data,
    gid_table_len: u16,
    gid_kinds: GidKinds,
    /// Not 0 when there has been a context of a user. The core zeroes it.
    had_user: Atomic<u32>,
    /// Not 0 when it has its files in sysfs. The core zeroes it.
    has_files: Atomic<u32>,
}

impl<D: Driver> Shell<D> {
    /// # Safety
    ///
    /// As for [`Shell::data`].
    pub(super) unsafe fn has_files<'a>(ib: *mut bindings::ib_device) -> &'a Atomic<u32> {
        // SAFETY: By the safety requirements.
        unsafe { &(*ib.cast::<Self>()).has_files }
    }

    /// # Safety
    ///
    /// As for [`Shell::data`].
    pub(super) unsafe fn had_user<'a>(ib: *mut bindings::ib_device) -> &'a Atomic<u32> {
        // SAFETY: By the safety requirements.
        unsafe { &(*ib.cast::<Self>()).had_user }
    }

    /// # Safety
    ///
    /// `ib` must come from [`Registration::new`] for the same driver and not be deallocated for
    /// `'a`.
    pub(super) unsafe fn data<'a>(ib: *mut bindings::ib_device) -> &'a D::Data {
        // SAFETY: By the safety requirements `ib` is at the start of a shell whose data lives until
        // the device is unregistered.
        unsafe { &*(*ib.cast::<Self>()).data }
    }

    /// # Safety
    ///
    /// As for [`Shell::data`].
    pub(super) unsafe fn gid_table_len(ib: *mut bindings::ib_device) -> u16 {
        // SAFETY: By the safety requirements.
        unsafe { (*ib.cast::<Self>()).gid_table_len }
    }

    /// # Safety
    ///
    /// As for [`Shell::data`].
    pub(super) unsafe fn gid_kinds(ib: *mut bindings::ib_device) -> GidKinds {
        // SAFETY: By the safety requirements.
        unsafe { (*ib.cast::<Self>()).gid_kinds }
    }

    /// The embedded device.
    ///
    /// # Safety
    ///
    /// As for [`Shell::data`].
    pub(super) unsafe fn device(ib: *mut bindings::ib_device) -> *mut bindings::device {
        // SAFETY: In bounds by the safety requirements.
        unsafe { (&raw mut (*ib).__bindgen_anon_1).cast() }
    }
}

/// Names the data of an RDMA device of driver `D`, for sysfs attributes.
pub struct DataOf<D>(PhantomData<D>);

// SAFETY: The attributes exist while the device is registered, removing them waits for running
// functions, and the data is dropped after that.
unsafe impl<D: Driver> Owner for DataOf<D> {
    type Data = D::Data;

    unsafe fn data<'a>(device: *mut bindings::device) -> Option<Pin<&'a D::Data>> {
        // SAFETY: By the safety requirements `device` is that of an `ib_device` of this driver.
        let data = unsafe { Shell::<D>::data(bindings::rdma_device_to_ibdev(device)) };
        // SAFETY: The data is in a pinned box.
        Some(unsafe { Pin::new_unchecked(data) })
    }
}

/// A registered device, until drop.
///
/// # Invariants
///
/// `ib` is a registered device made from a `Shell<D>` that points to `data`.
pub struct Registration<D: Driver> {
    ib: NonNull<bindings::ib_device>,
    data: Pin<KBox<D::Data>>,
    _parent: BoundDevice,
}

// SAFETY: `D::Data` is `Send`, and a device may be unregistered by any thread.
unsafe impl<D: Driver> Send for Registration<D> {}
// SAFETY: `D::Data` is `Sync`, and the core has its own locks.
unsafe impl<D: Driver> Sync for Registration<D> {}

impl<D: Driver> Registration<D> {
    /// Registers a device below `parent`. `name` may hold a `%d` for the first free number.
    ///
    /// `netdev` is the network device of port 1: the core makes GIDs of its addresses, and events of its
    /// link. The core keeps a reference until the device is unregistered, and unregistering `netdev`
    /// waits for that.
    ///
    /// Sleeps. The driver's functions are called before this returns. `data` is initialised first.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` for a `netdev` without ports, `ENFILE` when the name is taken, and what the driver's functions return.
    pub fn new(
        parent: &BoundDevice,
        name: &'static CStr,
        config: &Config,
        netdev: Option<&NetDevice>,
        data: impl PinInit<D::Data, Error>,
    ) -> Result<Self>
    where
        D: KernelVerbs,
    {
        const { assert!(offset_of!(Shell<D>, ib) == 0) };
        let data = KBox::pin_init(data, GFP_KERNEL)?;
        let ports = config.ports;
        let vectors = i32::try_from(config.completion_vectors).map_err(|_| EINVAL)?;

        // SAFETY: The size is that of a structure that starts with the core's; `init_net` is static.
        let ib = unsafe {
            bindings::_ib_alloc_device(size_of::<Shell<D>>(), (&raw mut bindings::init_net).cast())
        };
        let ib = NonNull::new(ib).ok_or(ENOMEM)?;
        let raw = ib.as_ptr();
        let ops = Ops::<D>::table();

        // SAFETY: The device is ours until it is registered. `data` stays where it is, and the
        // table is copied.
        let result = unsafe {
            let shell = raw.cast::<Shell<D>>();
            (*shell).data = &*data;
            (*shell).gid_table_len = config.gid_table_len;
            (*shell).gid_kinds = config.gid_kinds;
            (*raw).node_type = bindings::RDMA_NODE_IB_CA as u8;
            (*raw).phys_port_cnt = ports;
            (*raw).num_comp_vectors = vectors;
            (*raw).node_guid = u64::from_ne_bytes(config.node_guid);
            (*Shell::<D>::device(raw)).parent = parent.as_raw_device();
            (*raw).driver_def = const { Definition::list(D::DEFINITIONS) };
            bindings::ib_set_device_ops(raw, &ops);
            netdev
                .map_or(Ok(()), |netdev| {
                    to_result(bindings::ib_device_set_netdev(raw, netdev.as_raw(), 1))
                })
                .and_then(|()| {
                    to_result(bindings::ib_register_device(
                        raw,
                        name.as_char_ptr(),
                        parent.as_raw_device(),
                    ))
                })
        };
        if let Err(error) = result {
            // SAFETY: Allocated above and not registered.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(error);
        }
        // INVARIANT: Registered above.
        Ok(Self {
            ib,
            data,
            _parent: parent.clone(),
        })
    }

    /// The driver's data.
    pub fn data(&self) -> Pin<&D::Data> {
        self.data.as_ref()
    }

    /// The name of the device now, for example `mlx5_0`. A person may change it at any time.
    pub fn name(&self) -> Name {
        let mut name = Name([0; Name::LEN]);
        // SAFETY: By the type invariant the device is there.
        let source: *const u8 = unsafe { (&raw const (*self.ib.as_ptr()).name).cast() };
        for (index, byte) in name.0.iter_mut().enumerate() {
            // A rename may happen meanwhile; then the copy is a mix of both names.
            // SAFETY: The core's name has the same length.
            *byte = unsafe { source.add(index).read_volatile() };
        }
        name
    }

    /// Takes all device memory out of the address spaces of users. What they write there afterwards
    /// goes to a page of nobody; new mappings work.
    ///
    /// Waits for locks of users' address spaces: not for callbacks that have a bound.
    pub fn revoke_mappings(&self) {
        // SAFETY: By the type invariant the device is registered. Once a user has had a context the
        // layer for users knows the device, and does until it is unregistered: that layer's module
        // cannot go while this one uses its functions.
        unsafe {
            if Shell::<D>::had_user(self.as_raw()).load(Relaxed) != 0 {
                bindings::rdma_user_mmap_disassociate(self.as_raw());
            }
        }
    }

    pub(super) fn as_raw(&self) -> *mut bindings::ib_device {
        self.ib.as_ptr()
    }
}

impl<D: Driver> Drop for Registration<D> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. When unregistering has returned nobody calls the driver any
        // more; the data is dropped after this. The core keeps the memory for those who still have a
        // reference.
        unsafe {
            bindings::ib_unregister_device(self.ib.as_ptr());
            bindings::ib_dealloc_device(self.ib.as_ptr());
        }
    }
}
