// SPDX-License-Identifier: GPL-2.0
//! Write combining: whether a WQE that is written to a BlueFlame register reaches the card whole.
//!
//! That depends on processor, bridges and virtual machine monitor, so it is tried, as core/wc.c does:
//! NOPs are posted whose copy in memory asks for no completion, and the copy written to the register
//! does. A completion of such a NOP proves that the card took what was written. The last NOP asks for
//! a completion in memory too: if only that one completes, the card reads memory, and doorbells have
//! to be plain. A card that answers neither way has another problem.

use kernel::{
    device::{
        Bound,
        Device, //
    },
    new_mutex,
    prelude::*,
    sync::{
        barrier::{
            self,
            dma_mb, //
        },
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::{
    numa::Node,
    pci::Bar,
    time::{
        fsleep,
        Deadline, //
    }, //
};
use mlx5_hw::{
    raw,
    wire,
    wire::put, //
};

use crate::{
    buf::{
        Buf,
        Memory, //
    },
    caps::Caps,
    cmd::Cmd,
    cq::{
        cqe::Cqe,
        leak_if_in_doubt,
        Cq,
        CqRing,
        Moderation, //
    },
    doorbell::Doorbell,
    pd::Pd,
    queue_state::State,
    record::{
        Record,
        Records, //
    },
    sq::{
        CreateSq,
        DestroySq,
        MoveSq, //
    },
    uar::{
        Mapping,
        Uar, //
    },
    wq::SEND_WQE_BYTES, //
};

/// NOPs that only the register asks a completion for. One is enough where combining works, unless
/// an interrupt tears the line.
const TRIES: u16 = 16;
/// log2 of the blocks of the queue; room for all NOPs.
const LOG_BLOCKS: u8 = 5;
/// log2 of the CQEs.
const LOG_CQES: u8 = 6;
/// How long a NOP may take before the next one is tried. It takes microseconds.
const PATIENCE: Delta = Delta::from_micros(500);
/// How long the last one may take. Source: `TEST_WC_POLLING_MAX_TIME_USEC` in core/wc.c.
const LAST: Delta = Delta::from_millis(100);
const STEP: Delta = Delta::from_micros(20);

/// What is known about BlueFlame on a card in its slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nobody has asked yet, or the test failed.
    Unknown,
    /// Switched off by the module parameter.
    Off,
    /// The card has no BlueFlame, or no queue to test it.
    Absent,
    /// The card takes whole WQEs.
    Works,
    /// It reads memory: writes do not reach it combined.
    Torn,
}

impl Answer {
    /// For the log.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "not tested",
            Self::Off => "switched off",
            Self::Absent => "not offered by the card",
            Self::Works => "write combining works",
            Self::Torn => "writes are not combined here, plain doorbells",
        }
    }

    /// For debugfs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Off => "off",
            Self::Absent => "absent",
            Self::Works => "works",
            Self::Torn => "torn",
        }
    }
}

/// What the test is made on.
pub(crate) struct Place<'a> {
    pub(crate) dev: &'a Device<Bound>,
    pub(crate) node: Node,
    pub(crate) cmd: &'a Cmd,
    pub(crate) bar: &'a Bar,
    pub(crate) caps: Caps,
    /// Page for the CQ.
    pub(crate) uar: Arc<Uar>,
    /// EQ for the CQ, which is never armed.
    pub(crate) eqn: u8,
}

/// The answer for one card: found out once, when somebody wants to know first.
#[pin_data]
pub(crate) struct WriteCombining {
    #[pin]
    answer: Mutex<Answer>,
}

impl WriteCombining {
    /// Nothing is known; with `allowed` false it stays switched off.
    pub(crate) fn new(allowed: bool) -> impl PinInit<Self> {
        let first = if allowed {
            Answer::Unknown
        } else {
            Answer::Off
        };
        pin_init!(Self {
            answer <- new_mutex!(first),
        })
    }

    /// What is known so far. Sleeps while a test runs.
    pub(crate) fn known(&self) -> Answer {
        *self.answer.lock()
    }

    /// The answer, after a test if need be. A test that fails is made again next time. Sleeps.
    pub(crate) fn find_out(&self, place: &Place<'_>) -> Result<Answer> {
        let mut answer = self.answer.lock();
        if *answer == Answer::Unknown {
            *answer = if place.caps.blue_flame && place.caps.log_max_sq != 0 {
                test(place)?
            } else {
                Answer::Absent
            };
        }
        Ok(*answer)
    }
}

/// Makes what the test needs, tests, and takes everything away again.
fn test(place: &Place<'_>) -> Result<Answer> {
    let records = Records::new(place.dev)?;
    let pd = Pd::alloc(place.cmd)?;
    let result = with_cq(place, &records, &pd);
    pd.dealloc(place.cmd);
    result
}

