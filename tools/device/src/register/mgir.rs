// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MGIR: what chip and firmware this is. The layout is mstflint's `reg_access_hca_mgir` (the kernel has it for switches
//! only, `MLXSW_REG(mgir)`).

use super::Register;
use crate::{chip::hardware_id, cmd::Refused, hca::Hca};

/// The register.
pub const MGIR: Register = Register {
    id: 0x9020,
    name: "MGIR",
    len: 0xa0,
    tail: 0,
    layout: None,
    read,
    write: None,
};

fn read(hca: &mut Hca, _input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let profile = &hca.env.profile;
    let (pci, firmware) = (&profile.pci, &profile.firmware);
    let [a, b, c, d, e, f] = profile.port.mac;
    let [major, minor, sub] = firmware.version.map(u32::from);
    output.fill(0);
    let words = [
        // Chip.
        (0x00, u32::from(pci.revision) << 16 | u32::from(pci.device)),
        (0x04, 1 << 16),
        (0x08, hardware_id(pci.device).into()),
        (0x10, u32::from_be_bytes([0, 0, a, b])),
        (0x14, u32::from_be_bytes([c, d, e, f])),
        // CAST: seconds since power-on; 136 years fit.
        (0x1c, hca.env.now().as_secs() as u32),
        // Firmware. It is neither signed nor secure, and there is no boot ROM.
        (0x44, major),
        (0x48, minor),
        (0x4c, sub),
    ];
    for (at, word) in words {
        if let Some(place) = output.get_mut(at..at + 4) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
    let psid = output.iter_mut().skip(0x30).take(16);
    for (to, from) in psid.zip(firmware.psid.bytes()) {
        *to = from;
    }
    Ok(())
}
