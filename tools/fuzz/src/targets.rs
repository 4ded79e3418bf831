// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The doors.

mod config;
mod mailbox;
mod packet;
mod wqe;

use crate::Target;

pub use config::Config;
pub use mailbox::Mailbox;
pub use packet::Packet;
pub use wqe::Wqe;

/// All of them.
pub fn all() -> Vec<Box<dyn Target>> {
    vec![
        Box::new(Mailbox),
        Box::new(Wqe),
        Box::new(Packet),
        Box::new(Config),
    ]
}
