// SPDX-License-Identifier: GPL-2.0
//! UAR pages: where the driver rings doorbells.
//!
//! A UAR is a 4 KiB page of BAR0 whose number the device hands out. Offsets in a page (source:
//! core/uar.c, core/lib/eq.h, include/linux/mlx5/cq.h): 0x20 CQ arm, 0x40 EQ update and arm, 0x48
//! EQ update, 0x800 and up send queue doorbells, which are BlueFlame registers when the page is
//! mapped write combining.
//!
//! Order, for whoever rings: WQE, `dma_wmb`, doorbell record, `dma_wmb`, one write here.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::pci::{
    Bar,
    Io, //
};
use mlx5_hw::ring::Counter;

use crate::{
    buf::PAGE,
    census::{
        Counted,
        Kind, //
    },
    cmd::Cmd,
    plain_command, //
};

/// Offset of the CQ arm doorbell.
const CQ_ARM: usize = 0x20;
/// Offset of the EQ doorbell that also arms.
const EQ_ARM: usize = 0x40;
/// Offset of the first send doorbell register. Source: `MLX5_BF_OFFSET` in
/// include/linux/mlx5/driver.h.
const SEND: usize = 0x800;
/// Send doorbell registers of a page: two for everybody, two for the fast path.
const REGISTERS: usize = 4;
/// The first page that can be a UAR: behind the initialization segment and the MSI-X tables.
const FIRST: u32 = 4;

plain_command! {
    /// ALLOC_UAR.
    AllocUar, MLX5_CMD_OP_ALLOC_UAR, alloc_uar_in, alloc_uar_out => uar: u32
}

plain_command! {
    /// DEALLOC_UAR.
    DeallocUar, MLX5_CMD_OP_DEALLOC_UAR, dealloc_uar_in, dealloc_uar_out, index: u32 => uar
}

/// How a page is mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Uncached: EQ, CQ and plain send doorbells.
    Uncached,
    /// Write combining: BlueFlame.
    WriteCombining,
}

/// A mapped UAR page of the current device generation.
///
/// Doorbells may be rung in any context; after the end of the generation they go nowhere.
pub(crate) struct Uar {
    index: u32,
    mapping: Mapping,
    io: Io<PAGE>,
    _counted: Counted,
}

impl Uar {
    /// Gets a page from the device and maps it. `previous` is the page of an earlier generation:
    /// its mapping is used again when the device hands out the same number. Sleeps.
    pub(crate) fn alloc(
        cmd: &Cmd,
        bar: &Bar,
        mapping: Mapping,
        previous: Option<Arc<Self>>,
    ) -> Result<Arc<Self>> {
        let index = cmd.exec(&AllocUar {})?;
        if let Some(previous) = previous {
            if previous.index == index && previous.mapping == mapping {
                return Ok(previous);
            }
        }
        // CAST: a page is 4 KiB.
        let offset = u64::from(index) * PAGE as u64;
        let result = if index < FIRST {
            Err(EPROTO)
        } else {
            match mapping {
                Mapping::Uncached => bar.map(offset),
                Mapping::WriteCombining => bar.map_wc(offset),
            }
        };
        match result {
            Ok(io) => {
                let uar = Self {
                    index,
                    mapping,
                    io,
                    _counted: Counted::new(Kind::Uar),
                };
                Ok(Arc::new(uar, GFP_KERNEL)?)
            }
            Err(error) => {
                let _ = cmd.exec(&DeallocUar { index });
                Err(error)
            }
        }
    }

    /// Gives the page back to the device; an answer is not needed. The mapping stays until drop.
    pub(crate) fn dealloc(&self, cmd: &Cmd) {
        let _ = cmd.exec(&DeallocUar { index: self.index });
    }

    /// The number, for queue contexts.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// How it is mapped.
    pub(crate) fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Tells the device that entries before `consumer` have been read, and arms the queue.
    #[inline]
    pub(crate) fn eq_arm(&self, eqn: u8, consumer: Counter) {
        self.io
            .write_be32::<EQ_ARM>(u32::from(eqn) << 24 | consumer.low24());
    }

    /// Arms a CQ: `word` is the arm word of its doorbell record, already written there.
    #[inline]
    pub(crate) fn cq_arm(&self, cqn: u32, word: u32) {
        self.io
            .write_be64::<CQ_ARM>(u64::from(word) << 32 | u64::from(cqn));
    }

    /// Offset of send doorbell register `number` (0 to 3), each 1 << `log_size` bytes.
    pub(crate) fn register(number: usize, log_size: u8) -> Result<usize> {
        // CAST: registers are at most a page.
        let size = 1usize.checked_shl(log_size.into()).ok_or(ERANGE)?;
        let at = SEND + number.checked_mul(size).ok_or(ERANGE)?;
        if number >= REGISTERS || at + size > PAGE {
            return Err(ERANGE);
        }
        Ok(at)
    }

    /// Rings a send queue: the first 8 bytes of the last control segment, at a register offset.
    #[inline]
    pub(crate) fn send(&self, at: usize, control: u64) -> Result {
        self.io.try_write_be64(at, control)
    }

    /// Writes a whole WQE to a BlueFlame register and flushes it. Only for a write combining
    /// mapping, one writer per register. `wqe` is a multiple of 8 bytes.
    pub(crate) fn blue_flame(&self, at: usize, wqe: &[u8]) -> Result {
        self.io.try_copy_to(at, wqe)?;
        kernel_ext::pci::bar::write_barrier();
        Ok(())
    }
}

/// A UAR page for a process: the driver does not map it.
pub(crate) struct UserUar {
    index: u32,
    _counted: Counted,
}

impl UserUar {
    /// Gets a page from the device. Sleeps. `ENOMEM` when there are no more.
    pub(crate) fn alloc(cmd: &Cmd) -> Result<Self> {
        let index = cmd.exec(&AllocUar {})?;
        let uar = Self {
            index,
            _counted: Counted::new(Kind::Uar),
        };
        if index < FIRST {
            uar.dealloc(cmd);
            return Err(EPROTO);
        }
        Ok(uar)
    }

    /// Gives the page back; an answer is not needed. Nobody may have it mapped.
    pub(crate) fn dealloc(&self, cmd: &Cmd) {
        let _ = cmd.exec(&DeallocUar { index: self.index });
    }

    /// The number, for queue contexts.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Where it is in BAR0.
    pub(crate) fn offset(&self) -> u64 {
        // CAST: a page is 4 KiB.
        u64::from(self.index) * PAGE as u64
    }
}
