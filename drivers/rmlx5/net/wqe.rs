// SPDX-License-Identifier: GPL-2.0
//! Entries of an Ethernet send queue.
//!
//! Control segment, Ethernet segment with the first header bytes in it, then one data segment for each
//! piece of memory. Layouts: `struct mlx5_wqe_*_seg` in include/linux/mlx5/qp.h; which members a
//! driver fills: core/en_tx.c.

use mlx5_hw::{
    raw, wire,
    wire::{put, Member},
};

/// Bytes of a segment, the unit in which the size of a WQE is stated.
pub(crate) const SEGMENT: usize = raw::MLX5_SEND_WQE_DS as usize;
/// Bytes of a basic block, the unit in which a send queue counts.
pub(crate) const BLOCK: usize = raw::MLX5_SEND_WQE_BB as usize;
/// Segments of the longest WQE: the field has 6 bits.
pub(crate) const MAX_SEGMENTS: usize = 63;
/// Bytes of an address pair, behind which a tag is put.
const ADDRESSES: usize = 12;
/// Bytes of a tag.
const TAG: usize = 4;
/// Where inlined bytes begin in the Ethernet segment; their length is the word before.
const INLINE_AT: usize = SEGMENT - 2;
/// Bytes of the longest WQE, in whole blocks.
const BYTES: usize = MAX_SEGMENTS.div_ceil(BLOCK / SEGMENT) * BLOCK;
/// Offset of the byte of a WQE that asks for a completion.
pub(crate) const SIGNAL_AT: usize = SEGMENT - 5;
/// What to write there.
pub(crate) const SIGNAL: u8 = raw::MLX5_WQE_CTRL_CQ_UPDATE as u8;

/// What the card is to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Compute IP and transport checksum.
    pub(crate) checksum: bool,
    /// Cut into segments with this much payload; 0 sends it as it is.
    pub(crate) mss: u16,
    /// Bytes of the frame to be inlined; the card reads at least the Ethernet header there.
    pub(crate) headers: u16,
    /// Tag to put in: EtherType, then priority and id.
    pub(crate) tag: Option<(u16, u16)>,
}

/// Segments before the data segments of a frame with `headers` inlined bytes, tag included.
pub(crate) const fn fixed_segments(headers: usize) -> usize {
    2 + headers
        .saturating_sub(SEGMENT - INLINE_AT)
        .div_ceil(SEGMENT)
}

/// A WQE under construction. Used again and again: only what has been written counts.
pub(crate) struct Wqe {
    bytes: [u8; BYTES],
    used: usize,
}

#[inline(always)]
fn set<S>(bytes: &mut [u8], member: Member<S>, value: u64) -> Option<()> {
    put(bytes, member, value).then_some(())
}

