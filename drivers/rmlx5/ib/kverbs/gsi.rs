// SPDX-License-Identifier: GPL-2.0
//! The QP for management datagrams, QP 1, over the generations of its device.
//!
//! The core opens it when the RDMA device is registered, keeps receives posted, and never opens it again. So
//! it is made anew when the device has been reset, after its domain and its CQ: receives stay posted, sends
//! that were under way are flushed.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::rdma::{
    QpKind,
    QpNotifier, //
};
use mlx5_hw::{
    field,
    field::Mut,
    ifc, //
};

use super::{
    cq::Core,
    domain::Successor,
    make::REGISTER,
    queues::{
        Queues,
        Shape, //
    }, //
};
use crate::{
    doorbell::Doorbell,
    home::Home,
    ib::{
        events::{
            Events,
            QueueKind, //
        },
        qp::{
            modify::{
                datagram,
                LOG_ACK_FREQUENCY, //
            },
            NO_USER_INDEX, //
        },
    },
    qp::user::{
        Config,
        OwnMemory,
        QueueMemory,
        Transition,
        Transport,
        UserQp, //
    },
    record::Record, //
};

/// Q_Key of management datagrams. Source: `IB_QP1_QKEY` in include/rdma/ib_verbs.h.
const QKEY: u64 = 0x8001_0000;
/// The only port.
const PORT: u64 = 1;

/// What takes the place of the first QP.
struct Second {
    qp: Option<UserQp>,
    home: Home,
}

impl Drop for Second {
    fn drop(&mut self) {
        // What is of an earlier generation is gone already.
        if !self.home.is_current() {
            return;
        }
        if let Some(qp) = self.qp.take() {
            qp.destroy(self.home.cmd());
        }
    }
}

/// QP 1.
pub(super) struct Gsi {
    /// `None` in the generation that it was opened in.
    second: Option<Second>,
    domain: Arc<Successor>,
    queues: Arc<Queues>,
    core: Arc<Core>,
    memory: Arc<OwnMemory>,
    shape: Shape,
    notifier: Arc<QpNotifier>,
}

/// What every step carries.
fn common(qpc: &mut Mut<'_, ifc::qpc>) {
    let (mtu, log) = datagram(QpKind::Gsi).unwrap_or_default();
    qpc.set(field!(qpc, log_ack_req_freq), LOG_ACK_FREQUENCY)
        .set(field!(qpc, mtu), mtu)
        .set(field!(qpc, log_msg_max), log)
        .set(field!(qpc, primary_address_path.vhca_port_num), PORT);
}

impl Gsi {
    /// As the core has opened it.
    pub(super) fn new(
        domain: Arc<Successor>,
        queues: Arc<Queues>,
        core: Arc<Core>,
        memory: Arc<OwnMemory>,
        shape: Shape,
        notifier: Arc<QpNotifier>,
    ) -> Self {
        Self {
            second: None,
            domain,
            queues,
            core,
            memory,
            shape,
            notifier,
        }
    }

    /// Whether these are its queues.
    pub(super) fn is_of(&self, queues: &Arc<Queues>) -> bool {
        Arc::ptr_eq(&self.queues, queues)
    }

    /// Makes it anew on the generation `home`. Sleeps.
    pub(super) fn revive(&mut self, home: &Home, events: &Events) -> Result {
        let device = home.device();
        let cmd = home.cmd();
        let caps = device.caps()?;
        let uar = device.uar()?;
        let place = self.domain.place()?;
        let lkey = place.key.ok_or(EIO)?;
        let cqn = self.core.number_on(home)?;
        let mut second = Second {
            qp: None,
            home: home.clone(),
        };
        let config = Config {
            transport: Transport::Gsi,
            uar: uar.index(),
            pd: place.pd,
            cqns: (cqn, cqn),
            srqn: None,
            xrc: None,
            no_multicast_loopback: false,
            receive: self.shape.receive,
            send: self.shape.send,
            user_index: (caps.cqe_version != 0).then_some(NO_USER_INDEX),
        };
        self.memory.records.clear(Record::Qp)?;
        let qp = UserQp::create(cmd, config, QueueMemory::Own(self.memory.clone()))?;
        let qp = second.qp.insert(qp);
        let set = device.counter_set();
        qp.transit(cmd, Transition::RstToInit, 0, |qpc| {
            common(qpc);
            qpc.set(field!(qpc, q_key), QKEY)
                .set(field!(qpc, counter_set_id), set.into());
        })?;
        qp.transit(cmd, Transition::InitToRtr, 0, common)?;
        qp.transit(cmd, Transition::RtrToRts, 0, common)?;
        let number = qp.number();
        let doorbell = Doorbell::new(&uar, REGISTER, caps.log_bf_register)?;
        events.remember_qp(QueueKind::Qp, number, self.notifier.clone())?;
        let before = self.queues.key();
        let key = (home.generation(), number);
        // What is received at once finds its queue.
        self.core.add(key, &self.queues, (true, true))?;
        self.queues
            .renew(key, lkey, doorbell)
            .inspect_err(|_| self.core.remove(key))?;
        self.core.remove(before);
        self.second = Some(second);
        self.core.wake();
        Ok(())
    }
}
