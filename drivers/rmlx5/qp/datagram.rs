// SPDX-License-Identifier: GPL-2.0
//! Send WQE of a datagram: control segment, address vector, one data segment; 80 bytes in two
//! WQEBBs.
//!
//! Layout: `struct mlx5_wqe_datagram_seg` in include/linux/mlx5/qp.h; values: `create_ib_ah` in
//! ib/ah.c and `set_datagram_seg` in ib/wr.c.

use mlx5_hw::{
    raw, wire,
    wire::{put, Member},
};

use crate::wq::{control_segment, data_segment, Sge, Signal, DS, SEND_WQE_BYTES};

/// Bytes of the WQE of a datagram.
pub(crate) const DATAGRAM_WQE_BYTES: usize = 2 * SEND_WQE_BYTES;
/// Bytes that stand before the payload in every receive: the GRH.
pub(crate) const GRH_BYTES: usize = 40;

/// Says that the GRH members are valid.
const WITH_GRH: u32 = 1 << 30;
/// Place of the index of the source address.
const GID_INDEX_SHIFT: u32 = 20;
/// Hops of a packet.
const HOP_LIMIT: u8 = 64;

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    /// QP that gets it, 24 bits.
    pub(crate) qpn: u32,
    /// Q_Key of that QP, below 2^31: the highest bit would mean the sender's own.
    pub(crate) qkey: u32,
    /// RoCE v2 address of that QP.
    pub(crate) gid: [u8; 16],
    /// Ethernet address that goes with `gid`.
    pub(crate) mac: [u8; 6],
    /// Index of this end's address in the RoCE address table.
    pub(crate) source_index: u8,
    /// UDP source port.
    pub(crate) source_port: u16,
    /// The payload.
    pub(crate) local: Sge,
}

impl Datagram {
    /// Builds the WQE, with a completion, for block `index` of the send queue of `qpn`. `None` when
    /// a value does not fit.
    pub(crate) fn encode(&self, index: u16, qpn: u32) -> Option<[u8; DATAGRAM_WQE_BYTES]> {
        if qpn > 0xff_ffff || self.qpn > 0xff_ffff || self.qkey >> 31 != 0 {
            return None;
        }
        let mut wqe = [0u8; DATAGRAM_WQE_BYTES];
        let av = wqe.get_mut(DS..)?;
        set(av, wire!(mlx5_av, key.qkey.qkey), self.qkey)?;
        let number = self.qpn | raw::MLX5_EXTENDED_UD_AV;
        set(av, wire!(mlx5_av, dqp_dct), number)?;
        let port = self.source_port.into();
        set(av, wire!(mlx5_av, __bindgen_anon_1.udp_sport), port)?;
        copy(av, core::mem::offset_of!(raw::mlx5_av, rmac), &self.mac)?;
        set(av, wire!(mlx5_av, hop_limit), HOP_LIMIT.into())?;
        let flags = WITH_GRH | u32::from(self.source_index) << GID_INDEX_SHIFT;
        set(av, wire!(mlx5_av, grh_gid_fl), flags)?;
        copy(av, core::mem::offset_of!(raw::mlx5_av, rgid), &self.gid)?;
        let at = DS + core::mem::size_of::<raw::mlx5_wqe_datagram_seg>();
        let used = data_segment(&mut wqe, at, &self.local)?;
        // CAST: `MLX5_OPCODE_*` are below 256.
        let opcode = raw::MLX5_OPCODE_SEND as u8;
        control_segment(&mut wqe, opcode, index, qpn, used, Signal::Completion)?;
        Some(wqe)
    }
}

fn set(bytes: &mut [u8], member: Member<raw::mlx5_av>, value: u32) -> Option<()> {
    put(bytes, member, value.into()).then_some(())
}

fn copy(bytes: &mut [u8], at: usize, from: &[u8]) -> Option<()> {
    bytes
        .get_mut(at..)?
        .get_mut(..from.len())?
        .copy_from_slice(from);
    Some(())
}
