// SPDX-License-Identifier: GPL-2.0
//! Driver for ConnectX-class RoCE adapters (the mlx5 programming interface).
//!
//! Layers, lowest first; imports point to the same layer or a lower one:
//!
//! | layer | modules |
//! |---|---|
//! | everywhere | [`census`], [`dirs`], [`limit`] |
//! | device access | [`iseg`], [`clock`], [`cmd`], [`caps`], [`pages`], [`uar`], [`doorbell`], [`buf`] |
//! | events | [`event`], [`eq`], [`irq`] |
//! | objects | [`record`], [`wq`], [`pd`], [`mr`], [`cq`], [`qp`], [`srq`], [`wc`], [`port`] |
//! | life of a device | [`boot`], [`health`], [`recovery`], [`device`], [`worker`] |
//! | users | [`channel`], [`ib`], [`net`] |
//! | PCI | [`bound`], [`driver`], [`aer`], [`pci`], [`sysfs`], [`report`], [`debugfs`] |
//!
//! What must go up goes through a trait that the lower layer owns: [`cmd::CompletionSource`],
//! [`event::Listener`], [`eq::sink::CqHandler`], [`recovery::Participant`].
//!
//! | term | meaning |
//! |---|---|
//! | EQ, CQ, QP | event queue, completion queue, queue pair |
//! | UAR | page of BAR0 with doorbells |
//! | ISSI | revision of the interface that both sides speak |
//! | PAS | list of the pages of a buffer |
#![deny(unsafe_code)]

use kernel::{
    driver::Registration,
    prelude::*,
    sync::Arc,
    time::Delta,
    InPlaceModule, //
};
use kernel_ext::{
    debugfs::Dir,
    global::Owner,
    pci::Adapter, //
};

mod aer;
mod boot;
mod bound;
mod buf;
mod caps;
mod census;
mod channel;
mod clock;
mod cmd;
mod congestion;
mod cq;
mod debugfs;
mod device;
mod dirs;
mod doorbell;
mod driver;
mod eq;
mod event;
mod health;
mod home;
mod ib;
mod irq;
mod iseg;
mod limit;
mod master;
mod mr;
mod net;
mod pages;
mod pci;
mod pd;
mod port;
mod port_counters;
mod q_counter;
mod qp;
mod queue_state;
mod realm;
mod record;
mod recovery;
mod report;
mod rq;
mod sq;
mod srq;
mod sysfs;
mod uar;
mod umr;
mod wc;
mod worker;
mod wq;
mod xrc;

#[pin_data]
struct Module {
    #[pin]
    _driver: Registration<Adapter<bound::Rmlx5>>,
    _debugfs: Owner<Arc<Dir>>,
    /// Dropped last: by then nothing may be left.
    _inspection: census::Inspection,
}

impl InPlaceModule for Module {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // Initialised first: probe looks for it.
            _debugfs: dirs::root()?,
            _driver <- Registration::new(<Self as kernel::ModuleMetadata>::NAME, module),
            _inspection: census::Inspection,
        })
    }
}

/// Vectors at most, all kinds together; 0 for no limit.
fn max_vectors() -> u32 {
    module_parameters::max_vectors.value()
}

/// Channels that a card begins with.
fn num_qps() -> u32 {
    module_parameters::num_qps.value()
}

/// Depth of the channels' CQs that a card begins with.
fn cq_size() -> u32 {
    module_parameters::cq_size.value()
}

/// How long one command may take outside callbacks of the PCI core.
fn command_timeout() -> Delta {
    let seconds = module_parameters::command_timeout.value().clamp(1, 60);
    Delta::from_secs(seconds.into())
}

/// Whether WQEs may go through BlueFlame registers where that works.
fn blue_flame() -> bool {
    module_parameters::blue_flame.value() != 0
}

/// Whether addresses become GIDs of RoCE version 1 too, where the card has that.
fn roce_v1() -> bool {
    module_parameters::roce_v1.value() != 0
}

/// Completion vectors at most; 0 for one per CPU.
fn comp_vectors() -> u32 {
    module_parameters::comp_vectors.value()
}

module! {
    type: Module,
    name: "rmlx5",
    authors: ["The rmlx5 authors"],
    description: "Driver for ConnectX-class RoCE adapters",
    license: "GPL",
    params: {
        max_vectors: u32 {
            default: 0,
            description: "Interrupt vectors at most, all kinds together (0: no limit)",
        },
        command_timeout: u32 {
            default: 60,
            description: "Seconds one command may take before the card is called broken (1 to 60)",
        },
        comp_vectors: u32 {
            default: 0,
            description: "Completion vectors at most (0: one per CPU)",
        },
        num_qps: u32 {
            default: 8,
            description: "Channel QPs of a card",
        },
        cq_size: u32 {
            default: 1024,
            description: "Depth of each channel CQ",
        },
        blue_flame: u32 {
            default: 1,
            description: "Write WQEs to BlueFlame registers where write combining works (0: never)",
        },
        roce_v1: u32 {
            default: 0,
            description: "GIDs of RoCE version 1 beside those of version 2, where the card has it (0: none)",
        },
    },
}
