// SPDX-License-Identifier: GPL-2.0
//! One file a subject.

mod cqe;
mod endpoint;
mod flow;
mod handshake;
mod latency;
mod options;
mod pattern;
mod wq;
