// SPDX-License-Identifier: GPL-2.0
//! When a device generation ends, and when the next one begins.
//!
//! At the end everybody who waits for a completion is woken, and finds what was posted flushed. At the
//! begin the kernel's domains, its CQs and the QP for management datagrams are made anew on the device: the
//! core lends the same CQs to one user after the other, users keep domains, and that QP is opened once and
//! never again, all of it as long as the RDMA device is registered.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

use super::{
    cq::Core,
    domain::Successor,
    gsi::Gsi,
    queues::Queues, //
};
use crate::{
    device::Device,
    home::Home,
    ib::events::Events, //
};

struct State {
    /// The device does not know what was made before.
    over: bool,
    domains: KVec<Arc<Successor>>,
    cqs: KVec<Arc<Core>>,
    gsi: Option<Gsi>,
}

impl State {
    /// `EIO` for something of the generation `home` that was made while that ended.
    fn check(&self, home: &Home) -> Result {
        if self.over {
            return Err(EIO);
        }
        home.alive()
    }
}

/// What the kernel has on a card beyond a generation.
#[pin_data]
pub(in crate::ib) struct Lives {
    /// Lock order: before those of a domain and of a CQ.
    #[pin]
    state: Mutex<State>,
}

fn take_away<T>(list: &mut KVec<Arc<T>>, one: &Arc<T>) {
    let at = list.iter().position(|other| Arc::ptr_eq(other, one));
    if let Some(at) = at {
        let _ = list.remove(at);
    }
}

impl Lives {
    /// Of a card that is up.
    pub(in crate::ib) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State {
                    over: false,
                    domains: KVec::new(),
                    cqs: KVec::new(),
                    gsi: None,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// A domain was made in the generation `home`. `EIO` when that has ended meanwhile. Sleeps.
    pub(in crate::ib) fn add_domain(&self, home: &Home, domain: Arc<Successor>) -> Result {
        let mut state = self.state.lock();
        state.check(home)?;
        Ok(state.domains.push(domain, GFP_KERNEL)?)
    }

    /// A domain goes, or is to have no successor. Sleeps.
    pub(in crate::ib) fn remove_domain(&self, domain: &Arc<Successor>) {
        take_away(&mut self.state.lock().domains, domain);
        domain.end();
    }

    /// A CQ was made in the generation `home`. `EIO` when that has ended meanwhile. Sleeps.
    pub(super) fn add(&self, home: &Home, cq: Arc<Core>) -> Result {
        let mut state = self.state.lock();
        state.check(home)?;
        Ok(state.cqs.push(cq, GFP_KERNEL)?)
    }

    /// A CQ goes. Sleeps.
    pub(in crate::ib) fn remove(&self, cq: &Arc<Core>) {
        take_away(&mut self.state.lock().cqs, cq);
    }

    /// The QP for management datagrams is there. Sleeps.
    pub(super) fn set_gsi(&self, gsi: Gsi) {
        let before = self.state.lock().gsi.replace(gsi);
        drop(before);
    }

    /// The QP of these queues goes. Sleeps.
    pub(in crate::ib) fn drop_gsi(&self, queues: &Arc<Queues>) {
        let gsi = {
            let mut state = self.state.lock();
            state.gsi.take_if(|gsi| gsi.is_of(queues))
        };
        drop(gsi);
    }

    /// The generation is over. Wakes whoever waits for completions. Sleeps for locks only.
    pub(in crate::ib) fn end(&self) {
        let mut state = self.state.lock();
        state.over = true;
        for cq in &state.cqs {
            cq.end();
            cq.wake();
        }
    }

    /// A new generation begins. What cannot be made anew stays void until the next one, and is told in a
    /// line. Sleeps.
    pub(in crate::ib) fn begin(&self, device: &Arc<Device>, events: &Events) {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.over) {
            return;
        }
        let home = Home::now(device);
        let mut failed = 0u32;
        let mut last = Ok(());
        let mut note = |result: Result| {
            if result.is_err() {
                failed = failed.saturating_add(1);
                last = result;
            }
        };
        for domain in &state.domains {
            note(domain.renew(&home));
        }
        for cq in &state.cqs {
            note(cq.renew(&home));
            // Whoever waits asks again: the old request went with the old CQ.
            cq.wake();
        }
        if let Err(error) = last {
            dev_err!(
                device.pdev,
                "{} domains and CQs of the kernel do not come back, error {}\n",
                failed,
                error.to_errno()
            );
        }
        let Some(gsi) = &mut state.gsi else {
            return;
        };
        if let Err(error) = gsi.revive(&home, events) {
            dev_err!(
                device.pdev,
                "QP 1 does not come back, error {}: rdma_cm does not work\n",
                error.to_errno()
            );
        }
    }
}
