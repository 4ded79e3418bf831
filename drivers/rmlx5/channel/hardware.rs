// SPDX-License-Identifier: GPL-2.0
//! What the device knows of a channel in one generation: two MRs, a CQ and a QP.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::{
    numa::Node,
    pci::BoundDevice, //
};

use super::{
    layout,
    memory::Area,
    Channel,
    Core,
    Inner, //
};
use crate::{
    cmd::Cmd,
    cq::{
        Cq,
        CqRing,
        Moderation, //
    },
    device::Device,
    doorbell::Doorbell,
    eq::sink::CqHandler,
    mr::{
        Access,
        Mr, //
    },
    pd::Pd,
    port::{
        Identity,
        Own,
        Port, //
    },
    qp::{
        Qp,
        QpConfig,
        QpRing,
        Service, //
    },
    record::Records,
    uar::{
        Mapping,
        Uar, //
    }, //
};

/// What the channels of one generation share.
pub(crate) struct Base {
    pd: Pd,
    port: Port,
}

impl Base {
    /// Allocates the protection domain and programs the driver's address. Sleeps.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let cmd = &device.cmd;
        let pd = Pd::alloc(cmd)?;
        match own(device).and_then(|own| Port::bring_up(cmd, own)) {
            Ok(port) => Ok(Self { pd, port }),
            Err(error) => {
                pd.dealloc(cmd);
                Err(error)
            }
        }
    }

    /// Who the card is.
    pub(crate) fn identity(&self) -> &Identity {
        self.port.identity()
    }

    /// The protection domain.
    pub(super) fn pd(&self) -> &Pd {
        &self.pd
    }

    /// Gives everything back, as far as the device helps.
    pub(crate) fn close(self, device: &Device) {
        if let Ok(own) = own(device) {
            self.port.shut_down(&device.cmd, own);
        }
        self.pd.dealloc(&device.cmd);
    }
}

fn own(device: &Device) -> Result<Own<'_>> {
    Ok(Own {
        roce: &device.roce,
        generation: device.cmd.generation(),
        index: device.caps()?.own_address(),
    })
}

/// What a CQ and the queues of its QP are made of.
pub(super) struct Rings {
    cq: CqRing,
    qp: QpRing,
    /// The QP gets a page of its own where BlueFlame works.
    blue_flame: bool,
    /// Mapped page of an earlier generation.
    uar: Option<Arc<Uar>>,
}

/// QP, CQ and the page the QP has for itself.
pub(super) type Queues = (Qp, Cq, Option<Arc<Uar>>);

impl Rings {
    /// A CQ of `1 << log_cqes` entries, queues of `1 << log_wqes`. Sleeps.
    pub(super) fn new(
        pdev: &BoundDevice,
        node: Node,
        log_cqes: u8,
        log_wqes: u8,
        service: Service,
    ) -> Result<Self> {
        let dev = pdev.device();
        Ok(Self {
            cq: CqRing::new(dev, node, log_cqes)?,
            qp: QpRing::new(dev, node, log_wqes, service)?,
            blue_flame: service == Service::Rc,
            uar: None,
        })
    }

    /// Queues of a channel, and a CQ of `1 << log_cqes` entries. Sleeps.
    pub(super) fn of_channel(pdev: &BoundDevice, node: Node, log_cqes: u8) -> Result<Self> {
        Self::new(pdev, node, log_cqes, layout::LOG_WQES, Service::Rc)
    }

    /// What is left of objects whose device generation is over.
    pub(super) fn of((qp, cq, uar): Queues, service: Service) -> Self {
        Self {
            cq: cq.into_ring(),
            qp: qp.into_ring(),
            blue_flame: service == Service::Rc,
            uar,
        }
    }

    /// Replaces the memory of the CQ.
    pub(super) fn set_cq(&mut self, cq: CqRing) {
        self.cq = cq;
    }
}

