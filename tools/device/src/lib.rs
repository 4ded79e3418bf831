// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ConnectX model, behind four traits: testable without a virtual machine.
//!
//! | module | what |
//! |---|---|
//! | [`card`] | [`card::Card`], the public face: registers in, interrupts and frames out |
//! | [`host`], [`scaffold`] | the four traits, and a host in memory for tests |
//! | [`profile`] | what card it is: identity, limits, capabilities, as TOML |
//! | [`hca`] | [`hca::Hca`], all state of the function, and the services its parts share |
//! | [`env`] | what outlives a reset: host access (counted), profile, counters, trace, faults |
//! | [`table`] | numbered objects with limits and reference counts |
//! | [`sched`] | work that waits for the data path, in a fair queue |
//! | [`buffer`] | a queue buffer: page list to bus address |
//! | [`cmd`] | the trait [`cmd::Command`], shared checks, registry, command queue |
//! | [`layout`] | ifc layouts as tables (generated): reserved bits, names for the trace |
//! | [`iseg`], [`uar`] | the two kinds of page in BAR0 |
//! | [`boot`], [`pages`], [`caps`] | bring-up, firmware pages, capabilities |
//! | [`vport`], [`nic_vport`], [`roce_address`], [`register`], [`adapter`] | port and identity |
//! | [`priority`] | priorities of frames, traffic classes |
//! | [`icmd`], [`nodnic`], [`chip`] | what tools and boot programs reach through the vendor gateway |
//! | one noun a file | [`eq`], [`cq`], [`mkey`], [`qp`], [`srq`], [`pd`], [`sq`], [`rq`], ... |
//! | [`transport`], [`eth`], [`flow`] | the RDMA engine, the Ethernet engine, steering |
//!
//! # How a command is added
//! A type in the file of its object implements [`cmd::Command`]; one line in
//! [`cmd::registry`] makes it known. The dispatcher has then checked lengths, uid, HCA state, op_mod,
//! reserved bits (against the layout; exemptions stand in [`cmd::exempt`]) and firmware pages
//! ([`cmd::Command::footprint`] must be the footprint of the object created). `run` refuses with
//! `refuse!(Status, code, "...")`, a code for each reason, and then must not have changed anything.
//!
//! # How the data path runs
//! A doorbell or a frame never does unbounded work: it pushes [`sched::Work`], and [`hca::Hca::work`]
//! gives each queue its turn. [`transport::run_qp`] and [`eth::run_sq`] do a bounded piece and push
//! themselves again for more. Timers are a deadline ([`transport::next_deadline`]) and a `tick`.
//! Frames leave through [`hca::Hca::transmit`], which loops back what is for this card. Host memory
//! is touched only through [`env::Env`]. An object that needs the rest of the function while it
//! works is taken with [`table::Table::check_out`] and put back with `check_in`.
//! Events: [`hca::Hca::async_event`] to the EQ subscribed, [`hca::Hca::post_eqe`] to a given one.

pub mod adapter;
mod bare;
pub mod boot;
pub mod buffer;
pub mod caps;
pub mod card;
pub mod chip;
pub mod cmd;
pub mod cong;
pub mod counters;
pub mod cq;
pub mod dump;
pub mod env;
pub mod eq;
pub mod eth;
pub mod fault;
pub mod flow;
pub mod hca;
pub mod host;
pub mod icmd;
pub mod iseg;
pub mod layout;
pub mod mkey;
pub mod nic_vport;
pub mod nodnic;
pub mod pages;
pub mod pd;
pub mod priority;
pub mod profile;
pub mod push;
pub mod q_counter;
pub mod qp;
pub mod register;
pub mod roce_address;
pub mod rq;
pub mod rqt;
pub mod scaffold;
pub mod sched;
pub mod sq;
pub mod srq;
pub mod table;
pub mod tir;
pub mod tis;
pub mod trace;
pub mod transport;
pub mod transport_domain;
pub mod uar;
pub mod violation;
pub mod vnic_env;
pub mod vport;
pub mod wq;
pub mod xrcd;
