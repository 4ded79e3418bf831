// SPDX-License-Identifier: GPL-2.0
//! RDMA devices: what the verbs layer of the kernel calls a driver for.
//!
//! # Who owns what
//!
//! - [`Registration`] owns the `ib_device` and the driver's data. Dropping it takes the device away
//!   from all users: kernel clients are removed, user contexts are destroyed behind their files (the
//!   files stay open and answer `EIO`), attribute functions have returned.
//! - The core allocates and frees the memory of contexts and protection domains; the driver's part
//!   lives behind the core's, is initialised in place by the create function and dropped by the
//!   destroy function. See [`object`].
//!
//! # Locking
//!
//! Functions of [`Driver`] run in process context, any number at once. The core orders the life of
//! objects: no function gets an object before its create function has succeeded, or after its
//! destroy function was called.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

pub mod attr;
pub mod device;
pub mod event;
pub mod gid;
pub mod mmap;
pub mod object;
mod ops;
pub mod udata;

pub use attr::{DeviceAttributes, Mtu, PortAttributes, PortSpeed, PortState, PortWidth};
pub use device::{Config, DataOf, Driver, DriverId, Name, Registration};
pub use event::PortEvent;
pub use gid::{Gid, GidKind, GidKinds};
pub use mmap::{Cache, Vma};
pub use object::{Context, Pd};
pub use udata::Udata;