/// Objects of the current generation, in the order in which they go.
pub(super) struct Hardware {
    pub(super) qp: Qp,
    pub(super) cq: Cq,
    /// Page of its own, for BlueFlame; without, the QP rings through the page of the device.
    uar: Option<Arc<Uar>>,
    pub(super) local: Mr,
    pub(super) shared: Mr,
    pub(super) identity: Identity,
    /// Who is told of the CQ's events. Makes a circle that ends with this value.
    pub(super) channel: Arc<Channel>,
    pd: u32,
}

/// Distance between the shared MRs of two channels, and of the first one from 0: an address that
/// belongs to another channel, or to none, is refused by the device.
const SHARED_SPAN: u64 = 1 << 32;
/// Start of the local MR.
const LOCAL_START: u64 = 1 << 20;

impl Hardware {
    /// Creates everything. On failure everything is as before; memory that the device may still
    /// use is not freed. `ENOMEM` when the HCA has no more of something. Sleeps.
    fn create(
        channel: &Arc<Channel>,
        base: &Base,
        area: &Area,
        rings: Rings,
        moderation: Moderation,
        low: u8,
    ) -> Result<Self> {
        let device = &channel.core.device;
        let cmd = &device.cmd;
        let (local, shared) = Self::keys(cmd, &base.pd, area, channel.core.index, low)?;
        let pd = base.pd.number();
        let vector = channel.core.vector;
        let records = &area.records;
        match queues(
            device,
            vector,
            channel.clone(),
            pd,
            records,
            rings,
            moderation,
        ) {
            Ok((qp, cq, uar)) => Ok(Self {
                qp,
                cq,
                uar,
                local,
                shared,
                identity: *base.identity(),
                channel: channel.clone(),
                pd,
            }),
            Err(error) => {
                // The memory of an area lives as long as its channel: nothing to keep here.
                let _ = shared.destroy(cmd);
                let _ = local.destroy(cmd);
                Err(error)
            }
        }
    }

    fn keys(cmd: &Cmd, pd: &Pd, area: &Area, index: u32, low: u8) -> Result<(Mr, Mr)> {
        let start = SHARED_SPAN.wrapping_mul(u64::from(index).wrapping_add(1));
        let local = Mr::create(cmd, pd, &area.local, LOCAL_START, Access::LOCAL, low)?;
        match Mr::create(cmd, pd, &area.shared, start, Access::REMOTE, low) {
            Ok(shared) => Ok((local, shared)),
            Err(error) => {
                let _ = local.destroy(cmd);
                Err(error.into())
            }
        }
    }

    /// New CQ and QP in place of ones that are of no use any more. Sleeps.
    pub(super) fn renew(
        self,
        core: &Core,
        area: &Area,
        moderation: Moderation,
        log_cqes: u8,
    ) -> Result<Self> {
        let device = &core.device;
        let node = device.comp_eq(core.vector).ok_or(ENODEV)?.node;
        let rings = Rings::of_channel(&device.pdev, node, log_cqes)?;
        let Self {
            qp,
            cq,
            uar,
            local,
            shared,
            identity,
            channel,
            pd,
        } = self;
        destroy_queues(device, core.vector, (qp, cq, uar));
        let records = &area.records;
        let handler = channel.clone();
        let (qp, cq, uar) = queues(device, core.vector, handler, pd, records, rings, moderation)?;
        Ok(Self {
            qp,
            cq,
            uar,
            local,
            shared,
            identity,
            channel,
            pd,
        })
    }

    /// Takes everything away in order, as far as the device helps.
    fn destroy(self, device: &Device, vector: usize) {
        destroy_queues(device, vector, (self.qp, self.cq, self.uar));
        let _ = self.shared.destroy(&device.cmd);
        let _ = self.local.destroy(&device.cmd);
    }

    /// The generation is over: the device knows nothing of it any more.
    fn abandon(self) -> Rings {
        Rings::of((self.qp, self.cq, self.uar), Service::Rc)
    }
}

