// SPDX-License-Identifier: GPL-2.0
//! Changing a memory key in place: a request of a QP that belongs to the driver (UMR, user memory
//! registration).
//!
//! The request is inline: control segment, UMR control, the context of the key. A mask says what of the
//! context counts. QP, CQ and domain are made when the first key is changed, and serve one generation;
//! after a request that failed they are made anew. Layout and order: `struct mlx5r_umr_wqe` in ib/umr.h,
//! `mlx5r_umr_post_send` and `mlx5r_umr_rereg_pd_access` in ib/umr.c.

use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex,
    time::Delta, //
};
use kernel_ext::time::{
    fsleep,
    Deadline, //
};
use mlx5_hw::{
    field,
    field::{
        bytes_of,
        Mut, //
    },
    ifc,
    raw,
    wire,
    wire::put, //
};

use crate::{
    cmd::queue::Verdict,
    cq::{
        cqe::Cqe,
        leak_if_in_doubt,
        Cq,
        CqRing,
        Moderation, //
    },
    doorbell::Doorbell,
    home::Home,
    mr::{
        Access,
        ANY_QP, //
    },
    pd::Pd,
    qp::{
        post::PAIR_BYTES,
        Qp,
        QpConfig,
        QpRing,
        Service, //
    },
    record::Records,
    wq::{
        control_segment,
        Signal,
        DS, //
    }, //
};

/// Where the context of the key stands in it.
const CONTEXT: usize = DS + size_of::<raw::mlx5_wqe_umr_ctrl_seg>();
const _: () = assert!(CONTEXT + bytes_of::<ifc::mkc>() == PAIR_BYTES);

/// log2 of requests and of completions: one is under way at a time.
const LOG_REQUESTS: u8 = 2;
const LOG_COMPLETIONS: u8 = 2;
/// How long a request may take. It touches nothing but the device itself.
const PATIENCE: Delta = Delta::from_secs(10);
/// Time between two looks for the completion.
const PAUSE: Delta = Delta::from_micros(20);

/// What a key is to become.
pub(crate) struct Change {
    /// The key, with its free byte.
    pub(crate) key: u32,
    /// Number of its domain.
    pub(crate) pd: u32,
    /// What it allows.
    pub(crate) access: Access,
    /// The device lets requests change whether it allows atomics.
    pub(crate) atomic: bool,
}

impl Change {
    /// Which members of the context count. Source: `get_umr_update_access_mask` in ib/umr.c.
    fn mask(&self) -> u64 {
        let rights = raw::MLX5_MKEY_MASK_LR
            | raw::MLX5_MKEY_MASK_LW
            | raw::MLX5_MKEY_MASK_RR
            | raw::MLX5_MKEY_MASK_RW
            | raw::MLX5_MKEY_MASK_PD;
        match self.atomic {
            true => rights | raw::MLX5_MKEY_MASK_A,
            false => rights,
        }
    }

    /// Builds the request, with a completion, for block `index` of the send queue of `qpn`.
    fn encode(&self, index: u16, qpn: u32) -> Option<[u8; PAIR_BYTES]> {
        let mut wqe = [0u8; PAIR_BYTES];
        // CAST: opcodes have 8 bits.
        let opcode = raw::MLX5_OPCODE_UMR as u8;
        let used = wqe.len();
        control_segment(&mut wqe, opcode, index, qpn, used, Signal::Completion)?;
        // Requests that use the key and were posted before are over first.
        let flags = raw::MLX5_WQE_CTRL_CQ_UPDATE | raw::MLX5_FENCE_MODE_INITIATOR_SMALL;
        let fence = wire!(mlx5_wqe_ctrl_seg, __bindgen_anon_1.trailer.fm_ce_se);
        let key = wire!(
            mlx5_wqe_ctrl_seg,
            __bindgen_anon_1.trailer.__bindgen_anon_1.umr_mkey
        );
        let mut written = put(&mut wqe, fence, flags.into()) && put(&mut wqe, key, self.key.into());
        let control = wqe.get_mut(DS..CONTEXT)?;
        // The key must be in use.
        let flags = raw::MLX5_UMR_INLINE | raw::MLX5_UMR_CHECK_FREE;
        written &= put(control, wire!(mlx5_wqe_umr_ctrl_seg, flags), flags.into())
            && put(
                control,
                wire!(mlx5_wqe_umr_ctrl_seg, mkey_mask),
                self.mask(),
            );
        let mut mkc = Mut::<ifc::mkc>::new(wqe.get_mut(CONTEXT..)?)?;
        self.access.fill(&mut mkc);
        mkc.set(field!(mkc, pd), self.pd.into())
            .set(field!(mkc, qpn), ANY_QP.into())
            .set(field!(mkc, mkey_7_0), (self.key & 0xff).into());
        (written && !mkc.overflowed()).then_some(wqe)
    }
}

/// QP and CQ of one generation.
struct Station {
    qp: Qp,
    cq: Cq,
    pd: Pd,
    records: Records,
    home: Home,
}

