// SPDX-License-Identifier: GPL-2.0
//! One file a subject.

mod cqe;
mod datagram;
mod endpoint;
mod ethernet;
mod flow;
mod handshake;
mod kverbs;
mod latency;
mod letter;
mod options;
mod patience;
mod pattern;
mod places;
mod speed;
mod table;
mod wq;