/// Creates CQ and QP on a completion vector; `handler` is told of the CQ's events. The QP is in
/// RESET. On failure nothing is left. Sleeps.
pub(super) fn queues(
    device: &Device,
    vector: usize,
    handler: Arc<dyn CqHandler>,
    pd: u32,
    records: &Records,
    rings: Rings,
    moderation: Moderation,
) -> Result<Queues> {
    let cmd = &device.cmd;
    let eq = device.comp_eq(vector).ok_or(ENODEV)?;
    let eqn = eq.eq.number().ok_or(ENODEV)?;
    let uar = device.uar()?;
    let caps = device.caps()?;
    let cq = Cq::create(cmd, &uar, eqn, records, rings.cq, moderation)?;
    if let Err(error) = eq.subscribe(cq.number(), handler) {
        cq.destroy(cmd);
        return Err(error);
    }
    let own = match rings.blue_flame {
        true => own_page(device, rings.uar),
        false => None,
    };
    let page = own.as_ref().unwrap_or(&uar);
    let made = Doorbell::new(page, 0, caps.log_bf_register).and_then(|doorbell| {
        let config = QpConfig {
            doorbell,
            pd,
            cqn: cq.number(),
            cqe_version: caps.cqe_version,
            counter_set: device.counter_set(),
        };
        Ok(Qp::create(cmd, config, records, rings.qp)?)
    });
    match made {
        Ok(qp) => Ok((qp, cq, own)),
        Err(error) => {
            if let Some(own) = own {
                own.dealloc(cmd);
            }
            drop(eq.unsubscribe(cq.number()));
            cq.destroy(cmd);
            Err(error)
        }
    }
}

/// A page for BlueFlame where it works. Without one the doorbells are plain.
fn own_page(device: &Device, previous: Option<Arc<Uar>>) -> Option<Arc<Uar>> {
    if !device.blue_flame() {
        return None;
    }
    Uar::alloc(&device.cmd, &device.bar, Mapping::WriteCombining, previous).ok()
}

/// Takes QP and CQ away, as far as the device helps. Sleeps.
pub(super) fn destroy_queues(device: &Device, vector: usize, (qp, cq, uar): Queues) {
    qp.destroy(&device.cmd);
    if let Some(uar) = uar {
        uar.dealloc(&device.cmd);
    }
    if let Some(eq) = device.comp_eq(vector) {
        drop(eq.unsubscribe(cq.number()));
    }
    cq.destroy(&device.cmd);
}

impl Channel {
    /// Makes the device know the channel; the QP is in RESET. Sleeps.
    pub(super) fn create(self: &Arc<Self>, base: &Base) -> Result {
        let mut guard = self.core.inner.lock();
        let inner = &mut *guard;
        if inner.hw.is_some() {
            return Ok(());
        }
        let rings = match inner.rings.take() {
            Some(rings) => rings,
            None => {
                let eq = self.core.device.comp_eq(self.core.vector).ok_or(ENODEV)?;
                Rings::of_channel(&self.core.device.pdev, eq.node, inner.log_cqes)?
            }
        };
        inner.nonce = inner.nonce.wrapping_add(1);
        // CAST: eight bits of it are the point: a key of an earlier generation is not valid.
        let low = inner.nonce as u8;
        let hw = Hardware::create(self, base, &inner.area, rings, inner.moderation, low)?;
        self.core.publish_numbers(Some(&hw));
        inner.hw = Some(hw);
        Ok(())
    }

    /// Takes the channel away from the device, which works or fails at once. Sleeps.
    pub(super) fn destroy(&self) {
        let hw = {
            let mut inner = self.core.inner.lock();
            self.core.publish_numbers(None);
            inner.disconnect();
            inner.hw.take()
        };
        if let Some(hw) = hw {
            hw.destroy(&self.core.device, self.core.vector);
        }
    }

    /// The generation is over. The device has been reset, or will be before the memory is used.
    pub(super) fn abandon(&self) {
        let mut guard = self.core.inner.lock();
        let inner: &mut Inner = &mut guard;
        self.core.publish_numbers(None);
        inner.disconnect();
        if let Some(hw) = inner.hw.take() {
            inner.rings = Some(hw.abandon());
        }
    }
}