impl Wqe {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; BYTES],
            used: 0,
        }
    }

    /// Begins a frame. `copy` writes its first [`Frame::headers`] bytes and says whether it could.
    ///
    /// `None` when the headers do not fit, are too short for a tag, or could not be copied.
    pub(crate) fn begin(
        &mut self,
        frame: &Frame,
        copy: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<()> {
        let headers = usize::from(frame.headers);
        let tag = if frame.tag.is_some() { TAG } else { 0 };
        let len = headers.wrapping_add(tag);
        let used = fixed_segments(len) * SEGMENT;
        if used > MAX_SEGMENTS * SEGMENT {
            return None;
        }
        // Bytes between the headers and the next segment are nobody's: they stay as they were.
        let (fixed, inlined) = self
            .bytes
            .split_first_chunk_mut::<{ SEGMENT + INLINE_AT }>()?;
        *fixed = [0; SEGMENT + INLINE_AT];
        let opcode = if frame.mss == 0 {
            raw::MLX5_OPCODE_SEND
        } else {
            raw::MLX5_OPCODE_LSO
        };
        set(
            fixed,
            wire!(mlx5_wqe_ctrl_seg, opmod_idx_opcode),
            opcode.into(),
        )?;
        let (_, eth) = fixed.split_first_chunk_mut::<SEGMENT>()?;
        if frame.checksum {
            let flags = raw::MLX5_ETH_WQE_L3_CSUM | raw::MLX5_ETH_WQE_L4_CSUM;
            set(eth, wire!(mlx5_wqe_eth_seg, cs_flags), flags.into())?;
        }
        set(eth, wire!(mlx5_wqe_eth_seg, mss), frame.mss.into())?;
        // CAST: `used` is at most 1008.
        *eth.last_chunk_mut()? = (len as u16).to_be_bytes();
        let inlined = inlined.get_mut(..len)?;
        if !copy(inlined.get_mut(..headers)?) {
            return None;
        }
        if let Some((ethertype, tci)) = frame.tag {
            let behind = headers.checked_sub(ADDRESSES)?;
            inlined.copy_within(ADDRESSES..ADDRESSES + behind, ADDRESSES + TAG);
            let place = inlined.get_mut(ADDRESSES..ADDRESSES + TAG)?;
            let [e0, e1] = ethertype.to_be_bytes();
            let [t0, t1] = tci.to_be_bytes();
            place.copy_from_slice(&[e0, e1, t0, t1]);
        }
        self.used = used;
        Some(())
    }

    /// Adds a piece of memory: `len` bytes, 1 to 2^31 - 1, at `address` under `key`. `None` when there
    /// is no room.
    #[inline]
    pub(crate) fn piece(&mut self, address: u64, len: u32, key: u32) -> Option<()> {
        if len == 0 || len >> 31 != 0 || self.used >= MAX_SEGMENTS * SEGMENT {
            return None;
        }
        let rest = self.bytes.get_mut(self.used..)?;
        let segment = rest.first_chunk_mut::<SEGMENT>()?;
        set(segment, wire!(mlx5_wqe_data_seg, byte_count), len.into())?;
        set(segment, wire!(mlx5_wqe_data_seg, lkey), key.into())?;
        set(segment, wire!(mlx5_wqe_data_seg, addr), address)?;
        self.used = self.used.wrapping_add(SEGMENT);
        Some(())
    }

    /// Ends it, as block `index` of queue `number`, without asking for a completion.
    pub(crate) fn finish(&mut self, index: u16, number: u32) -> Option<()> {
        if number > 0xff_ffff {
            return None;
        }
        let ctrl = self.bytes.first_chunk_mut::<SEGMENT>()?;
        let [_, _, _, opcode, ..] = *ctrl;
        let head = u64::from(index) << raw::MLX5_WQE_CTRL_WQE_INDEX_SHIFT | u64::from(opcode);
        // CAST: at most 63.
        let segments = (self.used / SEGMENT) as u64 & 0x3f;
        let qpn_ds = u64::from(number) << raw::MLX5_WQE_CTRL_QPN_SHIFT | segments;
        set(ctrl, wire!(mlx5_wqe_ctrl_seg, opmod_idx_opcode), head)?;
        set(ctrl, wire!(mlx5_wqe_ctrl_seg, qpn_ds), qpn_ds)
    }

    /// What has been written so far.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }

    /// Its basic blocks. What is behind the last segment means nothing.
    #[inline]
    pub(crate) fn content(&self) -> impl Iterator<Item = &[u8; BLOCK]> {
        let used = self.bytes.chunks_exact(BLOCK).take(self.blocks().into());
        used.filter_map(<[u8]>::first_chunk)
    }

    /// Basic blocks it takes.
    #[inline]
    pub(crate) fn blocks(&self) -> u16 {
        // CAST: at most 16.
        self.used.div_ceil(BLOCK) as u16
    }

    /// What the doorbell says: its first 8 bytes.
    pub(crate) fn doorbell(&self) -> u64 {
        self.bytes
            .first_chunk::<8>()
            .map_or(0, |head| u64::from_be_bytes(*head))
    }
}
