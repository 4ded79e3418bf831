// SPDX-License-Identifier: GPL-2.0
//! C bindings that the `kernel` crate lacks; everything else is re-exported from
//! `kernel::bindings`, so that a type is the same type on both sides.
//!
//! Local items shadow the glob: the empty stubs that `kernel::bindings` holds for `ib_device`,
//! `net_device` and others are replaced by full definitions here. Pointers to such stubs that come
//! out of the kernel crate need a `cast()`.
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    ambiguous_glob_reexports,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rustdoc::all,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]

pub use kernel::bindings::*;

use kernel::ffi;
use pin_init::{MaybeZeroable, Zeroable};

// SAFETY: A newtype around its storage.
unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

include!(concat!(env!("RMLX5_GENERATED"), "/bindings_generated.rs"));
include!(concat!(env!("RMLX5_GENERATED"), "/helpers_generated.rs"));
