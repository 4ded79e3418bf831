// SPDX-License-Identifier: GPL-2.0
//! Memory regions: a key, and the pages that it stands for.
//!
//! Mode MTT: the device translates an address of the region through a list of pages. Source of the
//! fields: `mlx5r_umr...` and `reg_create` in ib/mr.c.

mod access;

use kernel::prelude::*;
use kernel_ext::rdma::Umem;
use mlx5_hw::{
    field,
    field::{
        bytes_of,
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

pub(crate) use self::access::Access;
use crate::{
    buf::{
        Buf,
        PAGE, //
    },
    census::{
        Counted,
        Kind, //
    },
    cmd::{
        Cmd,
        CmdError,
        Command,
        MAX_LEN, //
    },
    pd::Pd,
    plain_command, //
};

/// The memory behind a key.
#[derive(Clone, Copy)]
enum Pages<'a> {
    Own(&'a Buf),
    /// Pinned memory of a process, in pages of that many bytes.
    User(&'a Umem, usize),
}

impl Pages<'_> {
    fn count(self) -> usize {
        match self {
            Self::Own(buf) => buf.pages(),
            Self::User(umem, size) => umem.count(size),
        }
    }

    fn log_size(self) -> u32 {
        match self {
            Self::Own(_) => PAGE.trailing_zeros(),
            Self::User(_, size) => size.trailing_zeros(),
        }
    }

    /// The list is counted in 16-byte units, two pages each.
    fn octwords(self) -> usize {
        self.count().div_ceil(2)
    }

    /// Keys of users can be changed by requests of the driver.
    fn is_changeable(self) -> bool {
        matches!(self, Self::User(..))
    }

    fn write(self, list: &mut [u8]) -> Result {
        match self {
            Self::Own(buf) => {
                buf.write_pas(list)?;
                for low in list.iter_mut().skip(7).step_by(8).take(self.count()) {
                    *low |= MTT_READ_WRITE;
                }
                Ok(())
            }
            Self::User(umem, size) => umem
                .write_blocks(size, MTT_READ_WRITE.into(), list)
                .map(|_| ()),
        }
    }
}

/// A translation entry may be read and written. Source: `MLX5_MTT_PRESENT...`, low bits of an MTT.
const MTT_READ_WRITE: u8 = 3;
/// Most pages of a region: their list has to fit a command, in 16-byte units.
pub(crate) const MOST_PAGES: usize = (MAX_LEN - bytes_of::<ifc::create_mkey_in>()) / 16 * 2;
/// Key for every QP of the domain.
pub(crate) const ANY_QP: u32 = 0xff_ffff;

/// What a new key stands for.
enum Behind<'a> {
    /// Pages, known as addresses from `start` on. Source: `reg_create` in ib/mr.c.
    Pages {
        pages: Pages<'a>,
        start: u64,
        len: u64,
        access: Access,
    },
    /// All memory, by bus address. Source: `mlx5_ib_get_dma_mr`, `mlx5e_create_mkey` in core/en_common.c.
    All(Access),
    /// Nothing before a request binds it to parts of regions, of so many octwords: a memory window. Source:
    /// `mlx5_ib_alloc_mw`.
    Window {
        octwords: u32,
        invalidated_by_remote: bool,
    },
    /// Nothing before a request fills in up to so many pages. Source: `mlx5_set_umr_free_mkey`.
    Unfilled(u32),
}

struct CreateMkey<'a> {
    behind: Behind<'a>,
    pd: u32,
    /// The free byte of the key.
    low: u8,
}

impl Behind<'_> {
    fn mode(&self) -> u32 {
        match self {
            Self::Pages { .. } | Self::Unfilled(_) => raw::MLX5_MKC_ACCESS_MODE_MTT,
            Self::All(_) => raw::MLX5_MKC_ACCESS_MODE_PA,
            Self::Window { .. } => raw::MLX5_MKC_ACCESS_MODE_KLMS,
        }
    }

    fn fill(&self, mkc: &mut Mut<'_, ifc::mkc>) {
        match self {
            Self::Pages {
                pages,
                start,
                len,
                access,
            } => {
                mkc.set_flag(field!(mkc, umr_en), pages.is_changeable())
                    .set(field!(mkc, start_addr), *start)
                    .set(field!(mkc, len), *len)
                    // CAST: bounded by the longest command.
                    .set(
                        field!(mkc, translations_octword_size),
                        pages.octwords() as u64,
                    )
                    .set(field!(mkc, log_page_size), pages.log_size().into());
                access.fill(mkc);
            }
            Self::All(access) => {
                mkc.set_flag(field!(mkc, length64), true);
                access.fill(mkc);
            }
            Self::Window {
                octwords,
                invalidated_by_remote,
            } => {
                mkc.set_flag(field!(mkc, free), true)
                    .set_flag(field!(mkc, umr_en), true)
                    .set_flag(field!(mkc, lr), true)
                    .set_flag(field!(mkc, en_rinval), *invalidated_by_remote)
                    .set(field!(mkc, translations_octword_size), (*octwords).into());
            }
            Self::Unfilled(entries) => {
                mkc.set_flag(field!(mkc, free), true)
                    .set_flag(field!(mkc, umr_en), true)
                    .set_flag(field!(mkc, lr), true)
                    // The number of pages, in whole blocks of four, counts octwords: room for twice as many.
                    .set(
                        field!(mkc, translations_octword_size),
                        entries.next_multiple_of(4).into(),
                    )
                    .set(field!(mkc, log_page_size), PAGE.trailing_zeros().into());
            }
        }
    }
}

