// SPDX-License-Identifier: GPL-2.0
//! What a channel does during a self-test: kinds of operations, and which one a WQE is.

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm,
    /// Atomic FETCH_ADD.
    FetchAdd,
}

impl Op {
    /// All kinds, in the order in which a job does them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Write,
        Self::Read,
        Self::Send,
        Self::SendImm,
        Self::FetchAdd,
    ];

    /// Name for reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Write => "WRITE",
            Self::Read => "READ",
            Self::Send => "SEND",
            Self::SendImm => "SEND_IMM",
            Self::FetchAdd => "FETCH_ADD",
        }
    }

    /// Whether doing it twice is the same as doing it once. If not, an operation that was under
    /// way when the connection broke is indeterminate.
    pub(crate) const fn can_repeat(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }

    /// What a job does after this; `None` after the last one.
    pub(super) const fn next(self) -> Option<Self> {
        match self {
            Self::Write => Some(Self::Read),
            Self::Read => Some(Self::Send),
            Self::Send => Some(Self::SendImm),
            Self::SendImm => Some(Self::FetchAdd),
            Self::FetchAdd => None,
        }
    }
}

/// Which posted WQE is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// The current operation of a slot's job.
    Job { slot: u8, op: Op },
    /// The WRITE that gives the other end's counter its first value.
    Counter,
    /// A WRITE with a key that does not exist, asked for to break the connection.
    BadKey,
}
