// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong around a guest, each with the sentence a person reads.

use std::{io, path::PathBuf};

/// An error of the test bench itself, not a verdict about a test.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Name or path of the program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The table of suites is wrong.
    #[error("{}: {message}", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// What is wrong in it.
        message: String,
    },
    /// A selection (`T=`) that names nothing.
    #[error("no case matches '{0}'; `make test T=list` shows all of them")]
    NothingSelected(String),
    /// A kernel module that the guest needs is not there.
    #[error("kernel module {0} is not in the root; type: make prepare")]
    NoModule(String),
    /// QEMU or the emulator did not come up.
    #[error("{0}")]
    Machine(String),
    /// The other end of a channel went away or spoke nonsense.
    #[error("{channel}: {message}")]
    Channel {
        /// Which channel.
        channel: &'static str,
        /// What happened.
        message: String,
    },
}

/// Shorthand of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the name of the file to an I/O error.
pub trait Context<T> {
    /// Names the file.
    fn at(self, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn at(self, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::File {
            path: path.into(),
            source,
        })
    }
}
