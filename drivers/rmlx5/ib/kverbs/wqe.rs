// SPDX-License-Identifier: GPL-2.0
//! Send WQEs of the kernel's QPs, segment by segment, in memory of the driver's own. Receives too.
//!
//! | term | meaning |
//! |---|---|
//! | DS | 16-byte unit in which the control segment states the size of a WQE |
//! | WQEBB | 64-byte block, the unit in which a send queue counts |
//! | UMR | user-mode memory registration: a WQE that changes a memory key |
//!
//! Layouts: `struct mlx5_wqe_*_seg` in include/linux/mlx5/qp.h, `struct mlx5_mkey_seg` in
//! include/linux/mlx5/device.h. Values: ib/wr.c.

use mlx5_hw::{
    raw, wire,
    wire::{get, put, Member},
};

use crate::{
    mr::Access,
    wq::{DS, SEND_WQE_BYTES},
};

/// Bytes of the longest WQE: that of a datagram with as many pieces as fit 512 bytes behind a remote
/// address, which is what users are told. Source: `mlx5_ib_query_device` in ib/main.c.
pub(crate) const MOST: usize = 576;
/// Bytes of an address vector, as a WQE has it.
pub(crate) const VECTOR: usize = core::mem::size_of::<raw::mlx5_av>();
/// Bytes of the WQE that fills a memory region: control, UMR, memory key, one piece.
pub(crate) const REGISTER: usize = DS + UMR + MKEY + DS;

/// Bytes of a UMR control segment.
const UMR: usize = core::mem::size_of::<raw::mlx5_wqe_umr_ctrl_seg>();
/// Bytes of a memory key segment.
const MKEY: usize = core::mem::size_of::<raw::mlx5_mkey_seg>();
/// Key that ends a scatter list. Source: `MLX5_TERMINATE_SCATTER_LIST_LKEY` in core/en.h.
const END_OF_LIST: u64 = 0x100;
/// A key for every QP of its domain.
const ANY_QP: u64 = 0xffff_ff00;
/// The list of pages of a region is read in pieces of this many bytes. Source:
/// `MLX5_UMR_FLEX_ALIGNMENT` in include/linux/mlx5/device.h.
const LIST_QUANTUM: usize = raw::MLX5_UMR_FLEX_ALIGNMENT as usize;

/// Rights as the memory key segment has them.
fn permissions(access: Access) -> u32 {
    let bit = |given: bool, bit: u32| if given { bit } else { 0 };
    raw::MLX5_PERM_LOCAL_READ
        | raw::MLX5_PERM_UMR_EN
        | bit(access.local_write, raw::MLX5_PERM_LOCAL_WRITE)
        | bit(access.remote_write, raw::MLX5_PERM_REMOTE_WRITE)
        | bit(access.remote_read, raw::MLX5_PERM_REMOTE_READ)
        | bit(access.remote_atomic, raw::MLX5_PERM_ATOMIC)
}

/// A region as a registration makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Its key; the low byte is new.
    pub(crate) key: u32,
    /// Address of the first byte, and bytes.
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// log2 of the bytes of a page, and how many there are.
    pub(crate) log_page: u8,
    pub(crate) pages: u32,
    pub(crate) access: Access,
    /// Bus address of the list of pages, and a key for it.
    pub(crate) list: u64,
    pub(crate) list_key: u32,
}

/// What the control segment says beside opcode and size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// `MLX5_OPCODE_*`.
    pub(crate) opcode: u32,
    /// Immediate data, or a key.
    pub(crate) immediate: u32,
    /// A completion is wanted.
    pub(crate) signaled: bool,
    /// The other end's event is wanted.
    pub(crate) solicited: bool,
    /// `MLX5_FENCE_MODE_*`.
    pub(crate) fence: u32,
}

/// A WQE that is being made. What does not fit makes it `None`.
pub(crate) struct Wqe {
    bytes: [u8; MOST],
    used: usize,
}

