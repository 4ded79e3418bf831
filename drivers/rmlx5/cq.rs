// SPDX-License-Identifier: GPL-2.0
//! Completion queues.
//!
//! A CQ is a ring of CQEs with an owner bit that toggles with each lap, a doorbell record and an
//! arm doorbell. Who polls holds the CQ exclusively; the type has no lock of its own.
//!
//! Arm, then poll: [`Cq::arm`] asks for one event as soon as there is an entry that has not been
//! consumed. Whoever arms looks once more afterwards.
//!
//! Resize: the device writes one [`Cqe::Resize`] into the old ring and goes on in the new one. The
//! old ring is read up to there, so nothing is lost and nothing is copied. Source: `mlx5_ib_resize_cq`
//! in ib/cq.c.

pub(crate) mod cqe;
pub(crate) mod query;
pub(crate) mod user;

use kernel::{
    device::{
        Bound,
        Device, //
    },
    prelude::*,
    sync::{
        barrier::{
            self,
            dma_mb, //
        },
        Arc, //
    }, //
};
use kernel_ext::numa::Node;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    ring::{
        Counter,
        Ring, //
    },
    span, //
};

use self::cqe::{
    is_valid,
    Cqe,
    CQE_BYTES,
    OP_OWN,
    OP_OWN_UNUSED, //
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
    cmd::{
        Cmd,
        CmdError,
        Command, //
    },
    plain_command,
    record::{
        Record,
        Records, //
    },
    uar::Uar, //
};

/// When a CQ raises its event. Source: `mlx5_core_modify_cq_moderation` in core/cq.c.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moderation {
    /// Microseconds after the first completion, 12 bits; 0: at once.
    pub(crate) period_us: u16,
    /// Completions; 0: one is enough.
    pub(crate) count: u16,
}

struct CreateCq<'a> {
    memory: Memory<'a>,
    log: u8,
    /// Entries of 128 bytes instead of 64.
    long: bool,
    /// Who consumes promises that there is always room.
    ignore_overrun: bool,
    uar: u32,
    eqn: u8,
    record: u64,
    moderation: Moderation,
}

impl Command for CreateCq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_CQ;
    type In = ifc::create_cq_in;
    type Out = ifc::create_cq_out;
    type Output = u32;

    fn in_tail(&self) -> usize {
        self.memory.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.with(span!(create_cq_in, cq_context), |cqc| {
            cqc.set(field!(cqc, log_cq_size), self.log.into())
                .set(field!(cqc, cqe_sz), self.long.into())
                .set_flag(field!(cqc, oi), self.ignore_overrun)
                .set(field!(cqc, page_offset), self.memory.offset())
                .set(field!(cqc, uar_page), self.uar.into())
                .set(field!(cqc, cq_period), self.moderation.period_us.into())
                .set(field!(cqc, cq_max_count), self.moderation.count.into())
                .set(field!(cqc, c_eqn_or_apu_element), self.eqn.into())
                .set(field!(cqc, dbr_addr), self.record);
        });
        self.memory.write_pas(input.raw(span!(create_cq_in, pas)))
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_cq_out, cqn)))
    }
}

struct ResizeCq<'a> {
    cqn: u32,
    memory: Memory<'a>,
    log: u8,
    long: bool,
}

