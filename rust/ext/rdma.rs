// SPDX-License-Identifier: GPL-2.0
//! RDMA devices: what the verbs layer of the kernel calls a driver for.
//!
//! # Who owns what
//!
//! - [`Registration`] owns the `ib_device` and the driver's data. Dropping it takes the device away
//!   from all users: kernel clients are removed, user contexts are destroyed behind their files (the
//!   files stay open and answer `EIO`), attribute functions have returned.
//! - The core allocates and frees the memory of contexts, protection domains and other objects; the
//!   driver's part lives behind the core's, is initialised in place by the create function and
//!   dropped by the destroy function. See [`object`]. Memory regions, work queues and flow rules are the exception: their
//!   memory is allocated here, which a driver does not notice.
//! - What a device tells of an object goes through a [`Notifier`], which may outlive the object.
//! - [`Umem`] owns pinned memory of a process.
//! - A page of the device that a process has asked for ([`page`]) goes with its object and its last mapping.
//!
//! # Locking
//!
//! Functions of [`Driver`] run in process context, any number at once. The core orders the life of
//! objects: no function gets an object before its create function has succeeded, or after its
//! destroy function was called.
//!
//! As a proposal to upstream: Documentation/driver/rdma-proposal.md.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

pub mod access;
pub mod ah;
pub mod attr;
pub mod clock;
pub mod counter;
pub mod cq;
pub mod details;
pub mod device;
pub mod event;
pub mod flow;
pub mod gid;
pub mod ioctl;
pub mod kverbs;
pub mod mmap;
pub mod mr;
pub mod mw;
pub mod notify;
pub mod object;
mod ops;
pub mod page;
pub mod qp;
pub mod srq;
pub mod udata;
pub mod umem;
pub mod verbs;
pub mod wq;
pub mod xrcd;

pub use access::Access;
pub use ah::{source_port, AddressVector, PathReport};
pub use attr::{DeviceAttributes, Mtu, PortAttributes, PortSpeed, PortState, PortWidth};
pub use clock::{ClockInfo, ClockPage};
pub use counter::{CounterName, CounterSet};
pub use cq::{Cq, NewCq};
pub use details::Details;
pub use device::{Config, DataOf, Driver, DriverId, Name, Registration};
pub use event::PortEvent;
pub use flow::{
    EthernetFields, Filter, FlowKind, FlowSpec, Ipv4Fields, Ipv6Fields, NewFlow, PortFields,
};
pub use gid::{Gid, GidKind, GidKinds};
pub use ioctl::{
    Attribute, Call, Choice, ContextAnswer, Definition, DeviceMethod, Held, ObjectMethods,
    ObjectNumbers, PageMethods, PdMethod, RuleMethods,
};
pub use kverbs::KernelVerbs;
pub use mmap::{Cache, Vma};
pub use mr::{Mr, NewMr, Reregister};
pub use mw::{NewWindow, WindowKind};
pub use notify::{CqNotifier, Notifier, QpEvent, QpNotifier, SrqEvent, SrqNotifier, WqNotifier};
pub use object::{Context, Pd};
pub use page::{PageRef, Place};
pub use qp::{NewQp, NewXrcTarget, Qp, QpCaps, QpChange, QpKind, QpReport, QpState};
pub use srq::{NewSrq, Srq, SrqAttributes, SrqChange, SrqKind};
pub use udata::Udata;
pub use umem::Umem;
pub use verbs::UserVerbs;
pub use wq::{NewWq, NewWqTable, Wq, WqChange, WqState, WqTable};
pub use xrcd::Xrcd;
