// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control socket: one JSON object a line asks, one JSON object a line answers.
//!
//! An answer is `{"ok": value}` or `{"error": "why"}`. Requests are in [`request`].

pub mod client;
pub mod request;
mod server;

pub use server::Server;
