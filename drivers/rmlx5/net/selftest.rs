// SPDX-License-Identifier: GPL-2.0
//! What `ethtool -t` tries. Nothing is disturbed: the interface goes on meanwhile. A loop needs an open interface.

use kernel_ext::net::NetDevice;

use super::{
    netdev::Data,
    pmtu, //
};
use crate::{
    health::Sign,
    port::{
        Link,
        Port, //
    },
};

/// Names, as the stock driver has them where it has the same test.
pub(super) const TESTS: [&str; 5] = [
    "Link Test",
    "Speed Test",
    "Health Test",
    "Loopback Test",
    "Register Test",
];

/// Runs a test by its place in [`TESTS`]; whether it passes. Sleeps, under the RTNL.
pub(super) fn run(netdev: &NetDevice, data: &Data, index: usize) -> bool {
    match index {
        0 => link(netdev, data),
        1 => speed(netdev, data),
        2 => health(data),
        3 => data.loops_back(netdev),
        4 => register(netdev, data),
        _ => false,
    }
}

/// Core and card agree that there is a link.
fn link(netdev: &NetDevice, data: &Data) -> bool {
    netdev.has_carrier() && matches!(Port::link(&data.device.cmd), Ok(Link::Up))
}

/// The speed of the link is one that is known.
fn speed(netdev: &NetDevice, data: &Data) -> bool {
    netdev.has_carrier()
        && Port::speed(&data.device.cmd).is_ok_and(|speed| speed.megabits().is_some())
}

/// The firmware reports no fault.
fn health(data: &Data) -> bool {
    data.device.health.sign() == Sign::Good
}

/// The port holds what was written to it: frames of the MTU pass.
fn register(netdev: &NetDevice, data: &Data) -> bool {
    !netdev.is_running() || pmtu::passes(&data.device.cmd, netdev.mtu()).unwrap_or(false)
}
