// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! What the hardware says: layouts and constants of the mlx5 programming interface.
//!
//! Shared by the driver and the emulator, so it holds facts only: where a field is, what a number
//! means, which owner bit a lap of a ring has. What either side *does* with them stays with that
//! side; a shared mistake would hide itself.
//!
//! Every layout comes from the kernel's own headers through bindgen (`scripts/hw-bindings`, run by
//! `make prepare`); no offset is copied by hand. The crate needs neither `std`, `alloc` nor the
//! kernel crate and does no I/O.
//!
//! | term | meaning |
//! |---|---|
//! | ifc layout | `mlx5_ifc_*_bits`: commands and contexts, one array byte a bit, big endian dwords |
//! | wire struct | `mlx5_cqe64`, `mlx5_eqe`, WQE segments: byte structures with big endian members |
//! | owner bit | toggles with each lap of a ring; tells a new entry from an old one |
//! | WQEBB | 64-byte basic block, the unit in which a send queue counts |
#![cfg_attr(not(MODULE), no_std)]

pub mod field;
pub mod ring;
pub mod status;
pub mod wire;

/// Raw bindgen output. Above this crate only [`field!`], [`wire!`] and the constants are used.
#[allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rustdoc::all,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
pub mod raw {
    include!(env!("MLX5_HW_BINDINGS"));
}

pub use raw::{ifc, opcode_name};