fn with_cq(place: &Place<'_>, records: &Records, pd: &Pd) -> Result<Answer> {
    let ring = CqRing::new(place.dev, place.node, LOG_CQES)?;
    let mut cq = Cq::create(
        place.cmd,
        &place.uar,
        place.eqn,
        records,
        ring,
        Moderation::default(),
    )?;
    let result = with_uar(place, records, pd, &mut cq);
    cq.destroy(place.cmd);
    result
}

fn with_uar(place: &Place<'_>, records: &Records, pd: &Pd, cq: &mut Cq) -> Result<Answer> {
    let uar = Uar::alloc(place.cmd, place.bar, Mapping::WriteCombining, None)?;
    let result = Doorbell::new(&uar, 0, place.caps.log_bf_register)
        .and_then(|bell| with_sq(place, records, pd, cq, bell));
    uar.dealloc(place.cmd);
    result
}

fn with_sq(
    place: &Place<'_>,
    records: &Records,
    pd: &Pd,
    cq: &mut Cq,
    bell: Doorbell,
) -> Result<Answer> {
    let buf = Buf::new(place.dev, place.node, SEND_WQE_BYTES << LOG_BLOCKS)?;
    let created = place.cmd.exec(&CreateSq {
        memory: Memory::Own(&buf),
        log: LOG_BLOCKS,
        pd: pd.number(),
        cqn: cq.number(),
        uar: bell.uar_index(),
        record: records.address(Record::Qp),
        tis: None,
        inline_mode: false,
        user_index: 0,
    });
    let sqn = match created {
        Ok(sqn) => sqn,
        Err(error) => {
            leak_if_in_doubt(&error, buf);
            return Err(error.into());
        }
    };
    let mut queue = Queue {
        sqn,
        buf: &buf,
        records,
        bell,
        posted: 0,
    };
    let result = place
        .cmd
        .exec(&MoveSq {
            number: sqn,
            from: State::Reset,
            to: State::Ready,
        })
        .map_err(Error::from)
        .and_then(|()| queue.run(cq));
    if let Err(error) = place.cmd.exec(&DestroySq { number: sqn }) {
        leak_if_in_doubt(&error, buf);
    }
    result
}

/// The send queue of the test.
struct Queue<'a> {
    sqn: u32,
    buf: &'a Buf,
    records: &'a Records,
    bell: Doorbell,
    posted: u16,
}

impl Queue<'_> {
    /// Posts a NOP. The register asks for its completion; `memory` says whether memory does.
    fn post(&mut self, memory: bool) -> Result {
        let mut wqe = [0u8; SEND_WQE_BYTES];
        let head = u64::from(self.posted) << raw::MLX5_WQE_CTRL_WQE_INDEX_SHIFT
            | u64::from(raw::MLX5_OPCODE_NOP);
        let size = u64::from(self.sqn) << raw::MLX5_WQE_CTRL_QPN_SHIFT | 1;
        let ask = |wqe: &mut [u8], flags: u32| {
            put(wqe, wire!(mlx5_wqe_ctrl_seg, opmod_idx_opcode), head)
                && put(wqe, wire!(mlx5_wqe_ctrl_seg, qpn_ds), size)
                && put(
                    wqe,
                    wire!(mlx5_wqe_ctrl_seg, __bindgen_anon_1.trailer.fm_ce_se),
                    flags.into(),
                )
        };
        let asking = raw::MLX5_WQE_CTRL_CQ_UPDATE;
        if !ask(&mut wqe, if memory { asking } else { 0 }) {
            return Err(EINVAL);
        }
        self.buf
            .write(usize::from(self.posted) * SEND_WQE_BYTES, &wqe)?;
        if !ask(&mut wqe, asking) {
            return Err(EINVAL);
        }
        self.posted = self.posted.wrapping_add(1);
        dma_mb(barrier::Write);
        // The send counter; source: `MLX5_SND_DBR`.
        self.records.set(Record::Qp, 1, self.posted.into())?;
        dma_mb(barrier::Write);
        self.bell.push(&wqe)
    }

    /// The number of the NOP that completed, if one did in time.
    fn wait(&self, cq: &mut Cq, limit: Delta) -> Result<Option<u16>> {
        let deadline = Deadline::after(limit);
        loop {
            // Once more after the end: a look costs nothing.
            let over = deadline.is_over();
            match cq.poll() {
                Some(Cqe::Requester { wqe_counter, .. }) => return Ok(Some(wqe_counter)),
                Some(_) => return Err(EIO),
                None if over => return Ok(None),
                None => fsleep(STEP),
            }
        }
    }

    fn run(&mut self, cq: &mut Cq) -> Result<Answer> {
        for _ in 0..TRIES {
            self.post(false)?;
            if self.wait(cq, PATIENCE)?.is_some() {
                return Ok(Answer::Works);
            }
        }
        self.post(true)?;
        match self.wait(cq, LAST)? {
            Some(number) if number < TRIES => Ok(Answer::Works),
            Some(_) => Ok(Answer::Torn),
            None => Err(ETIMEDOUT),
        }
    }
}
