// SPDX-License-Identifier: GPL-2.0
//! Takes doorbell pages of a generation that is over out of the address spaces of users.
//!
//! A page has a number that the next generation gives to somebody else, so nobody new may ring
//! before that is done. It waits for locks of address spaces, which has no bound: not in a callback
//! of the PCI core, but in work of its own. Who opens a context waits for that.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::{
    rdma::Registration,
    workqueue::{
        task,
        Job,
        Kind,
        Queue,
        Task, //
    }, //
};

use super::Verbs;

/// The registered device, between [`Revoker::open`] and [`Revoker::close`].
type Slot = Mutex<Option<Arc<Registration<Verbs>>>>;

struct Work(Pin<KBox<Slot>>);

impl Job for Work {
    fn run(&self) -> Option<Delta> {
        let registration = self.0.lock().clone();
        if let Some(registration) = registration {
            registration.revoke_mappings();
        }
        None
    }
}

/// Revokes mappings, and owns the registered device meanwhile.
pub(super) struct Revoker {
    task: Task<Work>,
}

impl Revoker {
    /// Nothing is registered yet.
    pub(super) fn new() -> Result<Arc<Self>> {
        let queue = Queue::new(c"rmlx5_ib", Kind::Ordered)?;
        let work = Work(KBox::pin_init(new_mutex!(None), GFP_KERNEL)?);
        let task = task!(&queue, "rmlx5_revoke", work)?;
        Ok(Arc::new(Self { task }, GFP_KERNEL)?)
    }

    /// Takes the registered device.
    pub(super) fn open(&self, registration: Arc<Registration<Verbs>>) {
        let old = self.task.job().0.lock().replace(registration);
        drop(old);
    }

    /// The registered device.
    pub(super) fn registration(&self) -> Option<Arc<Registration<Verbs>>> {
        self.task.job().0.lock().clone()
    }

    /// Pages that are mapped now go soon.
    pub(super) fn schedule(&self) {
        self.task.schedule();
    }

    /// Waits until those are gone that were mapped when it was scheduled last. Sleeps, not under the
    /// lock of an address space.
    pub(super) fn wait(&self) {
        self.task.flush();
    }

    /// Gives the registered device back: nothing is revoked any more. Sleeps.
    pub(super) fn close(&self) -> Option<Arc<Registration<Verbs>>> {
        let registration = self.task.job().0.lock().take();
        self.task.cancel();
        registration
    }
}
