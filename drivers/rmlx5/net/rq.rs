// SPDX-License-Identifier: GPL-2.0
//! Receive queues as the card knows them.
//!
//! Source: `mlx5e_create_rq`, `mlx5e_build_rq_param` in core.

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
    q_counter::QCounter, //
};
use crate::{
    buf::{
        Buf,
        Memory, //
    },
    census::{
        Counted,
        Kind, //
    },
    cmd::Command,
    cq::leak_if_in_doubt,
    home::{
        Home,
        Lent, //
    },
    plain_command,
    record::{
        Record,
        Records, //
    },
};

/// log2 of the bytes of a scatter entry.
const LOG_SEGMENT: u8 = 4;

/// Geometry of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// log2 of the number of WQEs.
    pub(crate) log: u8,
    /// log2 of the scatter entries of a WQE.
    pub(crate) log_segments: u8,
    /// The tag stays in the frame.
    pub(crate) keep_vlan: bool,
}

/// CREATE_RQ; the number of the queue, which is in RST.
pub(crate) struct CreateRq<'a> {
    pub(crate) shape: Shape,
    pub(crate) pd: u32,
    pub(crate) cqn: u32,
    /// Counters; 0 for none.
    pub(crate) counter: u8,
    /// Its WQEs.
    pub(crate) memory: Memory<'a>,
    /// DMA address of the doorbell record.
    pub(crate) record: u64,
    /// What CQEs name it by; 0 for who does not look.
    pub(crate) user_index: u32,
}

impl Command for CreateRq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_RQ;
    type In = ifc::create_rq_in;
    type Out = ifc::create_rq_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.memory.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let stride = LOG_SEGMENT + self.shape.log_segments;
        input.with(span!(create_rq_in, ctx), |rqc| {
            rqc.set_flag(field!(rqc, vsd), self.shape.keep_vlan)
                .set(field!(rqc, state), raw::MLX5_RQC_STATE_RST.into())
                .set_flag(field!(rqc, flush_in_error_en), true)
                .set(field!(rqc, counter_set_id), self.counter.into())
                .set(field!(rqc, user_index), self.user_index.into())
                .set(field!(rqc, cqn), self.cqn.into());
            rqc.with(span!(rqc, wq), |wq| {
                wq.set(field!(wq, wq_type), raw::MLX5_WQ_TYPE_CYCLIC.into())
                    .set(field!(wq, pd), self.pd.into())
                    .set(field!(wq, page_offset), self.memory.offset())
                    .set(field!(wq, dbr_addr), self.record)
                    .set(field!(wq, log_wq_stride), stride.into())
                    .set(field!(wq, log_wq_sz), self.shape.log.into());
            });
        });
        self.memory
            .write_pas(input.raw(span!(create_rq_in, ctx.wq.pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_rq_out, rqn)))
    }
}

/// MODIFY_RQ from RST to RDY.
struct ReadyRq {
    number: u32,
}

impl Command for ReadyRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_RQ;
    type In = ifc::modify_rq_in;
    type Out = ifc::modify_rq_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input
            .set(field!(modify_rq_in, rqn), self.number.into())
            .set(
                field!(modify_rq_in, rq_state),
                raw::MLX5_RQC_STATE_RST.into(),
            )
            .set(
                field!(modify_rq_in, ctx.state),
                raw::MLX5_RQC_STATE_RDY.into(),
            );
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

plain_command! {
    /// DESTROY_RQ.
    DestroyRq, MLX5_CMD_OP_DESTROY_RQ, destroy_rq_in, destroy_rq_out, number: u32 => rqn
}

struct Lot {
    buf: Buf,
    records: Records,
}

/// A receive queue that is ready.
pub(super) struct Rq {
    number: u32,
    ring: Ring,
    log_segments: u8,
    memory: Lent<Lot>,
    home: Home,
    let_go: bool,
    _counted: Counted,
}

impl Rq {
    /// Makes a queue whose completions go to `cqn`. Sleeps.
    pub(super) fn new(home: &Home, base: &Base, cqn: u32, shape: Shape) -> Result<Self> {
        let device = home.device();
        let ring = Ring::new(shape.log).ok_or(EINVAL)?;
        let stride = LOG_SEGMENT + shape.log_segments;
        // CAST: `usize` has 64 bits here.
        let bytes = (ring.entries() as usize) << stride;
        let memory = Lot {
            buf: Buf::new(device.pdev.device(), device.node, bytes)?,
            records: Records::new(device.pdev.device())?,
        };
        let made = home.cmd().exec(&CreateRq {
            shape,
            pd: base.pd(),
            cqn,
            counter: base.counter().map_or(0, QCounter::number),
            memory: Memory::Own(&memory.buf),
            record: memory.records.address(Record::Qp),
            user_index: 0,
        });
        let number = match made {
            Ok(number) => number,
            Err(error) => {
                leak_if_in_doubt(&error, memory);
                return Err(error.into());
            }
        };
        let rq = Self {
            number,
            ring,
            log_segments: shape.log_segments,
            memory: Lent::new(memory),
            home: home.clone(),
            let_go: false,
            _counted: Counted::new(Kind::Rq),
        };
        home.cmd().exec(&ReadyRq { number })?;
        Ok(rq)
    }

    /// Its number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Its geometry, in WQEs.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Bytes of a WQE.
    pub(super) fn stride(&self) -> usize {
        1 << (LOG_SEGMENT + self.log_segments)
    }

    /// Scatter entries of a WQE.
    pub(super) fn segments(&self) -> usize {
        1 << self.log_segments
    }

    /// Its WQEs.
    pub(super) fn buf(&self) -> Result<&Buf> {
        Ok(&self.memory.get()?.buf)
    }

    /// Its doorbell record.
    pub(super) fn records(&self) -> Result<&Records> {
        Ok(&self.memory.get()?.records)
    }

    /// Takes it from the card; whether the card has let go of its memory and of all pages.
    pub(super) fn end(&mut self) -> bool {
        if !self.let_go {
            self.let_go = self.home.end(&DestroyRq {
                number: self.number,
            });
        }
        self.let_go
    }
}

impl Drop for Rq {
    fn drop(&mut self) {
        let let_go = self.end();
        self.memory.back(let_go);
    }
}
