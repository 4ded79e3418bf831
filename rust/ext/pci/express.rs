// SPDX-License-Identifier: GPL-2.0
//! PCI Express: payload and read request sizes, link speed and width.
//!
//! C header: [`include/linux/pci.h`](srctree/include/linux/pci.h)

use core::fmt;

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;

use super::BoundDevice;

/// Speed of a link, by the signalling rate of one lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Speed(bindings::pci_bus_speed);

impl Speed {
    /// The name that lspci uses, for example `16GT/s`.
    pub fn name(self) -> &'static str {
        match self.0 {
            bindings::pci_bus_speed_PCIE_SPEED_2_5GT => "2.5GT/s",
            bindings::pci_bus_speed_PCIE_SPEED_5_0GT => "5GT/s",
            bindings::pci_bus_speed_PCIE_SPEED_8_0GT => "8GT/s",
            bindings::pci_bus_speed_PCIE_SPEED_16_0GT => "16GT/s",
            bindings::pci_bus_speed_PCIE_SPEED_32_0GT => "32GT/s",
            bindings::pci_bus_speed_PCIE_SPEED_64_0GT => "64GT/s",
            _ => "unknown speed",
        }
    }

    /// Whether the hardware said nothing that is known.
    pub fn is_unknown(self) -> bool {
        self.name() == "unknown speed"
    }
}

/// Speed and number of lanes of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkWidth {
    /// Speed of a lane.
    pub speed: Speed,
    /// Number of lanes; 0 is no link, as for an integrated endpoint.
    pub lanes: u32,
}

impl fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lanes == 0 || self.lanes > 32 {
            f.write_str("no link")
        } else {
            write!(f, "{} x{}", self.speed.name(), self.lanes)
        }
    }
}

// The kernel's own trait, which its printing macros want.
impl kernel::fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the path from the device to the root can carry.
pub struct LinkReport {
    /// The narrowest link on the path.
    pub available: LinkWidth,
    /// Mb/s over the narrowest link, after encoding; 0 without a link.
    pub available_mbps: u32,
    /// What the device itself can do.
    pub capable: LinkWidth,
    /// PCI address (domain, bus, device and function) of the port whose link is the narrowest.
    pub limited_by: Option<Address>,
}

/// Where a device is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address {
    domain: i32,
    bus: u8,
    devfn: u32,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{}",
            self.domain,
            self.bus,
            self.devfn >> 3 & 0x1f,
            self.devfn & 7
        )
    }
}

// The kernel's own trait, which its printing macros want.
impl kernel::fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Address {
    /// # Safety
    ///
    /// `pdev` must be a valid device.
    unsafe fn of(pdev: *mut bindings::pci_dev) -> Self {
        // SAFETY: Valid by the safety requirements; a device's bus outlives it.
        unsafe {
            Self {
                domain: bindings::pci_domain_nr((*pdev).bus),
                bus: (*(*pdev).bus).number,
                devfn: (*pdev).devfn,
            }
        }
    }
}

impl BoundDevice {
    /// Speed and width of the path against what the device can do. All zero for a device without
    /// a link.
    pub fn link_report(&self) -> LinkReport {
        let mut limiting = core::ptr::null_mut();
        let mut speed = bindings::pci_bus_speed_PCI_SPEED_UNKNOWN;
        let mut lanes = bindings::pcie_link_width_PCIE_LNK_WIDTH_UNKNOWN;
        // SAFETY: The device is valid and bound, its upstream bridges outlive it.
        let available_mbps = unsafe {
            bindings::pcie_bandwidth_available(self.as_raw(), &mut limiting, &mut speed, &mut lanes)
        };
        // SAFETY: As above.
        let capable = unsafe {
            LinkWidth {
                speed: Speed(bindings::pcie_get_speed_cap(self.as_raw())),
                lanes: bindings::pcie_get_width_cap(self.as_raw()),
            }
        };
        LinkReport {
            available: LinkWidth {
                speed: Speed(speed),
                lanes,
            },
            available_mbps,
            capable,
            limited_by: (!limiting.is_null()).then(|| {
                // SAFETY: The function stores null or a device between this one and the root.
                unsafe { Address::of(limiting) }
            }),
        }
    }

    /// Maximum payload size in bytes, 128 to 4096.
    pub fn mps(&self) -> u32 {
        // SAFETY: The device is valid and bound.
        // CAST: The function returns a power of two from 128 to 16384.
        unsafe { bindings::pcie_get_mps(self.as_raw()) as u32 }
    }

    /// Sets the maximum payload size in bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is no power of two from 128 to 4096 or more than the device supports.
    pub fn set_mps(&self, bytes: u32) -> Result {
        let bytes = i32::try_from(bytes).map_err(|_| EINVAL)?;
        // SAFETY: The device is valid and bound.
        to_result(unsafe { bindings::pcie_set_mps(self.as_raw(), bytes) })
    }

    /// The largest payload the device supports, in bytes.
    pub fn mps_supported(&self) -> u32 {
        // SAFETY: The device is valid and bound.
        128 << u32::from(unsafe { (*self.as_raw()).pcie_mpss() }).min(5)
    }

    /// The smallest payload size set on a bridge between the device and the root, in bytes;
    /// [`None`] for a device on a root bus. Bridges are not changed.
    pub fn mps_of_path(&self) -> Option<u32> {
        self.bridges(|bridge| {
            // SAFETY: `bridge` is valid.
            // CAST: A power of two from 128 to 16384.
            unsafe { bindings::pcie_get_mps(bridge) as u32 }
        })
    }

    /// The smallest payload size that the bridges between the device and the root could be set
    /// to, in bytes; [`None`] for a device on a root bus.
    pub fn mps_path_could_have(&self) -> Option<u32> {
        self.bridges(|bridge| {
            // SAFETY: `bridge` is valid.
            128 << u32::from(unsafe { (*bridge).pcie_mpss() }).min(5)
        })
    }

    /// The minimum of `value` over all bridges above the device.
    fn bridges(&self, value: impl Fn(*mut bindings::pci_dev) -> u32) -> Option<u32> {
        let mut smallest = None;
        // SAFETY: The device is valid and bound.
        let mut bridge = unsafe { bindings::pci_upstream_bridge(self.as_raw()) };
        while !bridge.is_null() {
            let this = value(bridge);
            smallest = Some(smallest.map_or(this, |least: u32| least.min(this)));
            // SAFETY: A bridge outlives the devices below it.
            bridge = unsafe { bindings::pci_upstream_bridge(bridge) };
        }
        smallest
    }

    /// Maximum read request size in bytes, 128 to 4096.
    pub fn mrrs(&self) -> u32 {
        // SAFETY: The device is valid and bound.
        // CAST: The function returns a power of two from 128 to 16384.
        unsafe { bindings::pcie_get_readrq(self.as_raw()) as u32 }
    }

    /// Sets the maximum read request size in bytes. The PCI core may set less (on a bus that is
    /// tuned for performance, or where a host bridge cannot take more): read it back.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is no power of two from 128 to 4096, or the host bridge forbids a change.
    pub fn set_mrrs(&self, bytes: u32) -> Result {
        let bytes = i32::try_from(bytes).map_err(|_| EINVAL)?;
        // SAFETY: The device is valid and bound.
        to_result(unsafe { bindings::pcie_set_readrq(self.as_raw(), bytes) })
    }
}
