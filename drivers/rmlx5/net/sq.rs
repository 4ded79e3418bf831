// SPDX-License-Identifier: GPL-2.0
//! Send queues as the card knows them.
//!
//! Source: `mlx5e_create_sq`, `mlx5e_modify_sq` in core/en_main.c.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    ring::Ring,
    span, //
};

use super::{
    base::Base,
    home::{
        Home,
        Lent, //
    },
};
use crate::{
    buf::Buf,
    census::{
        Counted,
        Kind, //
    },
    cmd::Command,
    cq::leak_if_in_doubt,
    plain_command,
    record::{
        Record,
        Records, //
    },
};

/// log2 of the bytes of a basic block.
const LOG_BLOCK: u8 = 6;

/// Inline mode "L2 headers" (`MLX5_INLINE_MODE_L2`).
const INLINE_L2: u64 = 1;

struct CreateSq<'a> {
    tis: u32,
    pd: u32,
    cqn: u32,
    uar: u32,
    inline_mode: bool,
    ring: Ring,
    buf: &'a Buf,
    record: u64,
}

impl Command for CreateSq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_SQ;
    type In = ifc::create_sq_in;
    type Out = ifc::create_sq_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.buf.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.with(span!(create_sq_in, ctx), |sqc| {
            sqc.set_flag(field!(sqc, flush_in_error_en), true)
                .set(field!(sqc, state), raw::MLX5_SQC_STATE_RST.into())
                .set(field!(sqc, cqn), self.cqn.into())
                .set(field!(sqc, tis_lst_sz), 1)
                .set(field!(sqc, tis_num_0), self.tis.into());
            if self.inline_mode {
                sqc.set(field!(sqc, min_wqe_inline_mode), INLINE_L2);
            }
            sqc.with(span!(sqc, wq), |wq| {
                wq.set(field!(wq, wq_type), raw::MLX5_WQ_TYPE_CYCLIC.into())
                    .set(field!(wq, pd), self.pd.into())
                    .set(field!(wq, uar_page), self.uar.into())
                    .set(field!(wq, dbr_addr), self.record)
                    .set(field!(wq, log_wq_stride), LOG_BLOCK.into())
                    .set(field!(wq, log_wq_sz), self.ring.log().into());
            });
        });
        self.buf
            .write_pas(input.raw(span!(create_sq_in, ctx.wq.pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_sq_out, sqn)))
    }
}

/// MODIFY_SQ from RST to RDY.
struct ReadySq {
    number: u32,
}

impl Command for ReadySq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_SQ;
    type In = ifc::modify_sq_in;
    type Out = ifc::modify_sq_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(modify_sq_in, sqn), self.number.into())
            .set(
                field!(modify_sq_in, sq_state),
                raw::MLX5_SQC_STATE_RST.into(),
            )
            .set(
                field!(modify_sq_in, ctx.state),
                raw::MLX5_SQC_STATE_RDY.into(),
            );
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

plain_command! {
    /// DESTROY_SQ.
    DestroySq, MLX5_CMD_OP_DESTROY_SQ, destroy_sq_in, destroy_sq_out, number: u32 => sqn
}

struct Memory {
    buf: Buf,
    records: Records,
}

/// A send queue that is ready.
pub(super) struct Sq {
    number: u32,
    ring: Ring,
    memory: Lent<Memory>,
    home: Home,
    let_go: bool,
    _counted: Counted,
}

impl Sq {
    /// Makes a queue of `1 << log` basic blocks whose completions go to `cqn`. Sleeps.
    pub(super) fn new(
        home: &Home,
        base: &Base,
        cqn: u32,
        log: u8,
        inline_mode: bool,
    ) -> Result<Self> {
        let device = home.device();
        let ring = Ring::new(log).ok_or(EINVAL)?;
        // CAST: `usize` has 64 bits here.
        let bytes = (ring.entries() as usize) << LOG_BLOCK;
        let memory = Memory {
            buf: Buf::new(device.pdev.device(), device.node, bytes)?,
            records: Records::new(device.pdev.device())?,
        };
        let made = home.cmd().exec(&CreateSq {
            tis: base.tis(),
            pd: base.pd(),
            cqn,
            uar: device.uar()?.index(),
            inline_mode,
            ring,
            buf: &memory.buf,
            record: memory.records.address(Record::Qp),
        });
        let number = match made {
            Ok(number) => number,
            Err(error) => {
                leak_if_in_doubt(&error, memory);
                return Err(error.into());
            }
        };
        let sq = Self {
            number,
            ring,
            memory: Lent::new(memory),
            home: home.clone(),
            let_go: false,
            _counted: Counted::new(Kind::Sq),
        };
        home.cmd().exec(&ReadySq { number })?;
        Ok(sq)
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Its geometry, in basic blocks.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Its blocks.
    pub(super) fn buf(&self) -> Result<&Buf> {
        Ok(&self.memory.get()?.buf)
    }

    /// Its doorbell record.
    pub(super) fn records(&self) -> Result<&Records> {
        Ok(&self.memory.get()?.records)
    }

    /// Takes it from the card; whether the card has let go of its memory and of all packets.
    pub(super) fn end(&mut self) -> bool {
        if !self.let_go {
            self.let_go = self.home.end(&DestroySq {
                number: self.number,
            });
        }
        self.let_go
    }
}

impl Drop for Sq {
    fn drop(&mut self) {
        let let_go = self.end();
        self.memory.back(let_go);
    }
}
