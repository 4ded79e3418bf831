// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory keys: what part of host memory a key opens, to whom, for what.
//!
//! A key is `index << 8 | variant`. The context that CREATE_MKEY and UMR work requests carry has
//! one layout, `mlx5_ifc_mkc_bits`; translations are 16-byte units ("octowords"): two page
//! addresses in MTT mode, one `{length, key, address}` in KLM and KSM mode.
//!
//! | term | meaning |
//! |---|---|
//! | PA | no translation: the address is a bus address |
//! | MTT | one bus address a page |
//! | KLM | list of pieces of other keys, each with its own length |
//! | KSM | the same, all of one length |
//! | UMR | user memory registration: a work request that changes a key |

mod commands;
mod memory;
#[cfg(test)]
mod tests;
mod umr;

pub use commands::{CreateMkey, DestroyMkey, QueryMkey};
pub use memory::{Fault, Memory, Need, Reach};
pub(crate) use umr::{apply as apply_umr, By};
pub use umr::{Umr, UmrError};

use crate::table::{Kind, Object};
use mlx5_hw::{
    field, //
    field::{Mut, Ref},
    ifc,
};

/// The reserved lkey: bus addresses, for queues made with `rlky`. Its index is below every number
/// that CREATE_MKEY hands out.
pub const RESERVED_LKEY: u32 = 0x0000_0200;
/// Ends a scatter list. Source: `MLX5_TERMINATE_SCATTER_LIST_LKEY` in include/linux/mlx5/qp.h.
pub const TERMINATE_LKEY: u32 = 0x0000_0100;

/// The QP number in a key that any QP may use.
pub const ANY_QP: u32 = 0xff_ffff;

/// Most octowords one key may hold: 2^24 of them map 128 GiB in 4 KiB pages.
pub const MAX_OCTOWORDS: u32 = 1 << 24;

/// How addresses translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None: bus addresses.
    Pa,
    /// Page list.
    Mtt,
    /// Pieces of other keys.
    Klm,
    /// Equal pieces of other keys.
    Ksm,
}

impl Mode {
    /// Source: `MLX5_MKC_ACCESS_MODE_*` in include/linux/mlx5/mlx5_ifc.h.
    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Pa,
            1 => Self::Mtt,
            2 => Self::Klm,
            3 => Self::Ksm,
            _ => return None,
        })
    }

    fn code(self) -> u32 {
        match self {
            Self::Pa => 0,
            Self::Mtt => 1,
            Self::Klm => 2,
            Self::Ksm => 3,
        }
    }
}

/// Rights of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub(crate) local_read: bool,
    pub(crate) local_write: bool,
    pub(crate) remote_read: bool,
    pub(crate) remote_write: bool,
    pub(crate) atomic: bool,
}

/// One memory key.
#[derive(Clone, Debug)]
pub struct Mkey {
    /// Low byte of the key.
    pub(crate) variant: u8,
    /// Not usable until a UMR work request enables it.
    pub(crate) free: bool,
    pub(crate) mode: Mode,
    pub(crate) rights: Rights,
    /// Work requests may change it.
    pub(crate) umr_en: bool,
    /// SEND with invalidate may free it.
    pub(crate) rinval: bool,
    /// The QP it belongs to; 0xffffff for any.
    pub(crate) qpn: u32,
    pub(crate) pd: u32,
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// The range is the whole address space; `len` does not count.
    pub(crate) length64: bool,
    /// Bytes of a page or of a KSM piece, as a shift.
    pub(crate) log_page: u8,
    /// Capacity for translations, in octowords.
    pub(crate) octowords: u32,
    /// Whether it counts as a user of its PD: keys made free may name none.
    pub(crate) holds_pd: bool,
    /// Translations, as 64-bit words; grows up to the capacity.
    xlt: Vec<u64>,
}

impl Object for Mkey {
    const KIND: Kind = Kind::Mkey;

    fn footprint(&self) -> u64 {
        footprint(self.octowords)
    }
}

/// Context and room for translations.
fn footprint(octowords: u32) -> u64 {
    64 + 16 * u64::from(octowords)
}

/// Bits of an MTT entry: the page may be read, written.
const MTT_READ: u64 = 1;
const MTT_WRITE: u64 = 2;
const MTT_ADDRESS: u64 = !0xfff;

/// Why a context cannot become a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadMkey(pub &'static str);

impl Mkey {
    /// A key of a context and the translations that came with it (`xlt`, big endian words, as many
    /// octowords as the command says). `pg_access`: the entries carry their own access bits.
    pub(crate) fn new(
        mkc: Ref<'_, ifc::mkc>,
        xlt: &[u8],
        pg_access: bool,
    ) -> Result<Self, BadMkey> {
        let mut key = Self::context(mkc)?;
        if xlt.len() as u64 > u64::from(key.octowords) * 16 {
            return Err(BadMkey("more translations than the key holds"));
        }
        key.xlt = words(xlt).collect();
        if key.mode == Mode::Mtt && !pg_access {
            for entry in &mut key.xlt {
                *entry |= MTT_READ | MTT_WRITE;
            }
        }
        Ok(key)
    }

