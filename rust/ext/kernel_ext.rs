// SPDX-License-Identifier: GPL-2.0
//! Safe abstractions that the `kernel` crate lacks: code that waits to be moved there.
//!
//! Each file is one that could exist upstream. Nothing here knows a particular device. Unsafe code
//! of the project lives in this crate only; drivers built on it deny it.
//!
//! | module | offers |
//! |---|---|
//! | [`pci`] | [`pci::BoundDevice`], the claim all resources keep; driver trait with error handlers, sysfs groups and shutdown; BARs; MPS, MRRS and link report; saved state; AER |
//! | [`rdma`] | RDMA devices: registration, attributes, contexts and protection domains, events |
//! | [`net`] | network devices: registration, packets and who owns them, queues, polling, pages for receiving |
//! | [`devlink`] | the plug of a network device |
//! | [`sysfs`] | typed attributes and groups |
//! | [`global`] | a value that belongs to the module |
//! | [`completion`] | completions with timeout and reinit |
//! | [`time`] | deadlines on the monotonic clock |
//! | [`random`] | random numbers |
//! | [`numa`] | nodes, spreading over nearby CPUs, coherent memory on a node |
//! | [`dma`] | masks and limits, pages mapped for the device |
//! | [`debugfs`] | files that a module can own safely |
//! | [`irq`] | MSI-X vectors with names, owned handlers and affinity |
//! | [`workqueue`] | own queues, tasks that are cancelled when dropped |
//!
//! What the `kernel` crate has and drivers should take from there: `sync::{Arc, Mutex, SpinLock,
//! SpinLockIrq, CondVar}` (`SpinLockIrq` may be taken in hard interrupts), `sync::atomic`,
//! `sync::barrier`, `time::{Delta, Instant}`, module parameters.

pub mod completion;
pub mod debugfs;
pub mod devlink;
pub mod dma;
pub mod global;
pub mod irq;
pub mod net;
pub mod numa;
pub mod pci;
pub mod random;
pub mod rdma;
pub mod sysfs;
pub mod time;
pub mod workqueue;

/// Prefix of messages that have no device.
#[allow(non_upper_case_globals)]
const __LOG_PREFIX: &[u8] = b"kernel_ext\0";
