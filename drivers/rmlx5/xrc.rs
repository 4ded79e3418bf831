// SPDX-License-Identifier: GPL-2.0
//! Extended reliable connections: domains, and what their QPs hang on.
//!
//! A receiving end belongs to no process: it has no domain, CQ or SRQ of its own, and a sending end has no
//! receives. Their contexts name a domain, a CQ and an XRC SRQ all the same, which never get anything:
//! the driver's [`Anchor`]. It is made when the first such QP is, and serves one generation. Source:
//! `create_xrc_tgt_qp`, `create_user_qp` in ib/qp.c, `mlx5_ib_dev_res_srq_init` in ib/main.c.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mlx5_hw::raw;

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
        queue::Verdict,
        Cmd,
        CmdError, //
    },
    cq::{
        Cq,
        CqRing,
        Moderation, //
    },
    device::Device,
    home::{
        Home,
        Lent, //
    },
    pd::Pd,
    plain_command,
    record::{
        Record,
        Records, //
    },
    srq::{
        Config,
        CreateXrcSrq,
        DestroyXrcSrq,
        Xrc, //
    }, //
};

plain_command! {
    /// ALLOC_XRCD.
    AllocXrcd, MLX5_CMD_OP_ALLOC_XRCD, alloc_xrcd_in, alloc_xrcd_out => xrcd: u32
}

plain_command! {
    /// DEALLOC_XRCD.
    DeallocXrcd, MLX5_CMD_OP_DEALLOC_XRCD, dealloc_xrcd_in, dealloc_xrcd_out, number: u32 => xrcd
}

/// An XRC domain of the current device generation.
pub(crate) struct Xrcd {
    number: u32,
    _counted: Counted,
}

impl Xrcd {
    /// Gets a domain from the device. Sleeps. `ENOMEM` when there are no more.
    pub(crate) fn alloc(cmd: &Cmd) -> Result<Self, CmdError> {
        Ok(Self {
            number: cmd.exec(&AllocXrcd {})?,
            _counted: Counted::new(Kind::Xrcd),
        })
    }

    /// Its number, for contexts.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Gives the domain back; an answer is not needed.
    pub(crate) fn dealloc(self, cmd: &Cmd) {
        let _ = cmd.exec(&DeallocXrcd {
            number: self.number,
        });
    }
}

/// log2 of the receives of the SRQ, and of the bytes of each; of the entries of the CQ. The smallest.
const LOG_RECEIVES: u8 = 1;
const LOG_RECEIVE: u8 = 5;
const LOG_COMPLETIONS: u8 = 1;
/// Where a receive says which one is next. Source: `mlx5_wqe_srq_next_seg` in include/linux/mlx5/qp.h.
const NEXT: usize = core::mem::offset_of!(raw::mlx5_wqe_srq_next_seg, next_wqe_index);
/// User index of who does not want one.
const NO_USER_INDEX: u32 = 0xff_ffff;

/// What the QPs of a generation hang on.
pub(crate) struct Anchor {
    srqn: Option<u32>,
    cq: Option<Cq>,
    xrcd: Option<Xrcd>,
    pd: Option<Pd>,
    /// The SRQ's queue; its record and that of the CQ.
    memory: Lent<(Buf, Records)>,
    home: Home,
    _counted: Counted,
}

impl Anchor {
    fn open(device: &Arc<Device>) -> Result<Self> {
        let home = Home::now(device);
        let cmd = home.cmd();
        let eq = device.comp_eq(0).ok_or(ENODEV)?;
        let eqn = eq.eq.number().ok_or(ENODEV)?;
        let dev = device.pdev.device();
        let caps = device.caps()?;
        let ring = CqRing::new(dev, eq.node, LOG_COMPLETIONS)?;
        // A list of all receives, in a circle.
        let buf = Buf::new(dev, eq.node, 1 << (LOG_RECEIVES + LOG_RECEIVE))?;
        for at in 0u16..1 << LOG_RECEIVES {
            let next = at.wrapping_add(1) % (1 << LOG_RECEIVES);
            buf.write((usize::from(at) << LOG_RECEIVE) + NEXT, &next.to_be_bytes())?;
        }
        // From here on an error takes back what there is.
        let mut anchor = Self {
            srqn: None,
            cq: None,
            xrcd: None,
            pd: None,
            memory: Lent::new((buf, Records::new(dev)?)),
            home: home.clone(),
            _counted: Counted::new(Kind::Srq),
        };
        let pd = anchor.pd.insert(Pd::alloc(cmd)?).number();
        let xrcdn = anchor.xrcd.insert(Xrcd::alloc(cmd)?).number();
        let (buf, records) = anchor.memory.get()?;
        let uar = device.uar()?;
        let cq = Cq::create(cmd, &uar, eqn, records, ring, Moderation::default())?;
        let cqn = anchor.cq.insert(cq).number();
        let config = Config {
            pd,
            log_entries: LOG_RECEIVES,
            log_stride: LOG_RECEIVE,
            xrc: None,
        };
        let xrc = Xrc {
            xrcdn,
            cqn,
            user_index: (caps.cqe_version != 0).then_some(NO_USER_INDEX),
        };
        anchor.srqn = Some(cmd.exec(&CreateXrcSrq {
            config: &config,
            xrc,
            memory: Memory::Own(buf),
            record: records.address(Record::Qp),
        })?);
        Ok(anchor)
    }

    /// Number of the SRQ. All are there: `EIO` is never the answer.
    pub(crate) fn srqn(&self) -> Result<u32> {
        self.srqn.ok_or(EIO)
    }

    /// Number of the CQ.
    pub(crate) fn cqn(&self) -> Result<u32> {
        self.cq.as_ref().map(Cq::number).ok_or(EIO)
    }

    /// Number of the domain, for who has none.
    pub(crate) fn pd(&self) -> Result<u32> {
        self.pd.as_ref().map(Pd::number).ok_or(EIO)
    }

    /// Number of the XRC domain, for who has none.
    pub(crate) fn xrcdn(&self) -> Result<u32> {
        self.xrcd.as_ref().map(Xrcd::number).ok_or(EIO)
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        let ended = match self.srqn {
            None => true,
            Some(number) => self.home.end(&DestroyXrcSrq { number }),
        };
        if self.home.is_current() {
            let cmd = self.home.cmd();
            if let Some(cq) = self.cq.take() {
                cq.destroy(cmd);
            }
            if let Some(xrcd) = self.xrcd.take() {
                xrcd.dealloc(cmd);
            }
            if let Some(pd) = self.pd.take() {
                pd.dealloc(cmd);
            }
        }
        let alive = self.home.cmd().verdict() == Verdict::Alive;
        self.memory.back(!self.home.reaches() || ended && alive);
    }
}

/// The anchor of the current generation.
pub(crate) struct Anchors(Pin<KBox<Mutex<Option<Arc<Anchor>>>>>);

impl Anchors {
    /// None yet.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KBox::pin_init(new_mutex!(None), GFP_KERNEL)?))
    }

    /// Makes the anchor if there is none. Sleeps. `ENOMEM` when the device has no more of something.
    pub(crate) fn get(&self, device: &Arc<Device>) -> Result<Arc<Anchor>> {
        let mut guard = self.0.lock();
        if let Some(anchor) = guard.as_ref().filter(|anchor| anchor.home.is_current()) {
            return Ok(anchor.clone());
        }
        let anchor = Arc::new(Anchor::open(device)?, GFP_KERNEL)?;
        *guard = Some(anchor.clone());
        Ok(anchor)
    }
}