impl Command for ResizeCq<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_CQ;
    type In = ifc::modify_cq_in;
    type Out = ifc::modify_cq_out;
    type Output = ();

    fn op_mod(&self) -> u16 {
        // CAST: 1.
        raw::MLX5_CQ_OPMOD_RESIZE as u16
    }

    fn in_tail(&self) -> usize {
        self.memory.pages() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let mask = raw::MLX5_MODIFY_CQ_MASK_LOG_SIZE
            | raw::MLX5_MODIFY_CQ_MASK_PG_OFFSET
            | raw::MLX5_MODIFY_CQ_MASK_PG_SIZE;
        input
            .set(field!(modify_cq_in, cqn), self.cqn.into())
            .set(
                field!(
                    modify_cq_in,
                    modify_field_select_resize_field_select
                        .resize_field_select
                        .resize_field_select
                ),
                mask.into(),
            )
            .with(span!(modify_cq_in, cq_context), |cqc| {
                cqc.set(field!(cqc, log_cq_size), self.log.into())
                    .set(field!(cqc, cqe_sz), self.long.into())
                    .set(field!(cqc, page_offset), self.memory.offset());
            });
        self.memory.write_pas(input.raw(span!(modify_cq_in, pas)))
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// MODIFY_CQ: when the event is raised.
pub(crate) struct ModerateCq {
    /// Number of the CQ.
    pub(crate) cqn: u32,
    /// Its moderation from now on.
    pub(crate) moderation: Moderation,
}

impl Command for ModerateCq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_CQ;
    type In = ifc::modify_cq_in;
    type Out = ifc::modify_cq_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let mask = raw::MLX5_CQ_MODIFY_PERIOD | raw::MLX5_CQ_MODIFY_COUNT;
        input
            .set(field!(modify_cq_in, cqn), self.cqn.into())
            .set(
                field!(
                    modify_cq_in,
                    modify_field_select_resize_field_select
                        .modify_field_select
                        .modify_field_select
                ),
                mask.into(),
            )
            .with(span!(modify_cq_in, cq_context), |cqc| {
                cqc.set(field!(cqc, cq_period), self.moderation.period_us.into())
                    .set(field!(cqc, cq_max_count), self.moderation.count.into());
            });
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

plain_command! {
    /// DESTROY_CQ.
    DestroyCq, MLX5_CMD_OP_DESTROY_CQ, destroy_cq_in, destroy_cq_out, number: u32 => cqn
}

/// Memory of a CQ.
pub(crate) struct CqRing {
    buf: Buf,
    ring: Ring,
}

impl CqRing {
    /// A ring of `1 << log` CQEs that the device has not written yet. Sleeps.
    pub(crate) fn new(dev: &Device<Bound>, node: Node, log: u8) -> Result<Self> {
        let ring = Ring::new(log).ok_or(EINVAL)?;
        // CAST: `usize` has 64 bits here.
        let bytes = (ring.entries() as usize)
            .checked_mul(CQE_BYTES)
            .ok_or(EINVAL)?;
        let ring = Self {
            buf: Buf::new(dev, node, bytes)?,
            ring,
        };
        ring.preset()?;
        Ok(ring)
    }

    /// Number of CQEs.
    pub(crate) fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// Makes all entries unwritten. The device must not use the ring.
    fn preset(&self) -> Result {
        let mut unwritten = [0; CQE_BYTES];
        unwritten[OP_OWN] = OP_OWN_UNUSED;
        self.buf.fill(&unwritten)
    }

    /// The entry at `consumer`, if the device has written it.
    #[inline(always)]
    fn read(&self, consumer: Counter) -> Option<[u8; CQE_BYTES]> {
        let owner = self.ring.owner(consumer);
        self.buf
            .read_written(self.at(consumer), |op_own| is_valid(op_own, owner))
    }

    /// Whether the device has written it.
    fn has(&self, consumer: Counter) -> bool {
        self.buf
            .read8(self.at(consumer) + OP_OWN)
            .is_ok_and(|op_own| is_valid(op_own, self.ring.owner(consumer)))
    }

    #[inline]
    fn at(&self, consumer: Counter) -> usize {
        // CAST: `usize` has 64 bits here.
        self.ring.slot(consumer) as usize * CQE_BYTES
    }
}

/// A completion queue of the current device generation.
pub(crate) struct Cq {
    number: u32,
    ring: CqRing,
    /// Where the device goes on after [`Cqe::Resize`].
    next: Option<CqRing>,
    consumer: Counter,
    uar: Arc<Uar>,
    _counted: Counted,
}

impl Cq {
    /// Creates the CQ on `ring`, whose events go to EQ `eqn`. `records` must outlive it. Sleeps.
    ///
    /// `ENOMEM` when the HCA has no more CQs. A ring that the device may use after an error is kept for ever;
    /// the records are the caller's to keep.
    pub(crate) fn create(
        cmd: &Cmd,
        uar: &Arc<Uar>,
        eqn: u8,
        records: &Records,
        ring: CqRing,
        moderation: Moderation,
    ) -> Result<Self, CmdError> {
        let ready = ring.preset().and_then(|()| records.set(Record::Cq, 0, 0));
        // Nothing is armed: the sequence is one that no arm word has next.
        let ready = ready.and_then(|()| records.set(Record::Cq, 1, 2 << ARM_SEQUENCE_SHIFT));
        if let Err(error) = ready {
            // The ranges are those of the buffers: this cannot happen.
            return Err(CmdError {
                // CAST: opcodes have 16 bits.
                opcode: raw::MLX5_CMD_OP_CREATE_CQ as u16,
                op_mod: 0,
                cause: crate::cmd::Cause::Input(error),
            });
        }
        let command = CreateCq {
            memory: Memory::Own(&ring.buf),
            log: ring.ring.log(),
            long: false,
            ignore_overrun: false,
            uar: uar.index(),
            eqn,
            record: records.address(Record::Cq),
            moderation,
        };
        match cmd.exec(&command) {
            Ok(number) => Ok(Self {
                number,
                ring,
                next: None,
                consumer: Counter::default(),
                uar: uar.clone(),
                _counted: Counted::new(Kind::Cq),
            }),
            Err(error) => {
                leak_if_in_doubt(&error, ring);
                Err(error)
            }
        }
    }

    /// The number the device gave it.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Depth in CQEs, the new one while a resize is under way.
    pub(crate) fn entries(&self) -> u32 {
        self.next.as_ref().unwrap_or(&self.ring).entries()
    }

    /// The next completion. The caller tells the device by [`Cq::publish`] how far it got.
    pub(crate) fn poll(&mut self) -> Option<Cqe> {
        loop {
            match Cqe::parse(&self.next()?) {
                Cqe::Resize => match self.next.take() {
                    // The device has left the old ring; its memory goes now.
                    Some(next) => self.ring = next,
                    None => return Some(Cqe::Resize),
                },
                other => return Some(other),
            }
        }
    }

    /// The bytes of the next completion, for queues that are never resized and whose entries are
    /// parsed elsewhere. As [`Cq::poll`] otherwise.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<[u8; CQE_BYTES]> {
        let bytes = self.ring.read(self.consumer)?;
        self.consumer = self.consumer.plus(1);
        Some(bytes)
    }

    /// Whether [`Cq::poll`] would find something.
    pub(crate) fn is_ready(&self) -> bool {
        self.ring.has(self.consumer)
    }

    /// Tells the device which entries are free again.
    #[inline]
    pub(crate) fn publish(&self, records: &Records) -> Result {
        // Entries are read before the device may write them again.
        dma_mb(barrier::Full);
        records.set(Record::Cq, 0, self.consumer.low24())
    }

    /// How far it has been polled.
    pub(crate) fn consumer(&self) -> Counter {
        self.consumer
    }

    /// How far the device has written it, as far as can be seen. At most a lap.
    pub(crate) fn written(&self) -> Counter {
        let mut at = self.consumer;
        for _ in 0..self.ring.entries() {
            if !self.ring.has(at) {
                break;
            }
            at = at.plus(1);
        }
        at
    }

    /// Asks for an event. `events` is the number of events that came so far.
    pub(crate) fn arm(&self, records: &Records, events: u32) -> Result {
        self.arm_for(records, events, false)
    }

    /// Asks for an event, if need be only of a solicited completion or an error.
    pub(crate) fn arm_for(&self, records: &Records, events: u32, solicited: bool) -> Result {
        let which = if solicited { ARM_SOLICITED } else { 0 };
        let word = (events & 3) << ARM_SEQUENCE_SHIFT | which | self.consumer.low24();
        records.set(Record::Cq, 1, word)?;
        dma_mb(barrier::Write);
        self.uar.cq_arm(self.number, word);
        Ok(())
    }

    /// Moves the CQ to another ring. Completions that are in the old one are polled first. Sleeps.
    ///
    /// Gives the new ring back with the error, and then nothing has changed. `EBUSY` while an
    /// earlier resize is under way.
    pub(crate) fn resize(&mut self, cmd: &Cmd, ring: CqRing) -> Result {
        if self.next.is_some() {
            return Err(EBUSY);
        }
        let command = ResizeCq {
            cqn: self.number,
            memory: Memory::Own(&ring.buf),
            log: ring.ring.log(),
            long: false,
        };
        match cmd.exec(&command) {
            Ok(()) => {
                self.next = Some(ring);
                Ok(())
            }
            Err(error) => {
                leak_if_in_doubt(&error, ring);
                Err(error.into())
            }
        }
    }

    /// Sets when the event is raised. Sleeps.
    pub(crate) fn moderate(&self, cmd: &Cmd, moderation: Moderation) -> Result<(), CmdError> {
        cmd.exec(&ModerateCq {
            cqn: self.number,
            moderation,
        })
    }

    /// Destroys the CQ. Its QPs must be gone. Memory that the device may still write is not freed.
    pub(crate) fn destroy(self, cmd: &Cmd) {
        if let Err(error) = cmd.exec(&DestroyCq {
            number: self.number,
        }) {
            leak_with_object(&error, (self.ring, self.next));
        }
    }

    /// Takes the memory of a CQ whose device generation is over, to be used again.
    pub(crate) fn into_ring(self) -> CqRing {
        self.next.unwrap_or(self.ring)
    }
}

const ARM_SEQUENCE_SHIFT: u32 = 28;
/// Only solicited completions. Source: `MLX5_CQ_DB_REQ_NOT_SOL` in include/linux/mlx5/cq.h.
const ARM_SOLICITED: u32 = 1 << 24;

/// Keeps the memory of an object for ever that the device did not take away.
pub(crate) fn leak_with_object<T>(error: &CmdError, memory: T) {
    if error.keeps_object() {
        core::mem::forget(memory);
    }
}

/// Keeps memory for ever that the device may still write: a few KiB are better lost than shared.
pub(crate) fn leak_if_in_doubt<T>(error: &CmdError, memory: T) {
    if error.in_doubt() {
        core::mem::forget(memory);
    }
}
