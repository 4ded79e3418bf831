// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why steering commands are refused.

use mlx5_hw::status::Status;

/// Why a steering command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// No such table.
    #[error("flow table {0:#x} does not exist")]
    NoTable(u32),
    /// No such group.
    #[error("flow table {table:#x} has no group {group:#x}")]
    NoGroup {
        /// Table number.
        table: u32,
        /// Group number.
        group: u32,
    },
    /// No such entry.
    #[error("flow table {table:#x} has no entry {index:#x}")]
    NoEntry {
        /// Table number.
        table: u32,
        /// Flow index.
        index: u32,
    },
    /// Too many tables.
    #[error("all {0} flow tables are in use")]
    Tables(usize),
    /// The table is larger than the card allows.
    #[error("log_size {asked} is above {max}")]
    Size {
        /// log2 of entries asked for.
        asked: u8,
        /// The limit.
        max: u8,
    },
    /// A link to a table that is not behind this one.
    #[error("flow table {to:#x} of level {to_level:#x} is not behind level {level:#x}")]
    Level {
        /// The table pointed at.
        to: u32,
        /// Its level.
        to_level: u8,
        /// The level of the table that points.
        level: u8,
    },
    /// Something that the capabilities do not offer.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// A range that is empty, leaves the table or overlaps another group.
    #[error("flow indexes {start:#x}..={end:#x} are not free in flow table {table:#x}")]
    Range {
        /// Table number.
        table: u32,
        /// First flow index.
        start: u32,
        /// Last flow index.
        end: u32,
    },
    /// An entry that is outside of its group.
    #[error("flow index {index:#x} is not in group {group:#x} of flow table {table:#x}")]
    Index {
        /// Table number.
        table: u32,
        /// Group number.
        group: u32,
        /// Flow index.
        index: u32,
    },
    /// An entry that is there already.
    #[error("flow table {table:#x} has an entry {index:#x} already")]
    Taken {
        /// Table number.
        table: u32,
        /// Flow index.
        index: u32,
    },
    /// More or fewer destinations than there can be.
    #[error("{0} destinations")]
    Destinations(usize),
    /// More flow counters than there can be.
    #[error("{0} flow counters")]
    Counters(usize),
    /// The object is used by others.
    #[error("{0} {1:#x} is in use")]
    Busy(&'static str, u32),
}

impl FlowError {
    /// The command status for it.
    pub const fn status(self) -> Status {
        match self {
            Self::NoTable(_) | Self::NoGroup { .. } => Status::BadRes,
            Self::NoEntry { .. } | Self::Index { .. } => Status::BadIndex,
            Self::Tables(_) => Status::Limit,
            Self::Busy(..) => Status::ResBusy,
            Self::Taken { .. } => Status::BadResState,
            Self::Size { .. }
            | Self::Level { .. }
            | Self::Unsupported(_)
            | Self::Range { .. }
            | Self::Destinations(_)
            | Self::Counters(_) => Status::BadParam,
        }
    }
}
