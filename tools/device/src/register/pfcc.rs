// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PFCC: flow control of the port.
//!
//! What is switched on is kept and shown. The model takes every frame at once, so it never has a reason
//! to send a pause; one that comes in is not obeyed, since nothing that speaks to the model sends any.
//! Negotiation of pauses (`aptx`, `aprx`) is not offered.

use mlx5_hw::{field, ifc};

use super::{own_port, view, view_mut, Register};
use crate::{cmd::Refused, hca::Hca, layout::Described, refuse};

/// The register.
pub const PFCC: Register = Register {
    id: 0x5007,
    name: "PFCC",
    len: ifc::pfcc_reg::LAYOUT.bytes(),
    tail: 0,
    layout: Some(ifc::pfcc_reg::LAYOUT),
    read,
    write: Some(write),
};

/// Flow control in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowControl {
    /// Pauses of the link are sent.
    pub pause_tx: bool,
    /// Pauses of the link are obeyed.
    pub pause_rx: bool,
    /// Priorities whose pauses are sent, a bit each.
    pub priorities_tx: u8,
    /// Priorities whose pauses are obeyed.
    pub priorities_rx: u8,
    /// How long the port may be stopped before it is an error, milliseconds: minor, critical.
    pub watermarks: [u16; 2],
}

fn read(hca: &mut Hca, input: &[u8], output: &mut [u8]) -> Result<(), Refused> {
    let port = view::<ifc::pfcc_reg>(input)?.get(field!(pfcc_reg, local_port));
    own_port(port)?;
    output.fill(0);
    let now = hca.vport.flow_control;
    let [minor, critical] = now.watermarks;
    view_mut::<ifc::pfcc_reg>(output)?
        .set(field!(pfcc_reg, local_port), port)
        .set_flag(field!(pfcc_reg, pptx), now.pause_tx)
        .set_flag(field!(pfcc_reg, pprx), now.pause_rx)
        .set(field!(pfcc_reg, pfctx), now.priorities_tx.into())
        .set(field!(pfcc_reg, pfcrx), now.priorities_rx.into())
        .set(field!(pfcc_reg, device_stall_minor_watermark), minor.into())
        .set(
            field!(pfcc_reg, device_stall_critical_watermark),
            critical.into(),
        );
    Ok(())
}

/// `mask` says which bits of `new` count.
fn merge(old: u8, new: u64, mask: u64) -> u8 {
    // CAST: fields of 8 bits.
    old & !(mask as u8) | (new & mask) as u8
}

fn write(hca: &mut Hca, input: &[u8]) -> Result<(), Refused> {
    let input = view::<ifc::pfcc_reg>(input)?;
    own_port(input.get(field!(pfcc_reg, local_port)))?;
    for (switch, name) in [
        (field!(pfcc_reg, aptx), "aptx"),
        (field!(pfcc_reg, aprx), "aprx"),
    ] {
        if input.flag(switch) {
            refuse!(BadParam, 0x60, "PFCC: {name}: nothing is negotiated");
        }
    }
    for (name, field) in [
        ("cable_length_mask", field!(pfcc_reg, cable_length_mask)),
        ("buf_ownership", field!(pfcc_reg, buf_ownership)),
    ] {
        if input.get(field) != 0 {
            refuse!(BadParam, 0x61, "PFCC: {name} is not offered");
        }
    }
    let mut now = hca.vport.flow_control;
    // The masks of these two say what does not count.
    if !input.flag(field!(pfcc_reg, pptx_mask_n)) {
        now.pause_tx = input.flag(field!(pfcc_reg, pptx));
    }
    if !input.flag(field!(pfcc_reg, pprx_mask_n)) {
        now.pause_rx = input.flag(field!(pfcc_reg, pprx));
    }
    now.priorities_tx = merge(
        now.priorities_tx,
        input.get(field!(pfcc_reg, pfctx)),
        input.get(field!(pfcc_reg, prio_mask_tx)),
    );
    now.priorities_rx = merge(
        now.priorities_rx,
        input.get(field!(pfcc_reg, pfcrx)),
        input.get(field!(pfcc_reg, prio_mask_rx)),
    );
    let [minor, critical] = &mut now.watermarks;
    // CAST, twice: fields of 16 bits.
    if input.flag(field!(pfcc_reg, minor_stall_mask)) {
        *minor = input.get(field!(pfcc_reg, device_stall_minor_watermark)) as u16;
    }
    if input.flag(field!(pfcc_reg, critical_stall_mask)) {
        *critical = input.get(field!(pfcc_reg, device_stall_critical_watermark)) as u16;
    }
    hca.vport.flow_control = now;
    Ok(())
}
