// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCI Express configuration space, capabilities, AER and MSI-X of an emulated endpoint.
//!
//! No I/O and no clock: a function is a block of 4096 bytes with rules. [`ConfigSpace`] owns them;
//! each capability is a type of its own that says where its registers are, what they are after
//! reset, who may write which bit, and what a write means. What a write means for the rest of the
//! card comes back as an [`Event`], so the owner decides what a function level reset wipes.
//!
//! Words: *RW* a bit software writes; *W1C* a status bit that writing a one clears; *sticky* a bit
//! that survives hot reset and function level reset (PCI Express base specification 5.0, 7.4).

mod aer;
mod config;
mod express;
mod header;
mod msix;
mod power;
mod serial;
mod space;
mod vendor;
mod vpd;

pub use aer::Fault;
pub use config::{ConfigSpace, Description, Event};
pub use express::{Link, Speed};
pub use header::Identity;
pub use msix::{Message, Msix, Raise};
pub use space::{OutOfRange, Reset, CONFIG_SIZE};
pub use vendor::{CardSpace, Transfer};
