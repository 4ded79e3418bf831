// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cables between ports of one process.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use crate::capture::Capture;
use crate::plug::Plug;
use crate::port::{Port, PortError};
use crate::spec::LinkSpec;

/// A cable that cannot be as described.
#[derive(Debug, thiserror::Error)]
pub enum CableError {
    /// A cable has two ends.
    #[error("cable {0} has two ends, and a third port is to be plugged in")]
    Third(String),
    /// A cable has two ends.
    #[error("cable {0} has only one end")]
    Loose(String),
    /// The port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// The cables of a process, by name, while its ports are being opened.
#[derive(Debug, Default)]
pub struct Cables {
    /// The end that waits for its port; `None` when both are plugged in.
    ends: BTreeMap<String, Option<OwnedFd>>,
}

impl Cables {
    /// Opens a port of any kind.
    ///
    /// # Errors
    /// [`CableError`] when the port cannot be opened or its cable has two ends already.
    pub fn open(&mut self, spec: LinkSpec, capture: Option<Capture>) -> Result<Port, CableError> {
        let LinkSpec::Join(name) = &spec else {
            return Ok(Port::open(spec, capture)?);
        };
        let end = match self.ends.get_mut(name) {
            Some(other) => other
                .take()
                .ok_or_else(|| CableError::Third(name.clone()))?,
            None => {
                let (one, other) = Plug::pair().map_err(|source| PortError {
                    spec: spec.clone(),
                    source,
                })?;
                self.ends.insert(name.clone(), Some(other));
                one
            }
        };
        Ok(Port::with(spec, capture, |ready| {
            Plug::joined(end, ready).map(Some)
        })?)
    }

    /// All ports are open.
    ///
    /// # Errors
    /// [`CableError::Loose`] for a cable with one port.
    pub fn close(self) -> Result<(), CableError> {
        match self.ends.into_iter().find(|(_, end)| end.is_some()) {
            Some((name, _)) => Err(CableError::Loose(name)),
            None => Ok(()),
        }
    }
}
