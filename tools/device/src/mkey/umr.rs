// SPDX-License-Identifier: Apache-2.0 OR MIT
//! User memory registration: work requests that change a key.
//!
//! Segments behind the control segment: 48 bytes of UMR control, 64 bytes of key context, then the
//! translations, either inline (padded to 64 bytes) or through one data segment. Source:
//! include/linux/mlx5/qp.h (`mlx5_wqe_umr_ctrl_seg`), drivers/infiniband/hw/mlx5/{umr,wr}.c.

use super::{
    rights, //
    words,
    BadMkey,
    Mkey,
};
use crate::violation::Violation;
use mlx5_hw::{field, field::Ref, ifc, raw};

/// A UMR request, parsed.
#[derive(Clone)]
pub struct Umr<'a> {
    /// `MLX5_UMR_*` flags.
    pub(crate) flags: u8,
    /// Key to change: index and, unless the request sets it, variant.
    pub(crate) key: u32,
    /// Which fields of the context count.
    pub(crate) mask: u64,
    /// First octoword to write.
    pub(crate) offset: u64,
    /// Octowords to write.
    pub(crate) octowords: u32,
    /// New context.
    pub(crate) mkc: Ref<'a, ifc::mkc>,
}

impl Umr<'_> {
    /// Whether the request moves the key to another PD.
    pub fn sets_pd(&self) -> bool {
        self.mask & PD != 0
    }
}

const INLINE: u8 = 0x80;
const CHECK_FREE: u8 = 0x40;
const CHECK_NOT_FREE: u8 = 0x20;
const OFFSET_EN: u8 = 0x10;
/// The key must belong to the QP of the request. Source: `MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN` of
/// libmlx5, in every invalidation by a program.
const CHECK_QPN: u8 = 0x08;

const LEN: u64 = raw::MLX5_MKEY_MASK_LEN;
const PAGE_SIZE: u64 = raw::MLX5_MKEY_MASK_PAGE_SIZE;
const PAGE_SIZE_5: u64 = raw::MLX5_MKEY_MASK_PAGE_SIZE_5;
const START: u64 = raw::MLX5_MKEY_MASK_START_ADDR;
const PD: u64 = raw::MLX5_MKEY_MASK_PD;
const RINVAL: u64 = raw::MLX5_MKEY_MASK_EN_RINVAL;
const KEY: u64 = raw::MLX5_MKEY_MASK_KEY;
const QPN: u64 = raw::MLX5_MKEY_MASK_QPN;
const LR: u64 = raw::MLX5_MKEY_MASK_LR;
const LW: u64 = raw::MLX5_MKEY_MASK_LW;
const RR: u64 = raw::MLX5_MKEY_MASK_RR;
const RW: u64 = raw::MLX5_MKEY_MASK_RW;
const ATOMIC: u64 = raw::MLX5_MKEY_MASK_A;
const SMALL_FENCE: u64 = raw::MLX5_MKEY_MASK_SMALL_FENCE;
const FREE: u64 = raw::MLX5_MKEY_MASK_FREE;
const RELAXED: u64 =
    raw::MLX5_MKEY_MASK_RELAXED_ORDERING_WRITE | raw::MLX5_MKEY_MASK_RELAXED_ORDERING_READ;
/// Fields that a request may change here. Signature fields (BSF, signature errors) are not there.
const KNOWN: u64 = LEN
    | PAGE_SIZE
    | PAGE_SIZE_5
    | START
    | PD
    | RINVAL
    | KEY
    | QPN
    | LR
    | LW
    | RR
    | RW
    | ATOMIC
    | SMALL_FENCE
    | FREE
    | RELAXED;

/// Why a UMR request fails; the key is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum UmrError {
    #[error("key {0:#x} may not be changed by work requests")]
    NotUmr(u32),
    #[error("key {key:#x} has variant {variant:#x}")]
    Variant { key: u32, variant: u8 },
    #[error("key {key:#x} belongs to PD {owner:#x}, not to {pd:#x}")]
    Pd { key: u32, owner: u32, pd: u32 },
    #[error("key {key:#x} belongs to QP {owner:#x}, not to {qpn:#x}")]
    Qp { key: u32, owner: u32, qpn: u32 },
    #[error("key {0:#x} is free")]
    Free(u32),
    #[error("key {0:#x} is not free")]
    NotFree(u32),
    #[error("mask {0:#x} names fields that cannot be changed")]
    Mask(u64),
    #[error("flags {0:#x}")]
    Flags(u8),
    #[error("translations {offset}+{octowords} exceed the {capacity} octowords of the key")]
    Capacity {
        offset: u64,
        octowords: u32,
        capacity: u32,
    },
    #[error("{0}")]
    Context(#[from] BadMkey),
}

/// Whose request it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    /// Protection domain of the queue.
    pub(crate) pd: u32,
    /// Its number.
    pub(crate) qpn: u32,
    /// A queue of type REG_UMR belongs to the kernel and may reach keys of any PD.
    pub(crate) privileged: bool,
}

