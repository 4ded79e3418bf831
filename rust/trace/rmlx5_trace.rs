// SPDX-License-Identifier: GPL-2.0
//! Trace events of rmlx5, in `/sys/kernel/tracing/events/rmlx5/`.
//!
//! The kernel crate's `declare_trace!` finds events of the kernel's own bindings only, so these go
//! through C functions. A disabled event costs a call and a patched branch. All may be called in any
//! context.

use kernel::{prelude::*, str::CStrExt, time::Delta};

#[allow(missing_docs, unreachable_pub)]
mod raw {
    use kernel::ffi;

    include!(concat!(
        env!("RMLX5_GENERATED"),
        "/../trace/events_generated.rs"
    ));
}

/// Whether somebody listens to [`command`].
pub fn command_enabled() -> bool {
    // SAFETY: Always safe to call.
    unsafe { raw::rmlx5_trace_command_enabled() != 0 }
}

/// How a command ended.
#[derive(Clone, Copy)]
pub enum Outcome {
    /// The device answered with this status (0 is success) and syndrome.
    Status(u8, u32),
    /// There was no answer, for this reason.
    Error(Error),
}

/// A command has ended. `name` is the opcode's, `time` from issue to answer.
pub fn command(device: &CStr, name: &str, opcode: u16, op_mod: u16, outcome: Outcome, time: Delta) {
    let (result, syndrome) = match outcome {
        Outcome::Status(status, syndrome) => (status.into(), syndrome),
        Outcome::Error(error) => (error.to_errno(), 0),
    };
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(0);
    // SAFETY: The strings are valid for the call, `name` with its length; they are copied.
    unsafe {
        raw::rmlx5_trace_command(
            device.as_char_ptr(),
            name.as_ptr(),
            name.len(),
            opcode,
            op_mod,
            result,
            syndrome,
            nanos,
        )
    }
}

/// Whether somebody listens to [`event`].
pub fn event_enabled() -> bool {
    // SAFETY: Always safe to call.
    unsafe { raw::rmlx5_trace_event_enabled() != 0 }
}

/// An event queue entry came in on a vector: its type, its subtype, and the first and the last
/// dword of its data.
pub fn event(device: &CStr, vector: u16, kind: u8, sub_type: u8, data: [u32; 2]) {
    let [first, last] = data;
    // SAFETY: The string is valid for the call; it is copied.
    unsafe { raw::rmlx5_trace_event(device.as_char_ptr(), vector, kind, sub_type, first, last) }
}
