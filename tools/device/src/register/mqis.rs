// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MQIS: texts about the board. The layout is mstflint's `reg_access_hca_mqis_reg`.
//!
//! | offset | what |
//! |---|---|
//! | 3 | which text |
//! | 6 | its length (answer) |
//! | 8 | offset of the first byte wanted |
//! | 10 | bytes wanted, bytes given |
//! | 16 | up to eight bytes of it |

use super::Register;
use crate::{cmd::Refused, hca::Hca, refuse};

const NAME: u8 = 1;
const DESCRIPTION: u8 = 2;
/// Where the text is in the register.
const TEXT: usize = 0x10;
const LEN: usize = 0x18;

/// The register.
pub const MQIS: Register = Register {
    id: 0x9064,
    name: "MQIS",
    len: LEN,
    tail: 0,
    layout: None,
    read,
    write: None,
};

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let half = |at: usize| match input.get(at..at + 2) {
        Some(&[high, low]) => usize::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    let (offset, wanted) = (half(8), half(10));
    let profile = &hca.env.profile;
    let text = match input.get(3).copied().unwrap_or_default() {
        NAME => "CXEMU".to_owned(),
        DESCRIPTION => format!("cxemu {} emulated adapter", profile.name),
        // Other texts exist and are empty.
        0 | 3..=5 => String::new(),
        other => refuse!(BadParam, 0x78, "MQIS: text {other}"),
    };
    let part: Vec<u8> = text
        .bytes()
        .skip(offset)
        .take(wanted.min(LEN - TEXT))
        .collect();
    let mut put = |at: usize, value: usize| {
        // CAST: texts of a profile are shorter than 64 KiB, and are cut for a longer one.
        let value = value.min(0xffff) as u16;
        if let Some(place) = output.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    };
    put(6, text.len());
    put(10, part.len());
    for (to, from) in output.iter_mut().skip(TEXT).zip(part) {
        *to = from;
    }
    Ok(())
}
