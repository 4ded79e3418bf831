// SPDX-License-Identifier: GPL-2.0
//! The parts of the driver that need no kernel, compiled for the host so that they can be tested
//! there: work queue entries, CQEs, QP states, and the traffic of a channel over a device that
//! exists in memory only. The files are the driver's own; nothing is copied.
#![expect(dead_code, reason = "the driver uses what the tests do not")]

#[path = "../../../../drivers/rmlx5/wq.rs"]
pub(crate) mod wq;

/// Completion queues.
#[path = "."]
pub(crate) mod cq {
    #[path = "../../../../drivers/rmlx5/cq/cqe.rs"]
    pub(crate) mod cqe;
}

/// Event queues.
#[path = "."]
pub(crate) mod eq {
    #[path = "../../../../drivers/rmlx5/eq/table.rs"]
    pub(crate) mod table;
}

/// Queue pairs.
#[path = "."]
pub(crate) mod qp {
    #[path = "../../../../drivers/rmlx5/qp/datagram.rs"]
    pub(crate) mod datagram;
    #[path = "../../../../drivers/rmlx5/qp/state.rs"]
    pub(crate) mod state;
}

/// The port.
#[path = "."]
pub(crate) mod port {
    #[path = "../../../../drivers/rmlx5/port/speed.rs"]
    pub(crate) mod speed;
}

/// Channels.
#[path = "."]
pub(crate) mod channel {
    #[path = "../../../../drivers/rmlx5/channel/backoff.rs"]
    pub(crate) mod backoff;
    #[path = "../../../../drivers/rmlx5/channel/endpoint.rs"]
    pub(crate) mod endpoint;
    #[path = "../../../../drivers/rmlx5/channel/fault.rs"]
    pub(crate) mod fault;
    #[path = "../../../../drivers/rmlx5/channel/flow.rs"]
    pub(crate) mod flow;
    #[path = "../../../../drivers/rmlx5/channel/handshake.rs"]
    pub(crate) mod handshake;
    #[path = "../../../../drivers/rmlx5/channel/latency.rs"]
    pub(crate) mod latency;
    #[path = "../../../../drivers/rmlx5/channel/layout.rs"]
    pub(crate) mod layout;
    #[path = "../../../../drivers/rmlx5/channel/letter.rs"]
    pub(crate) mod letter;
    #[path = "../../../../drivers/rmlx5/channel/op.rs"]
    pub(crate) mod op;
    #[path = "../../../../drivers/rmlx5/channel/options.rs"]
    pub(crate) mod options;
    #[path = "../../../../drivers/rmlx5/channel/patience.rs"]
    pub(crate) mod patience;
    #[path = "../../../../drivers/rmlx5/channel/pattern.rs"]
    pub(crate) mod pattern;
    #[path = "../../../../drivers/rmlx5/channel/tally.rs"]
    pub(crate) mod tally;
}

/// The network interface.
#[path = "."]
pub(crate) mod net {
    #[path = "../../../../drivers/rmlx5/net/cqe.rs"]
    pub(crate) mod cqe;
    #[path = "../../../../drivers/rmlx5/net/places.rs"]
    pub(crate) mod places;
    #[path = "../../../../drivers/rmlx5/net/wqe.rs"]
    pub(crate) mod wqe;
}

/// Memory regions.
#[path = "."]
pub(crate) mod mr {
    #[path = "../../../../drivers/rmlx5/mr/access.rs"]
    mod access;
    pub(crate) use access::Access;
}

/// Verbs of the kernel.
#[path = "."]
pub(crate) mod kverbs {
    #[path = "../../../../drivers/rmlx5/ib/kverbs/wqe.rs"]
    pub(crate) mod wqe;
}

#[cfg(test)]
mod tests;