impl Command for CreateMkey<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_MKEY;
    type In = ifc::create_mkey_in;
    type Out = ifc::create_mkey_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        match &self.behind {
            Behind::Pages { pages, .. } => pages.octwords() * 16,
            _ => 0,
        }
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.with(span!(create_mkey_in, memory_key_mkey_entry), |mkc| {
            mkc.set(field!(mkc, access_mode_1_0), self.behind.mode().into())
                .set(field!(mkc, qpn), ANY_QP.into())
                .set(field!(mkc, mkey_7_0), self.low.into())
                .set(field!(mkc, pd), self.pd.into());
            self.behind.fill(mkc);
        });
        let Behind::Pages { pages, .. } = &self.behind else {
            return Ok(());
        };
        // CAST: bounded by the longest command.
        input.set_flag(field!(create_mkey_in, pg_access), true).set(
            field!(create_mkey_in, translations_octword_actual_size),
            pages.octwords() as u64,
        );
        pages.write(input.raw(span!(create_mkey_in, klm_pas_mtt)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_mkey_out, mkey_index)))
    }
}

plain_command! {
    /// DESTROY_MKEY.
    DestroyMkey, MLX5_CMD_OP_DESTROY_MKEY, destroy_mkey_in, destroy_mkey_out,
    index: u32 => mkey_index
}

/// A memory region of the current device generation. The memory is its owner's.
pub(crate) struct Mr {
    key: u32,
    start: u64,
    _counted: Counted,
}

impl Mr {
    fn make(cmd: &Cmd, pd: u32, behind: Behind<'_>, low: u8) -> Result<Self, CmdError> {
        let start = match &behind {
            Behind::Pages { start, .. } => *start,
            _ => 0,
        };
        let index = cmd.exec(&CreateMkey { behind, pd, low })?;
        Ok(Self {
            key: index << 8 | u32::from(low),
            start,
            _counted: Counted::new(Kind::Mkey),
        })
    }

    /// Registers all of `buf`, to be known to the device as addresses from `start` (a multiple of
    /// the page size) on. `low` is the free byte of the key: a new one makes old keys invalid.
    ///
    /// Sleeps. `ENOMEM` when there are no more keys.
    pub(crate) fn create(
        cmd: &Cmd,
        pd: &Pd,
        buf: &Buf,
        start: u64,
        access: Access,
        low: u8,
    ) -> Result<Self, CmdError> {
        let behind = Behind::Pages {
            pages: Pages::Own(buf),
            start,
            // CAST: `usize` has 64 bits here.
            len: buf.len() as u64,
            access,
        };
        Self::make(cmd, pd.number(), behind, low)
    }

    /// Registers pinned memory, to be known to the device as addresses from `start` on, in pages of
    /// `page` bytes: a size that the memory said it has with `start`. The memory must outlive the
    /// key. `pd` is the number of a domain.
    ///
    /// Sleeps. `ENOMEM` when there are no more keys, `E2BIG` when there are more than [`MOST_PAGES`].
    pub(crate) fn register(
        cmd: &Cmd,
        pd: u32,
        (umem, page): (&Umem, usize),
        start: u64,
        access: Access,
        low: u8,
    ) -> Result<Self, CmdError> {
        let behind = Behind::Pages {
            pages: Pages::User(umem, page),
            start,
            // CAST: `usize` has 64 bits here.
            len: umem.len() as u64,
            access,
        };
        Self::make(cmd, pd, behind, low)
    }

    /// A memory window of `pieces` pieces, bound to nothing. `type2`: bound by requests with a key of the
    /// program's choice, and given up by those of the other end, too. `low` as for [`Mr::create`].
    ///
    /// Sleeps. `ENOMEM` when there are no more keys.
    pub(crate) fn window(
        cmd: &Cmd,
        pd: u32,
        pieces: u8,
        type2: bool,
        low: u8,
    ) -> Result<Self, CmdError> {
        let behind = Behind::Window {
            // A piece is an octoword; requests write them by fours.
            octwords: u32::from(pieces.max(1)).next_multiple_of(4),
            invalidated_by_remote: type2,
        };
        Self::make(cmd, pd, behind, low)
    }

    /// A key for all memory, in the domain of number `pd`: addresses under it are bus addresses. Sleeps.
    pub(crate) fn create_all(cmd: &Cmd, pd: u32, access: Access) -> Result<Self, CmdError> {
        Self::make(cmd, pd, Behind::All(access), 0)
    }

    /// A key for up to `entries` pages, in the domain of number `pd`, to be filled by requests. Sleeps.
    pub(crate) fn create_free(cmd: &Cmd, pd: u32, entries: u32) -> Result<Self, CmdError> {
        Self::make(cmd, pd, Behind::Unfilled(entries), 0)
    }

    /// Key for this side (lkey) and, with remote access, for the other end (rkey).
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// Address of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Ends the registration. An error says that the device may still use the memory.
    pub(crate) fn destroy(self, cmd: &Cmd) -> Result<(), CmdError> {
        cmd.exec(&DestroyMkey {
            index: self.key >> 8,
        })
    }
}
