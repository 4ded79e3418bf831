// SPDX-License-Identifier: GPL-2.0
//! Address handles of the kernel: the address vector as a WQE has it. Source: `create_ib_ah` in
//! ib/ah.c.

use kernel::prelude::*;
use kernel_ext::rdma::{
    source_port,
    AddressVector,
    GidKind, //
};
use mlx5_hw::{
    raw,
    wire,
    wire::{
        put,
        Member, //
    }, //
};

use super::wqe::VECTOR;
use crate::ib::Data;

/// Says that the GRH members are valid.
const WITH_GRH: u32 = 1 << 30;
/// Place of the index of the source address.
const GID_INDEX_SHIFT: u32 = 20;
/// Packets can be marked when the network is congested. Source: `MLX5_ECN_ENABLED`.
const ECN_ENABLED: u8 = 1 << 1;

/// An address vector, without QP and Q_Key.
pub(crate) struct Vector(pub(super) [u8; VECTOR]);

impl Vector {
    /// `EINVAL` for a path without a GID, or one that does not fit. Does not sleep.
    pub(super) fn new(data: &Data, path: &AddressVector<'_>) -> Result<Self> {
        if !path.is_global() {
            return Err(EINVAL);
        }
        let v2 = path.kind() == GidKind::RoceV2;
        let port = match path.flow_label() {
            0 => data.device.caps()?.roce_source_port_min,
            label => source_port(label, 0, 0),
        };
        let class = path.traffic_class() | if v2 { ECN_ENABLED } else { 0 };
        let route = WITH_GRH
            | u32::from(path.source_index()) << GID_INDEX_SHIFT
            | path.flow_label() & 0xf_ffff;
        let mut bytes = [0; VECTOR];
        let to = &mut bytes;
        let level = path.service_level() & 7;
        set(to, wire!(mlx5_av, stat_rate_sl), u32::from(level << 1))?;
        if v2 {
            set(to, wire!(mlx5_av, __bindgen_anon_1.udp_sport), port.into())?;
        }
        set(to, wire!(mlx5_av, tclass), class.into())?;
        set(to, wire!(mlx5_av, hop_limit), path.hop_limit().into())?;
        set(to, wire!(mlx5_av, grh_gid_fl), route)?;
        copy(to, core::mem::offset_of!(raw::mlx5_av, rmac), &path.mac())?;
        let gid = path.destination();
        copy(to, core::mem::offset_of!(raw::mlx5_av, rgid), &gid)?;
        Ok(Self(bytes))
    }
}

fn set(bytes: &mut [u8], member: Member<raw::mlx5_av>, value: u32) -> Result {
    put(bytes, member, value.into()).then_some(()).ok_or(EINVAL)
}

fn copy(bytes: &mut [u8], at: usize, from: &[u8]) -> Result {
    bytes
        .get_mut(at..)
        .and_then(|rest| rest.get_mut(..from.len()))
        .ok_or(EINVAL)?
        .copy_from_slice(from);
    Ok(())
}
