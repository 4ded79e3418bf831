// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reserved bits: they must be zero, except where a stock driver is known to set them.

use std::{collections::BTreeMap, sync::LazyLock};

use super::{registry, Refused};
use crate::{
    layout::{first_set, Layout},
    refuse,
};

/// Bits that the headers call reserved and a stock driver sets nevertheless.
struct Exemption {
    opcode: u32,
    /// First bit of the input, and how many.
    at: u32,
    bits: u32,
    /// Who sets them: file and function.
    #[allow(dead_code, reason = "the reason is the point of the table")]
    caller: &'static str,
}

const EXEMPTIONS: &[Exemption] = &[];

/// Masks of the fixed parts, made once: bits that must be zero.
static MASKS: LazyLock<BTreeMap<u16, Vec<u8>>> = LazyLock::new(|| {
    registry::all()
        .map(|entry| {
            let mut mask = entry.input.reserved_mask(entry.input.bytes());
            for exemption in EXEMPTIONS {
                // CAST: opcodes are 16 bits wide.
                if exemption.opcode as u16 == entry.opcode {
                    crate::layout::set_bits_at(&mut mask, exemption.at, exemption.bits, 0);
                }
            }
            (entry.opcode, mask)
        })
        .collect()
});

/// Refuses an input with a reserved bit set.
///
/// # Errors
/// `BadParam`, naming the first such byte.
pub fn check_reserved(opcode: u16, layout: &Layout, input: &[u8]) -> Result<(), Refused> {
    let Some(mask) = MASKS.get(&opcode) else {
        return Ok(());
    };
    let mut found = first_set(input, mask);
    if let (None, Some((at, element))) = (found, layout.list()) {
        if let crate::layout::Shape::Layout(inner) = element {
            let mask = inner.reserved_mask(inner.bytes());
            let list = input.get(at..).unwrap_or_default();
            let step = element.step();
            found = list
                .chunks_exact(step)
                .enumerate()
                .find_map(|(index, raw)| {
                    let inside = first_set(raw, &mask)?;
                    Some(at + index * step + inside)
                });
        }
    }
    if let Some(at) = found {
        refuse!(
            BadParam,
            0xf007,
            "reserved bits in byte {at:#x}: {:#04x}",
            input.get(at).copied().unwrap_or(0)
        );
    }
    Ok(())
}
