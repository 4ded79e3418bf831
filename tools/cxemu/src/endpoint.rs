// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the card of a profile looks from the bus.

use device::profile::Profile;
use pcie::{Description, Identity, Link, Speed};

/// Vendor id of the family.
const VENDOR: u16 = 0x15b3;
/// Class: Ethernet controller.
const CLASS: u32 = 0x02_0000;
/// Byte offset of the MSI-X table in BAR0, as on the card.
const TABLE: u32 = 0x2000;
/// Byte offset of the pending bits in BAR0.
const PENDING: u32 = 0x3000;
/// Both windows are one page.
const WINDOW: u64 = 0x1000;

/// What an access to BAR0 hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The vector table, at this offset in it.
    Table(u64),
    /// The pending bits, at this offset in them.
    Pending(u64),
    /// The model.
    Card,
}

/// Finds the window of an access; one that leaves its window belongs to the model, which knows
/// what to do with nonsense.
pub fn window(offset: u64, len: usize) -> Window {
    let inside = |start: u32| {
        let at = offset.checked_sub(u64::from(start))?;
        (at.checked_add(len as u64)? <= WINDOW).then_some(at)
    };
    match (inside(TABLE), inside(PENDING)) {
        (Some(at), _) => Window::Table(at),
        (_, Some(at)) => Window::Pending(at),
        _ => Window::Card,
    }
}

/// The function of a card with this profile.
pub fn describe(profile: &Profile) -> Description {
    let pci = &profile.pci;
    let speed = |code| Speed::from_generation(code).unwrap_or(Speed::Gen1);
    let mac = profile.port.mac;
    // EUI-64 of the port's MAC, with the first byte in the highest place.
    let [a, b, c, d, e, f] = mac;
    let serial = u64::from_be_bytes([a, b, c, 0xff, 0xfe, d, e, f]);
    let text = mac.map(|byte| format!("{byte:02X}")).concat();
    Description {
        identity: Identity {
            vendor: VENDOR,
            device: pci.device,
            subsystem_vendor: VENDOR,
            subsystem: pci.subsystem,
            revision: pci.revision,
            class: CLASS,
        },
        link: Link {
            max_speed: speed(pci.max_speed),
            max_width: pci.max_width,
            speed: speed(pci.speed),
            width: pci.width,
        },
        bar0_size: 1u64 << pci.log_bar.min(40),
        vectors: pci.vectors,
        msix_table: TABLE,
        msix_pending: PENDING,
        serial,
        name: format!("cxemu {} emulated adapter", profile.name),
        product: vec![
            (*b"PN", "CXEMU".to_owned()),
            (*b"EC", "A1".to_owned()),
            (*b"SN", format!("CX{text}")),
            (*b"V0", "PCIe emulated".to_owned()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_exact() {
        assert_eq!(window(0x2000, 4), Window::Table(0));
        assert_eq!(window(0x2ffc, 4), Window::Table(0xffc));
        assert_eq!(window(0x2ffe, 4), Window::Card);
        assert_eq!(window(0x3000, 8), Window::Pending(0));
        assert_eq!(window(0x1ffc, 4), Window::Card);
        assert_eq!(window(u64::MAX, 4), Window::Card);
    }
}