impl Wqe {
    /// With room for the control segment.
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; MOST],
            used: DS,
        }
    }

    fn segment(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let at = self.used;
        self.used = at.checked_add(bytes)?;
        self.bytes.get_mut(at..self.used)
    }

    /// The other end's memory.
    pub(crate) fn remote(&mut self, address: u64, rkey: u32) -> Option<()> {
        let segment = self.segment(DS)?;
        set(segment, wire!(mlx5_wqe_raddr_seg, raddr), address)?;
        set(segment, wire!(mlx5_wqe_raddr_seg, rkey), rkey.into())
    }

    /// Operands of an atomic.
    pub(crate) fn atomic(&mut self, swap_or_add: u64, compare: u64) -> Option<()> {
        let segment = self.segment(DS)?;
        set(segment, wire!(mlx5_wqe_atomic_seg, swap_add), swap_or_add)?;
        set(segment, wire!(mlx5_wqe_atomic_seg, compare), compare)
    }

    /// Where a datagram goes. Source: `set_datagram_seg`.
    pub(crate) fn datagram(&mut self, vector: &[u8; VECTOR], qpn: u32, qkey: u32) -> Option<()> {
        let segment = self.segment(VECTOR)?;
        segment.copy_from_slice(vector);
        let number = u64::from(qpn & 0xff_ffff | raw::MLX5_EXTENDED_UD_AV);
        set(segment, wire!(mlx5_av, dqp_dct), number)?;
        set(segment, wire!(mlx5_av, key.qkey.qkey), qkey.into())
    }

    /// A piece of local memory; one of no bytes is left out, because 0 says 2^31.
    pub(crate) fn piece(&mut self, address: u64, length: u32, lkey: u32) -> Option<()> {
        if length == 0 {
            return Some(());
        }
        data(self.segment(DS)?, address, length, lkey)
    }

    /// Bytes that the WQE carries itself, from several pieces.
    pub(crate) fn inline<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Option<()> {
        let head = self.used;
        self.segment(4)?;
        for piece in pieces {
            self.segment(piece.len())?.copy_from_slice(piece);
        }
        let length = self.used.checked_sub(head.checked_add(4)?)?;
        let word = u32::try_from(length).ok()? | raw::MLX5_INLINE_SEG;
        self.bytes
            .get_mut(head..head.checked_add(4)?)?
            .copy_from_slice(&word.to_be_bytes());
        // Whole DS.
        self.used = self.used.checked_next_multiple_of(DS)?;
        (self.used <= MOST).then_some(())
    }

    /// Fills a region with a list of pages. Source: `set_reg_wr`.
    pub(crate) fn register(&mut self, to: &Registration) -> Option<()> {
        let mut mask: u64 = raw::MLX5_MKEY_MASK_LEN
            | raw::MLX5_MKEY_MASK_PAGE_SIZE
            | raw::MLX5_MKEY_MASK_START_ADDR
            | raw::MLX5_MKEY_MASK_EN_RINVAL
            | raw::MLX5_MKEY_MASK_KEY
            | raw::MLX5_MKEY_MASK_LR
            | raw::MLX5_MKEY_MASK_LW
            | raw::MLX5_MKEY_MASK_RR
            | raw::MLX5_MKEY_MASK_RW
            | raw::MLX5_MKEY_MASK_SMALL_FENCE
            | raw::MLX5_MKEY_MASK_FREE;
        if to.access.remote_atomic {
            mask |= raw::MLX5_MKEY_MASK_A;
        }
        // CAST, here and below: a list is at most some thousand bytes.
        let list = (to.pages as usize * 8).checked_next_multiple_of(LIST_QUANTUM)?;
        self.umr(raw::MLX5_UMR_CHECK_NOT_FREE, (list / DS) as u16, mask)?;
        let segment = self.segment(MKEY)?;
        set(
            segment,
            wire!(mlx5_mkey_seg, flags),
            u64::from(permissions(to.access) | raw::MLX5_MKC_ACCESS_MODE_MTT),
        )?;
        let number = ANY_QP | u64::from(to.key & 0xff);
        set(segment, wire!(mlx5_mkey_seg, qpn_mkey7_0), number)?;
        let invalidate = u64::from(raw::MLX5_MKEY_REMOTE_INVAL);
        set(segment, wire!(mlx5_mkey_seg, flags_pd), invalidate)?;
        set(segment, wire!(mlx5_mkey_seg, start_addr), to.start)?;
        set(segment, wire!(mlx5_mkey_seg, len), to.length)?;
        let octwords = u64::from(to.pages.checked_next_multiple_of(8)? / 2);
        set(segment, wire!(mlx5_mkey_seg, xlt_oct_size), octwords)?;
        let log = u64::from(to.log_page);
        set(segment, wire!(mlx5_mkey_seg, log2_page_size), log)?;
        data(
            self.segment(DS)?,
            to.list,
            u32::try_from(list).ok()?,
            to.list_key,
        )
    }

    /// Makes a key invalid. Source: `set_linv_wr`.
    pub(crate) fn invalidate(&mut self) -> Option<()> {
        self.umr(raw::MLX5_UMR_INLINE, 0, raw::MLX5_MKEY_MASK_FREE)?;
        let status = u64::from(raw::MLX5_MKEY_STATUS_FREE);
        let segment = self.segment(MKEY)?;
        set(segment, wire!(mlx5_mkey_seg, status), status)
    }

    fn umr(&mut self, flags: u32, translations: u16, mask: u64) -> Option<()> {
        let segment = self.segment(UMR)?;
        set(segment, wire!(mlx5_wqe_umr_ctrl_seg, flags), flags.into())?;
        let octwords = wire!(mlx5_wqe_umr_ctrl_seg, xlt_octowords);
        set(segment, octwords, translations.into())?;
        set(segment, wire!(mlx5_wqe_umr_ctrl_seg, mkey_mask), mask)
    }

    /// Blocks that it takes so far.
    pub(crate) fn blocks(&self) -> u32 {
        // CAST: at most 9.
        self.used.div_ceil(SEND_WQE_BYTES) as u32
    }

    /// Writes the control segment for block `index` of the send queue of `qpn`, and gives whole blocks.
    pub(crate) fn finish(&mut self, control: &Control, index: u16, qpn: u32) -> Option<&[u8]> {
        let used = self.used;
        let bytes = self.bytes.as_mut_slice();
        let head = u64::from(index) << raw::MLX5_WQE_CTRL_WQE_INDEX_SHIFT
            | u64::from(control.opcode & 0xff);
        set(bytes, wire!(mlx5_wqe_ctrl_seg, opmod_idx_opcode), head)?;
        let size = (used.div_ceil(DS)) as u64;
        let word = u64::from(qpn & 0xff_ffff) << raw::MLX5_WQE_CTRL_QPN_SHIFT | size;
        set(bytes, wire!(mlx5_wqe_ctrl_seg, qpn_ds), word)?;
        let mut flags = control.fence;
        if control.signaled {
            flags |= raw::MLX5_WQE_CTRL_CQ_UPDATE;
        }
        if control.solicited {
            flags |= raw::MLX5_WQE_CTRL_SOLICITED;
        }
        set(
            bytes,
            wire!(mlx5_wqe_ctrl_seg, __bindgen_anon_1.trailer.fm_ce_se),
            flags.into(),
        )?;
        set(
            bytes,
            wire!(
                mlx5_wqe_ctrl_seg,
                __bindgen_anon_1.trailer.__bindgen_anon_1.imm
            ),
            control.immediate.into(),
        )?;
        self.bytes
            .get(..used.checked_next_multiple_of(SEND_WQE_BYTES)?)
    }
}

