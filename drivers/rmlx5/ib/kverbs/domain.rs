// SPDX-License-Identifier: GPL-2.0
//! Protection domains of the kernel over the generations of their device.
//!
//! A domain of the kernel comes with a key of all memory, and its user may keep both as long as there is an
//! RDMA device. So each has a successor on every later generation: a domain and a key there. What was made
//! from it before stays void, what is made from it afterwards is of the successor. Its user goes on posting
//! the key that it knows; queues put that of the successor in its place.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

use crate::{
    home::Home,
    realm::Realm, //
};

/// Where a domain is on the device.
pub(in crate::ib) struct Place {
    /// In which generation.
    pub(in crate::ib) home: Home,
    /// Its number there.
    pub(in crate::ib) pd: u32,
    /// Key of all memory there, when it is another than the domain's user knows.
    pub(in crate::ib) key: Option<u32>,
}

/// What stands for a domain of the kernel in generations after its own.
#[pin_data]
pub(in crate::ib) struct Successor {
    /// `None` before the first one, and at the end.
    #[pin]
    second: Mutex<Option<Realm>>,
}

impl Successor {
    /// Not needed yet.
    pub(in crate::ib) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                second <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes the successor on the generation `home`. Sleeps.
    pub(super) fn renew(&self, home: &Home) -> Result {
        let second = Realm::new(home)?;
        let before = self.second.lock().replace(second);
        drop(before);
        Ok(())
    }

    /// The domain goes, and everything that was made from it is gone. Sleeps.
    pub(super) fn end(&self) {
        let before = self.second.lock().take();
        drop(before);
    }

    /// Where it is. `EIO` when it is nowhere. Sleeps for a lock.
    pub(in crate::ib) fn place(&self) -> Result<Place> {
        let guard = self.second.lock();
        let second = guard.as_ref().ok_or(EIO)?;
        second.home().alive()?;
        Ok(Place {
            home: second.home().clone(),
            pd: second.pd(),
            key: Some(second.lkey()),
        })
    }
}
