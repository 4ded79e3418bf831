// SPDX-License-Identifier: GPL-2.0
//! The control QP of a card: one UD QP with a CQ and small buffers, over which channels and those
//! of a peer agree on a new connection. Made when endpoint lines are first read or written.
//!
//! What it does is in [`super::post`]; this file makes it and takes it away.

use kernel::{
    prelude::*,
    sync::{
        atomic::ordering::Relaxed,
        Arc, //
    },
    time::Delta, //
};
use kernel_ext::workqueue::{
    task,
    Job,
    Queue,
    Task, //
};

use super::{
    hardware::{
        self,
        Base,
        Queues,
        Rings, //
    },
    layout::control::{
        LOG_CQES,
        LOG_WQES, //
    },
    post::Post,
    roster::Roster,
    Alarm, //
};
use crate::{
    cq::{
        Cq,
        Moderation, //
    },
    device::Device,
    eq::sink::CqHandler,
    mr::{
        Access,
        Mr, //
    },
    qp::{
        Qp,
        Service, //
    },
    record::Records, //
};

/// Completion vector.
const VECTOR: usize = 0;
/// Start of the MR.
const START: u64 = 1 << 20;

/// Objects of the current generation, in the order in which they go.
pub(super) struct Hardware {
    pub(super) qp: Qp,
    pub(super) cq: Cq,
    pub(super) mr: Mr,
    /// Who is told of the CQ's events. Makes a circle that ends with this value.
    control: Arc<Control>,
    pd: u32,
}

impl Hardware {
    /// Creates everything; the QP is in RESET. On failure nothing is left. Sleeps.
    fn create(
        control: &Arc<Control>,
        base: &Base,
        post: &super::post::Inner,
        rings: Rings,
        low: u8,
    ) -> Result<Self> {
        let cmd = &control.post.device.cmd;
        let mr = Mr::create(cmd, base.pd(), &post.buf, START, Access::LOCAL, low)?;
        let pd = base.pd().number();
        match Self::queues(control, pd, &post.records, rings) {
            Ok((qp, cq, _)) => Ok(Self {
                qp,
                cq,
                mr,
                control: control.clone(),
                pd,
            }),
            Err(error) => {
                // The memory lives as long as the control QP: nothing to keep here.
                let _ = mr.destroy(cmd);
                Err(error)
            }
        }
    }

    fn queues(control: &Arc<Control>, pd: u32, records: &Records, rings: Rings) -> Result<Queues> {
        let device = &control.post.device;
        let moderation = Moderation::default();
        let handler = control.clone();
        hardware::queues(device, VECTOR, handler, pd, records, rings, moderation)
    }

    /// New CQ and QP in place of ones that are of no use any more. On failure nothing is left.
    /// Sleeps.
    pub(super) fn renew(self, records: &Records) -> Result<Self> {
        let Self {
            qp,
            cq,
            mr,
            control,
            pd,
        } = self;
        let device = &control.post.device;
        hardware::destroy_queues(device, VECTOR, (qp, cq, None));
        let made = rings(device, control.post.qkey)
            .and_then(|rings| Self::queues(&control, pd, records, rings));
        match made {
            Ok((qp, cq, _)) => Ok(Self {
                qp,
                cq,
                mr,
                control,
                pd,
            }),
            Err(error) => {
                let _ = mr.destroy(&device.cmd);
                Err(error)
            }
        }
    }

    /// Takes everything away in order, as far as the device helps.
    fn destroy(self, device: &Device) {
        hardware::destroy_queues(device, VECTOR, (self.qp, self.cq, None));
        let _ = self.mr.destroy(&device.cmd);
    }
}

fn rings(device: &Device, qkey: u32) -> Result<Rings> {
    let node = device.comp_eq(VECTOR).ok_or(ENODEV)?.node;
    Rings::new(&device.pdev, node, LOG_CQES, LOG_WQES, Service::Ud { qkey })
}

/// The control QP and the task that runs it. Dropping it waits for the task.
pub(super) struct Control {
    task: Task<Work>,
    /// The working part.
    pub(super) post: Arc<Post>,
}

struct Work(Arc<Post>);

impl Job for Work {
    fn run(&self) -> Option<Delta> {
        self.0.work()
    }
}

impl CqHandler for Control {
    fn completion(&self) {
        self.post.events.fetch_add(1, Relaxed);
        self.task.schedule();
    }

    /// The roster hears of it, with the reason.
    fn error(&self) {}
}

impl Control {
    /// A control QP without hardware. Sleeps.
    pub(super) fn new(
        device: &Arc<Device>,
        queue: &Arc<Queue>,
        roster: &Arc<Roster>,
    ) -> Result<Arc<Self>> {
        let post = Post::new(device, roster)?;
        let task = task!(queue, "rmlx5-control", Work(post.clone()))?;
        Ok(Arc::new(Self { task, post }, GFP_KERNEL)?)
    }

    /// Makes the device know it, ready to send and receive. On failure nothing is left. Sleeps.
    pub(super) fn create(self: &Arc<Self>, base: &Base) -> Result {
        let post = &self.post;
        let mut guard = post.inner.lock();
        let inner = &mut *guard;
        if inner.hw.is_some() {
            return Ok(());
        }
        let rings = match inner.rings.take() {
            Some(rings) => rings,
            None => rings(&post.device, post.qkey)?,
        };
        inner.generations = inner.generations.wrapping_add(1);
        let hw = Hardware::create(self, base, inner, rings, inner.generations)?;
        let result = post.begin(inner, hw);
        drop(guard);
        match result {
            Ok(()) => self.task.schedule(),
            Err(_) => self.destroy(),
        }
        result
    }

    /// Takes it away from the device, which works or fails at once. Sleeps.
    pub(super) fn destroy(&self) {
        let hw = self.post.retire(&mut self.post.inner.lock());
        if let Some(hw) = hw {
            hw.destroy(&self.post.device);
        }
    }

    /// The generation is over. The device has been reset, or will be before the memory is used.
    pub(super) fn abandon(&self) {
        let mut guard = self.post.inner.lock();
        let hw = self.post.retire(&mut guard);
        if let Some(Hardware { qp, cq, .. }) = hw {
            let service = Service::Ud {
                qkey: self.post.qkey,
            };
            guard.rings = Some(Rings::of((qp, cq, None), service));
        }
    }

    /// Lets the task look what there is to do.
    pub(super) fn wake(&self) {
        self.task.schedule();
    }

    /// Cancels the task and waits for it. Sleeps.
    pub(super) fn quiesce(&self) {
        self.task.cancel();
    }

    /// An asynchronous event about a QP or CQ that no channel has. Hard interrupt context.
    pub(super) fn hear(&self, alarm: Alarm, number: u32) {
        if self.post.raise(alarm, number) {
            self.task.schedule();
        }
    }
}