impl UmrError {
    /// The same in the table of all violations.
    pub const fn violation(self) -> Violation {
        match self {
            Self::NotUmr(_) => Violation::UmrDisabled,
            Self::Variant { .. } => Violation::UmrVariant,
            Self::Pd { .. } => Violation::UmrDomain,
            Self::Qp { .. } => Violation::UmrQueue,
            Self::Free(_) => Violation::UmrFree,
            Self::NotFree(_) => Violation::UmrNotFree,
            Self::Mask(_) => Violation::UmrMask,
            Self::Flags(_) => Violation::UmrFlags,
            Self::Capacity { .. } => Violation::UmrCapacity,
            Self::Context(_) => Violation::UmrContext,
        }
    }
}

/// Changes `mkey`; the PD it belonged to before. `xlt` holds the translations, `16 * octowords` bytes or none when the request
/// has none.
pub(crate) fn apply(mkey: &mut Mkey, umr: &Umr<'_>, xlt: &[u8], by: By) -> Result<(), UmrError> {
    let By {
        pd,
        qpn,
        privileged,
    } = by;
    let key = umr.key;
    if umr.flags & !(INLINE | CHECK_FREE | CHECK_NOT_FREE | OFFSET_EN | CHECK_QPN) != 0 {
        return Err(UmrError::Flags(umr.flags));
    }
    if umr.mask & !KNOWN != 0 || umr.mask & PD != 0 && !privileged {
        return Err(UmrError::Mask(umr.mask));
    }
    if !mkey.umr_en {
        return Err(UmrError::NotUmr(key));
    }
    // CAST: the low byte.
    if umr.mask & KEY == 0 && mkey.variant != key as u8 {
        let variant = mkey.variant;
        return Err(UmrError::Variant { key, variant });
    }
    if !privileged && mkey.pd != pd {
        let owner = mkey.pd;
        return Err(UmrError::Pd { key, owner, pd });
    }
    if umr.flags & CHECK_QPN != 0 && mkey.qpn != qpn {
        let owner = mkey.qpn;
        return Err(UmrError::Qp { key, owner, qpn });
    }
    if umr.flags & CHECK_FREE != 0 && mkey.free {
        return Err(UmrError::Free(key));
    }
    if umr.flags & CHECK_NOT_FREE != 0 && !mkey.free {
        return Err(UmrError::NotFree(key));
    }
    let offset = if umr.flags & OFFSET_EN != 0 {
        umr.offset
    } else {
        0
    };
    let octowords = xlt.len() as u64 / 16;
    // Requests come in units of 64 bytes (`MLX5_UMR_FLEX_ALIGNMENT`), keys in any size.
    let capacity = mkey.octowords.next_multiple_of(4);
    if offset
        .checked_add(octowords)
        .is_none_or(|end| end > u64::from(capacity))
    {
        return Err(UmrError::Capacity {
            offset,
            octowords: umr.octowords,
            capacity: mkey.octowords,
        });
    }
    let mut new = mkey.header();
    new.take(umr.mask, umr.mkc);
    new.check()?;
    let xlt_words = std::mem::take(&mut mkey.xlt);
    *mkey = new;
    mkey.xlt = xlt_words;
    // CAST: below MAX_OCTOWORDS.
    mkey.store_xlt(offset as usize * 2, xlt);
    Ok(())
}

impl Mkey {
    /// The key without its translations.
    fn header(&self) -> Self {
        Self {
            xlt: Vec::new(),
            ..*self
        }
    }

    fn take(&mut self, mask: u64, mkc: Ref<'_, ifc::mkc>) {
        let new = rights(mkc);
        let pick = |bit: u64, new: bool, old: bool| if mask & bit != 0 { new } else { old };
        self.rights.local_read = pick(LR, new.local_read, self.rights.local_read);
        self.rights.local_write = pick(LW, new.local_write, self.rights.local_write);
        self.rights.remote_read = pick(RR, new.remote_read, self.rights.remote_read);
        self.rights.remote_write = pick(RW, new.remote_write, self.rights.remote_write);
        self.rights.atomic = pick(ATOMIC, new.atomic, self.rights.atomic);
        self.free = pick(FREE, mkc.flag(field!(mkc, free)), self.free);
        self.rinval = pick(RINVAL, mkc.flag(field!(mkc, en_rinval)), self.rinval);
        if mask & LEN != 0 {
            self.len = mkc.get(field!(mkc, len));
            self.length64 = mkc.flag(field!(mkc, length64));
        }
        if mask & START != 0 {
            self.start = mkc.get(field!(mkc, start_addr));
        }
        if mask & PD != 0 {
            self.pd = mkc.get32(field!(mkc, pd));
        }
        if mask & QPN != 0 {
            self.qpn = mkc.get32(field!(mkc, qpn));
        }
        if mask & KEY != 0 {
            // CAST: 8 bits wide.
            self.variant = mkc.get32(field!(mkc, mkey_7_0)) as u8;
        }
        if mask & (PAGE_SIZE | PAGE_SIZE_5) != 0 {
            // CAST: 6 bits wide.
            self.log_page = mkc.get32(field!(mkc, log_page_size)) as u8;
        }
    }

    /// Writes translations from word `at` on. Capacity was checked.
    fn store_xlt(&mut self, at: usize, xlt: &[u8]) {
        let end = at + xlt.len() / 8;
        if self.xlt.len() < end {
            self.xlt.resize(end, 0);
        }
        for (slot, word) in self.xlt[at..end].iter_mut().zip(words(xlt)) {
            *slot = word;
        }
    }
}
