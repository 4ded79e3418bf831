// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tools read of the chip itself, beside all firmware interfaces: its register space behind the vendor gateway.
//!
//! A chip has megabytes of such registers, and none of them is documented. Two exist here, those that every tool asks
//! for before it talks to the firmware (mstflint's mtcr_icmd_cif.c); all others answer with the gateway's syndrome.
//!
//! | address | what |
//! |---|---|
//! | 0xf0014 | hardware id in bits 0 to 15, revision above |
//! | 0xb5f04 | bit 31: the firmware has not finished its static configuration |

use crate::hca::Hca;

const IDENTITY: u32 = 0xf_0014;
const STATIC_CONFIGURATION: u32 = 0xb_5f04;

/// PCI device ids and the hardware ids of the chips (mstflint's tools_dev_types.c). The hardware id is also the PCI
/// device id of a card without firmware.
const CHIPS: &[(u16, u16)] = &[
    (0x1013, 0x209),
    (0x1015, 0x20b),
    (0x1017, 0x20d),
    (0x1019, 0x20d),
    (0x101b, 0x20f),
    (0x101d, 0x212),
    (0x101f, 0x216),
    (0x1021, 0x218),
];

/// Hardware id of a card's chip; a card that is not of the family has none but its device id.
pub fn hardware_id(device: u16) -> u16 {
    let known = CHIPS.iter().find(|(pci, _)| *pci == device);
    known.map_or(device, |(_, hardware)| *hardware)
}

/// Reads a register of the chip; `None` where there is nothing.
pub fn read(hca: &Hca, at: u32) -> Option<u32> {
    let pci = &hca.env.profile.pci;
    match at {
        IDENTITY => Some(u32::from(pci.revision) << 16 | u32::from(hardware_id(pci.device))),
        // The firmware is there before the first access.
        STATIC_CONFIGURATION => Some(0),
        _ => None,
    }
}
