// SPDX-License-Identifier: GPL-2.0
//! Events that concern a port or the whole device.

use rmlx5_bindings as bindings;

use super::device::{Driver, Registration};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The port came up.
    Active,
    /// The port went down.
    Down,
    /// The GID table changed.
    GidChange,
    /// The device does not work any more until it is opened anew; for the whole device.
    DeviceFatal,
}

impl<D: Driver> Registration<D> {
    /// Tells all users of the device. `port` counts from 1. Any context; users are called later
    /// from a work queue, in the order of the calls.
    pub fn dispatch(&self, port: u32, event: PortEvent) {
        let event = bindings::ib_event {
            device: self.as_raw(),
            element: bindings::ib_event__bindgen_ty_1 { port_num: port },
            event: match event {
                PortEvent::Active => bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
                PortEvent::Down => bindings::ib_event_type_IB_EVENT_PORT_ERR,
                PortEvent::GidChange => bindings::ib_event_type_IB_EVENT_GID_CHANGE,
                PortEvent::DeviceFatal => bindings::ib_event_type_IB_EVENT_DEVICE_FATAL,
            },
        };
        // SAFETY: The device is registered; unregistering waits for what is queued here.
        unsafe { bindings::ib_dispatch_event(&event) }
    }
}