/// Writes a receive WQE of `wqe.len()` bytes: pieces, and an end if there is room for more. `None` for
/// more pieces than it has room for.
pub(crate) fn receive(wqe: &mut [u8], pieces: impl Iterator<Item = (u64, u32, u32)>) -> Option<()> {
    let mut rest = wqe.chunks_exact_mut(DS);
    for (address, length, lkey) in pieces {
        data(rest.next()?, address, length, lkey)?;
    }
    if let Some(end) = rest.next() {
        end.fill(0);
        set(end, wire!(mlx5_wqe_data_seg, lkey), END_OF_LIST)?;
    }
    Some(())
}

/// Replaces a key in a receive WQE.
pub(crate) fn change_key(wqe: &mut [u8], old: u32, new: u32) {
    for segment in wqe.chunks_exact_mut(DS) {
        if get(segment, wire!(mlx5_wqe_data_seg, lkey)) == Some(old.into()) {
            let _ = put(segment, wire!(mlx5_wqe_data_seg, lkey), new.into());
        }
    }
}

fn data(segment: &mut [u8], address: u64, length: u32, lkey: u32) -> Option<()> {
    set(segment, wire!(mlx5_wqe_data_seg, byte_count), length.into())?;
    set(segment, wire!(mlx5_wqe_data_seg, lkey), lkey.into())?;
    set(segment, wire!(mlx5_wqe_data_seg, addr), address)
}

fn set<S>(bytes: &mut [u8], member: Member<S>, value: u64) -> Option<()> {
    put(bytes, member, value).then_some(())
}
