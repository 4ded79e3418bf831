// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QPDPM: the priority of each DSCP.
//!
//! Of a write those entries count that say so; in an answer none does, so an answer written back changes nothing.

use mlx5_hw::{field, field::Field, ifc, span};

use super::{own_port, view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, priority::COUNT, refuse};

/// The register.
pub const QPDPM: Register = Register {
    id: 0x4013,
    name: "QPDPM",
    len: ifc::qpdpm_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::qpdpm_reg::LAYOUT),
    read,
    write: Some(write),
};

/// Bytes of an entry.
const ENTRY: usize = ifc::qpdpm_dscp_reg::LAYOUT.bytes();

/// A member of an entry, which is shorter than the dwords that views work with.
fn member(entry: u16, field: Field<ifc::qpdpm_dscp_reg>) -> u16 {
    let shift = u16::BITS - field.offset() - field.bits();
    // CAST: fields of a layout of 16 bits.
    entry >> shift & field.max() as u16
}

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let port = view::<ifc::qpdpm_reg>(input)?.get(field!(qpdpm_reg, local_port));
    own_port(port)?;
    output.fill(0);
    let mut output = view_mut::<ifc::qpdpm_reg>(output)?;
    output.set(field!(qpdpm_reg, local_port), port);
    let entries = output.raw(span!(qpdpm_reg, dscp)).chunks_exact_mut(ENTRY);
    for (entry, priority) in entries.zip(hca.priorities.of_code_point) {
        entry.copy_from_slice(&u16::from(priority).to_be_bytes());
    }
    Ok(())
}

fn write(hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::qpdpm_reg>(input)?;
    own_port(input.get(field!(qpdpm_reg, local_port)))?;
    let mut of_code_point = hca.priorities.of_code_point;
    let entries = input.raw(span!(qpdpm_reg, dscp)).chunks_exact(ENTRY);
    for (code_point, (entry, now)) in entries.zip(&mut of_code_point).enumerate() {
        let entry = entry
            .iter()
            .fold(0, |word, byte| word << 8 | u16::from(*byte));
        if member(entry, field!(qpdpm_dscp_reg, e)) == 0 {
            continue;
        }
        let priority = member(entry, field!(qpdpm_dscp_reg, prio));
        if usize::from(priority) >= COUNT {
            refuse!(
                BadParam,
                0x83,
                "QPDPM: priority {priority} for DSCP {code_point}"
            );
        }
        // CAST: less than 8.
        *now = priority as u8;
    }
    hca.priorities.of_code_point = of_code_point;
    Ok(())
}
