// SPDX-License-Identifier: GPL-2.0
//! When a device generation ends, and when the next one begins.
//!
//! At the end everybody who waits for a completion is woken, and finds what was posted flushed. At the
//! begin the QP for management datagrams is made anew on the device: the core opens it once and never
//! again.

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
    gsi::Gsi,
    queues::Queues, //
};
use crate::{
    device::Device,
    ib::events::Events, //
};

struct State {
    /// The device does not know what was made before.
    over: bool,
    cqs: KVec<Arc<Core>>,
    gsi: Option<Gsi>,
}

/// The kernel's CQs of a card.
#[pin_data]
pub(in crate::ib) struct Lives {
    /// Lock order: before that of a CQ.
    #[pin]
    state: Mutex<State>,
}

impl Lives {
    /// Of a card that is up.
    pub(in crate::ib) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                state <- new_mutex!(State {
                    over: false,
                    cqs: KVec::new(),
                    gsi: None,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// A CQ is there. Sleeps.
    pub(super) fn add(&self, cq: Arc<Core>) -> Result {
        let mut state = self.state.lock();
        if state.over {
            cq.end();
        }
        Ok(state.cqs.push(cq, GFP_KERNEL)?)
    }

    /// A CQ goes. Sleeps.
    pub(in crate::ib) fn remove(&self, cq: &Arc<Core>) {
        let mut state = self.state.lock();
        let at = state.cqs.iter().position(|other| Arc::ptr_eq(other, cq));
        if let Some(at) = at {
            let _ = state.cqs.remove(at);
        }
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

    /// A new generation begins. Objects of the old one stay as they are, but for the QP for management
    /// datagrams. Sleeps.
    pub(in crate::ib) fn begin(&self, device: &Arc<Device>, events: &Events) {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.over) {
            return;
        }
        let Some(gsi) = &mut state.gsi else {
            return;
        };
        if let Err(error) = gsi.revive(device, events) {
            dev_err!(
                device.pdev,
                "QP 1 does not come back, error {}: rdma_cm does not work\n",
                error.to_errno()
            );
        }
    }
}