    fn context(mkc: Ref<'_, ifc::mkc>) -> Result<Self, BadMkey> {
        let mode =
            mkc.get32(field!(mkc, access_mode_4_2)) << 2 | mkc.get32(field!(mkc, access_mode_1_0));
        let mode = Mode::from_code(mode).ok_or(BadMkey("access mode not supported"))?;
        if mkc.flag(field!(mkc, bsf_en)) {
            return Err(BadMkey("signature keys are not supported"));
        }
        let octowords = mkc.get32(field!(mkc, translations_octword_size));
        if octowords > MAX_OCTOWORDS {
            return Err(BadMkey("too many translations"));
        }
        // CAST: 6 and 8 bits wide.
        let log_page = mkc.get32(field!(mkc, log_page_size)) as u8;
        let variant = mkc.get32(field!(mkc, mkey_7_0)) as u8;
        let key = Self {
            variant,
            free: mkc.flag(field!(mkc, free)),
            mode,
            rights: rights(mkc),
            umr_en: mkc.flag(field!(mkc, umr_en)),
            rinval: mkc.flag(field!(mkc, en_rinval)),
            qpn: mkc.get32(field!(mkc, qpn)),
            pd: mkc.get32(field!(mkc, pd)),
            start: mkc.get(field!(mkc, start_addr)),
            len: mkc.get(field!(mkc, len)),
            length64: mkc.flag(field!(mkc, length64)),
            log_page,
            octowords,
            holds_pd: false,
            xlt: Vec::new(),
        };
        key.check()?;
        Ok(key)
    }

    /// What must hold whoever set the fields.
    fn check(&self) -> Result<(), BadMkey> {
        if !self.length64 && self.start.checked_add(self.len.saturating_sub(1)).is_none() {
            return Err(BadMkey("range wraps around"));
        }
        if !self.free && self.mode == Mode::Mtt && !(12..=62).contains(&self.log_page) {
            return Err(BadMkey("page size below 4 KiB"));
        }
        if !self.free && self.mode == Mode::Ksm && self.log_page > 62 {
            return Err(BadMkey("KSM piece too large"));
        }
        Ok(())
    }

    /// Writes the context as QUERY_MKEY returns it.
    pub(crate) fn store(&self, mkc: &mut Mut<'_, ifc::mkc>) {
        mkc.set_flag(field!(mkc, free), self.free)
            .set(field!(mkc, access_mode_4_2), (self.mode.code() >> 2).into())
            .set(field!(mkc, access_mode_1_0), (self.mode.code() & 3).into())
            .set_flag(field!(mkc, lr), self.rights.local_read)
            .set_flag(field!(mkc, lw), self.rights.local_write)
            .set_flag(field!(mkc, rr), self.rights.remote_read)
            .set_flag(field!(mkc, rw), self.rights.remote_write)
            .set_flag(field!(mkc, a), self.rights.atomic)
            .set_flag(field!(mkc, umr_en), self.umr_en)
            .set_flag(field!(mkc, en_rinval), self.rinval)
            .set(field!(mkc, qpn), self.qpn.into())
            .set(field!(mkc, mkey_7_0), self.variant.into())
            .set(field!(mkc, pd), self.pd.into())
            .set(field!(mkc, start_addr), self.start)
            .set(field!(mkc, len), self.len)
            .set_flag(field!(mkc, length64), self.length64)
            .set(field!(mkc, log_page_size), self.log_page.into())
            .set(
                field!(mkc, translations_octword_size),
                self.octowords.into(),
            );
    }

    /// Invalidation by LOCAL_INV or SEND with invalidate: not usable until enabled again.
    pub(crate) fn invalidate(&mut self) {
        self.free = true;
    }

    /// One line for a dump.
    pub fn describe(&self, index: u32) -> String {
        format!(
            "MKEY {index:#x}: variant {:#04x} {:?}{} pd {:#x} {:#x}+{:#x}{} page 2^{} {:?}",
            self.variant,
            self.mode,
            if self.free { " free" } else { "" },
            self.pd,
            self.start,
            self.len,
            if self.length64 { " length64" } else { "" },
            self.log_page,
            self.rights,
        )
    }
}

fn rights(mkc: Ref<'_, ifc::mkc>) -> Rights {
    Rights {
        local_read: mkc.flag(field!(mkc, lr)),
        local_write: mkc.flag(field!(mkc, lw)),
        remote_read: mkc.flag(field!(mkc, rr)),
        remote_write: mkc.flag(field!(mkc, rw)),
        atomic: mkc.flag(field!(mkc, a)),
    }
}

/// Big endian 64-bit words; a trailing part of one is left out.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| {
        let mut raw = [0; 8];
        raw.copy_from_slice(word);
        u64::from_be_bytes(raw)
    })
}
