// SPDX-License-Identifier: GPL-2.0
//! Answers page requests of the firmware outside interrupt context.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::workqueue::{
    task,
    Job,
    Queue,
    Task, //
};

use crate::pages::Wake;

/// Who answers page requests.
pub(crate) trait Supplier: Send + Sync {
    /// Answers what has come. May sleep.
    fn answer_pages(&self);
}

/// The supplier to wake, between [`Worker::open`] and [`Worker::close`].
type Supply = Mutex<Option<Arc<dyn Supplier>>>;

struct Pager(Pin<KBox<Supply>>);

impl Job for Pager {
    fn run(&self) -> Option<Delta> {
        let device = self.0.lock().clone();
        if let Some(device) = device {
            device.answer_pages();
        }
        None
    }
}

/// Wakes and stops the pager.
pub(crate) struct Worker {
    task: Task<Pager>,
}

impl Worker {
    /// Allocates the worker; it does nothing yet.
    pub(crate) fn new(queue: &Arc<Queue>) -> Result<Arc<Self>> {
        let pager = Pager(KBox::pin_init(new_mutex!(None), GFP_KERNEL)?);
        let task = task!(queue, "rmlx5_pages", pager)?;
        Ok(Arc::new(Self { task }, GFP_KERNEL)?)
    }

    /// Requests are answered from now on.
    pub(crate) fn open(&self, device: Arc<dyn Supplier>) {
        let old = self.task.job().0.lock().replace(device);
        drop(old);
        // One may have come before.
        self.task.schedule();
    }

    /// No request is answered any more; none is being answered when this returns. A command under
    /// way ends within its bound, at once when the generation is over. Sleeps.
    pub(crate) fn close(&self) {
        let old = self.task.job().0.lock().take();
        self.task.cancel();
        drop(old);
    }
}

impl Wake for Worker {
    fn wake(&self) {
        self.task.schedule();
    }
}
