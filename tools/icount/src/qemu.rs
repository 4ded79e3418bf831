// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of QEMU's plugin interface that is used here, declared by hand because the
//! distribution ships no header. Source: docs/devel/tcg-plugins and qemu-plugin.h, API version 7
//! (QEMU 11.1). The symbols are those of the QEMU that loads the plugin.

use std::ffi::{c_char, c_int, c_void};

/// API version this file was written against; QEMU refuses what it cannot serve.
#[no_mangle]
pub static qemu_plugin_version: c_int = 7;

/// A 64-bit counter for each vCPU at an offset in a scoreboard (`qemu_plugin_u64`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    pub score: *mut c_void,
    pub offset: usize,
}

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const INLINE_ADD_U64: c_int = 0;

extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: u64,
        callback: extern "C" fn(*mut c_void, *mut c_void),
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(tb: *mut c_void) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *mut c_void, index: usize) -> *mut c_void;
    pub fn qemu_plugin_insn_vaddr(insn: *mut c_void) -> u64;
    pub fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut c_void;
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut c_void,
        op: c_int,
        entry: Entry,
        value: u64,
    );
    pub fn qemu_plugin_u64_sum(entry: Entry) -> u64;
}

/// One plugin option, `key=value`.
///
/// # Safety
///
/// `argv` must point to `argc` NUL-terminated strings, as QEMU passes them to the install function.
pub unsafe fn options(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    (0..usize::try_from(argc).unwrap_or(0))
        .map(|at| {
            // SAFETY: by the contract of this function.
            let raw = unsafe { std::ffi::CStr::from_ptr(*argv.add(at)) };
            raw.to_string_lossy().into_owned()
        })
        .collect()
}
