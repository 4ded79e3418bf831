// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MCQS, MCQI, MCC and MCDA: the components that a firmware update would replace. There is one, the boot image, and it
//! cannot be replaced: the firmware of this card is the model, so there is nothing to read back and nowhere to write.

use mlx5_hw::{field, field::Mut, ifc, span};

use super::{view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// `MCQS_IDENTIFIER_BOOT_IMG` (core/fw.c of the stock driver).
const BOOT_IMAGE: u64 = 1;
/// `component_status`: present (mstflint's reg_access_hca_layouts.h).
const PRESENT: u64 = 1;
/// Bytes that one MCDA access moves.
const BLOCK: usize = 128;

/// `MCQI_INFO_TYPE_*` (core/fw.c).
const CAPABILITIES: u32 = 0;
const VERSION: u32 = 1;
const ACTIVATION: u32 = 5;

/// Status of a component.
pub const MCQS: Register = Register {
    id: 0x9060,
    name: "MCQS",
    len: ifc::mcqs_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::mcqs_reg::LAYOUT),
    read: status,
    write: None,
};

/// Information about a component. The longest is the version.
pub const MCQI: Register = Register {
    id: 0x9061,
    name: "MCQI",
    len: ifc::mcqi_reg::LAYOUT.bytes(),
    tail: ifc::mcqi_version::LAYOUT.bytes(),
    layout: Some(ifc::mcqi_reg::LAYOUT),
    read: information,
    write: None,
};

/// State of an update: idle, and no command of it is taken.
pub const MCC: Register = Register {
    id: 0x9062,
    name: "MCC",
    len: ifc::mcc_reg::LAYOUT.bytes(),
    tail: 0,
    layout: None,
    read: |_, _, output| {
        output.fill(0);
        Ok(())
    },
    write: None,
};

/// Data of a component.
pub const MCDA: Register = Register {
    id: 0x9063,
    name: "MCDA",
    len: ifc::mcda_reg::LAYOUT.bytes(),
    tail: BLOCK,
    layout: None,
    read: |_, _, _| refuse!(BadParam, 0x72, "MCDA: no update is under way"),
    write: None,
};

fn own(component: u64) -> Result<(), Refused> {
    if component != 0 {
        refuse!(BadParam, 0x70, "component {component} is not there");
    }
    Ok(())
}

fn status(_hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::mcqs_reg>(input)?;
    own(input.get(field!(mcqs_reg, component_index)))?;
    view_mut::<ifc::mcqs_reg>(output)?
        .set_flag(field!(mcqs_reg, last_index_flag), true)
        .set(field!(mcqs_reg, identifier), BOOT_IMAGE)
        .set(field!(mcqs_reg, component_status), PRESENT);
    Ok(())
}

/// What is stored and what runs are the same, so the pending bit changes nothing.
fn information(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let input = view::<ifc::mcqi_reg>(input)?;
    own(input.get(field!(mcqi_reg, component_index)))?;
    let offset = input.get(field!(mcqi_reg, offset));
    let wanted = input.get(field!(mcqi_reg, data_size));
    let content = match input.get32(field!(mcqi_reg, info_type)) {
        CAPABILITIES => capabilities(),
        VERSION => version(hca.env.profile.firmware.version),
        ACTIVATION => vec![0; ifc::mcqi_activation_method::LAYOUT.bytes()],
        other => refuse!(BadParam, 0x71, "MCQI: information {other:#x}"),
    };
    let size = content.len() as u64;
    if offset > size {
        refuse!(BadParam, 0x73, "MCQI: byte {offset} of {size}");
    }
    let mut output = view_mut::<ifc::mcqi_reg>(output)?;
    let place = output.tail();
    // Who asks for more than there is gets what there is.
    let given = wanted.min(size - offset).min(place.len() as u64);
    place.fill(0);
    // CAST: both are at most `size`.
    let part = content.iter().skip(offset as usize).take(given as usize);
    for (to, from) in place.iter_mut().zip(part) {
        *to = *from;
    }
    output
        .set(field!(mcqi_reg, info_size), size)
        .set(field!(mcqi_reg, data_size), given);
    Ok(())
}

fn capabilities() -> Vec<u8> {
    let mut raw = vec![0; ifc::mcqi_cap::LAYOUT.bytes()];
    if let Some(mut cap) = Mut::<ifc::mcqi_cap>::new(&mut raw) {
        let kinds = [CAPABILITIES, VERSION, ACTIVATION];
        let mask = kinds.iter().fold(0, |mask, kind| mask | 1u64 << kind);
        cap.set(field!(mcqi_cap, supported_info_bitmask), mask)
            .set(field!(mcqi_cap, mcda_max_write_size), BLOCK as u64)
            .set_flag(field!(mcqi_cap, match_chip_id), true)
            .set_flag(field!(mcqi_cap, match_psid), true);
    }
    raw
}

/// The number, and the same as text.
fn version([major, minor, sub]: [u16; 3]) -> Vec<u8> {
    let text = format!("{major}.{minor}.{sub:04}");
    let mut raw = vec![0; ifc::mcqi_version::LAYOUT.bytes()];
    if let Some(mut version) = Mut::<ifc::mcqi_version>::new(&mut raw) {
        let number = u64::from(major & 0xff) << 24 | u64::from(minor & 0xff) << 16 | u64::from(sub);
        version.set(field!(mcqi_version, version), number).set(
            field!(mcqi_version, version_string_length),
            text.len() as u64,
        );
        let place = version.raw(span!(mcqi_version, version_string));
        for (to, from) in place.iter_mut().zip(text.bytes()) {
            *to = from;
        }
    }
    raw
}
