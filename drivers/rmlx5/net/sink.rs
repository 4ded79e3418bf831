// SPDX-License-Identifier: GPL-2.0
//! The receive queue that tables lead to while the interface is closed: it never has a WQE.
//!
//! A table of queues cannot be empty. Source: `mlx5e_open_drop_rq` in core/en_main.c.

use kernel::prelude::*;

use super::{
    base::Base,
    cq::Completions,
    rq::Rq, //
};
use crate::{
    cq::Moderation,
    home::Home,
    rq::Shape, //
};

/// A receive queue without WQEs. Its completion queue goes after it.
pub(super) struct Sink {
    rq: Rq,
    _cq: Completions,
}

impl Sink {
    /// Makes it. Sleeps.
    pub(super) fn new(home: &Home, base: &Base) -> Result<Self> {
        let cq = Completions::new(home, 0, 0, Moderation::default(), None)?;
        let shape = Shape {
            log: 0,
            log_segments: 0,
            keep_vlan: true,
        };
        let rq = Rq::new(home, base, cq.number(), shape)?;
        Ok(Self { rq, _cq: cq })
    }

    /// Number of its RQ.
    pub(super) fn number(&self) -> u32 {
        self.rq.number()
    }
}