impl Station {
    /// Makes everything; the QP is ready. On failure nothing is left. Sleeps.
    fn open(home: &Home) -> Result<Self> {
        let home = home.clone();
        let device = home.device().clone();
        let cmd = home.cmd();
        let eq = device.comp_eq(0).ok_or(ENODEV)?;
        let dev = device.pdev.device();
        let records = Records::new(dev)?;
        let cq = CqRing::new(dev, eq.node, LOG_COMPLETIONS)?;
        let ring = QpRing::new(dev, eq.node, LOG_REQUESTS, Service::Umr)?;
        let uar = device.uar()?;
        let caps = device.caps()?;
        let doorbell = Doorbell::new(&uar, 0, caps.log_bf_register)?;
        let eqn = eq.eq.number().ok_or(ENODEV)?;
        let pd = Pd::alloc(cmd)?;
        // Nobody asks for its events: whoever posts looks.
        let cq = match Cq::create(cmd, &uar, eqn, &records, cq, Moderation::default()) {
            Ok(cq) => cq,
            Err(error) => {
                leak_if_in_doubt(&error, records);
                pd.dealloc(cmd);
                return Err(error.into());
            }
        };
        let config = QpConfig {
            doorbell,
            pd: pd.number(),
            cqn: cq.number(),
            cqe_version: caps.cqe_version,
            counter_set: 0,
        };
        let qp = match Qp::create(cmd, config, &records, ring) {
            Ok(qp) => qp,
            Err(error) => {
                cq.destroy(cmd);
                pd.dealloc(cmd);
                keep_in_doubt(&home, records);
                return Err(error.into());
            }
        };
        let mut station = Self {
            qp,
            cq,
            pd,
            records,
            home,
        };
        match station.start() {
            Ok(()) => Ok(station),
            Err(error) => {
                station.close();
                Err(error)
            }
        }
    }

    fn start(&mut self) -> Result {
        self.qp.restart(self.home.cmd(), &self.records)?;
        self.qp.open(self.home.cmd())
    }

    /// Takes everything away, as far as the device helps. Sleeps.
    fn close(self) {
        // Objects of an earlier generation are gone already.
        if !self.home.is_current() {
            return;
        }
        let cmd = self.home.cmd();
        self.qp.destroy(cmd);
        self.cq.destroy(cmd);
        self.pd.dealloc(cmd);
        keep_in_doubt(&self.home, self.records);
    }

    /// Posts a request and waits for it. Sleeps. After an error the station is of no use any more.
    fn run(&mut self, change: &Change) -> Result<(), Failure> {
        self.qp
            .post_umr(|index, qpn| change.encode(index, qpn))
            .and_then(|()| self.qp.ring(&self.records))
            .map_err(Failure::Other)?;
        let deadline = Deadline::after(PATIENCE);
        let cqe = loop {
            if let Some(cqe) = self.cq.poll() {
                break cqe;
            }
            self.home.alive().map_err(Failure::Other)?;
            if deadline.is_over() {
                return Err(Failure::Other(ETIMEDOUT));
            }
            fsleep(PAUSE);
        };
        self.cq.publish(&self.records).map_err(Failure::Other)?;
        match cqe {
            Cqe::Requester {
                qpn, wqe_counter, ..
            } if qpn == self.qp.number() => {
                let at = self.qp.sq().locate(wqe_counter);
                self.qp.sent(at.ok_or(Failure::Other(EPROTO))?);
                Ok(())
            }
            Cqe::RequesterError { syndrome, .. } => Err(Failure::Refused(syndrome.text())),
            _ => Err(Failure::Other(EPROTO)),
        }
    }
}

/// Why a request failed.
enum Failure {
    /// The device says why.
    Refused(&'static str),
    /// There is no answer that counts.
    Other(Error),
}

/// Keeps doorbell records for ever that the device may still read: it does not answer, and is not reset.
fn keep_in_doubt(home: &Home, records: Records) {
    if home.reaches() && home.cmd().verdict() != Verdict::Alive {
        core::mem::forget(records);
    }
}

/// Changes keys of users, one at a time.
pub(crate) struct Umr {
    station: Pin<KBox<Mutex<Option<Station>>>>,
}

impl Umr {
    /// Nothing is on the device yet.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            station: KBox::pin_init(new_mutex!(None), GFP_KERNEL)?,
        })
    }

    /// Changes a key of the generation of `home`. Sleeps.
    ///
    /// # Errors
    ///
    /// `EIO` when the device refuses the request, with a line, or its generation is over; `ETIMEDOUT`.
    /// The key may have changed only after `ETIMEDOUT`.
    pub(crate) fn change(&self, home: &Home, change: &Change) -> Result {
        let mut guard = self.station.lock();
        // Here, since who waited for the lock may have waited through a reset.
        home.alive()?;
        let device = home.device();
        if guard
            .as_ref()
            .is_some_and(|station| station.home.generation() != home.generation())
        {
            *guard = None;
        }
        if guard.is_none() {
            *guard = Some(Station::open(home)?);
        }
        let Some(station) = Option::as_mut(&mut *guard) else {
            return Err(EIO);
        };
        let outcome = station.run(change);
        let error = match outcome {
            Ok(()) => return Ok(()),
            Err(Failure::Refused(why)) => {
                dev_err!(
                    device.pdev,
                    "key {:#x}: the device does not change it: {}\n",
                    change.key,
                    why
                );
                EIO
            }
            Err(Failure::Other(error)) => {
                if station.home.is_current() {
                    dev_err!(
                        device.pdev,
                        "key {:#x}: no answer to the request that changes it, error {}\n",
                        change.key,
                        error.to_errno()
                    );
                }
                error
            }
        };
        if let Some(station) = guard.take() {
            station.close();
        }
        Err(error)
    }
}

impl Drop for Umr {
    fn drop(&mut self) {
        if let Some(station) = self.station.lock().take() {
            station.close();
        }
    }
}
