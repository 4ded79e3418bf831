// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vport of the function and the port behind it: addresses, MTU, link.

use crate::{hca::Hca, profile::Profile};

/// Both.
#[derive(Debug)]
pub struct Vport {
    /// Permanent MAC address.
    pub mac: [u8; 6],
    /// What the driver wants of the port (PAOS).
    pub admin_up: bool,
    /// Whether the cable carries a signal.
    pub signal: bool,
}

impl Vport {
    /// A fresh one.
    pub fn new(profile: &Profile) -> Self {
        Self {
            mac: profile.port.mac,
            admin_up: true,
            signal: true,
        }
    }

    /// Whether frames can pass.
    pub fn link_up(&self) -> bool {
        self.admin_up && self.signal
    }

    /// Whether a frame with this destination MAC is for this card.
    pub fn owns(&self, mac: &[u8; 6]) -> bool {
        *mac == self.mac
    }
}

/// The signal on the cable came or went.
pub fn set_signal(hca: &mut Hca, up: bool) {
    hca.vport.signal = up;
}
