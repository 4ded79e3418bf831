// SPDX-License-Identifier: GPL-2.0
//! A protection domain with a key for all memory: what queues of the driver, and of the kernel, work in.

use kernel::prelude::*;

use crate::{
    home::Home,
    mr::{
        Access,
        Mr, //
    },
    pd::Pd, //
};

/// Both, of one generation. In the order in which they go.
pub(crate) struct Realm {
    key: Option<Mr>,
    pd: Option<Pd>,
    home: Home,
}

impl Realm {
    /// Makes them; the key is for the device's own accesses only. Sleeps.
    pub(crate) fn new(home: &Home) -> Result<Self> {
        let cmd = home.cmd();
        let mut realm = Self {
            key: None,
            pd: None,
            home: home.clone(),
        };
        // From here on an error gives back what there is.
        let pd = realm.pd.insert(Pd::alloc(cmd)?).number();
        realm.key = Some(Mr::create_all(cmd, pd, Access::LOCAL)?);
        Ok(realm)
    }

    /// Number of the protection domain.
    pub(crate) fn pd(&self) -> u32 {
        self.pd.as_ref().map_or(0, Pd::number)
    }

    /// Key under which bus addresses are memory.
    pub(crate) fn lkey(&self) -> u32 {
        self.key.as_ref().map_or(0, Mr::key)
    }

    /// The generation that they belong to.
    pub(crate) fn home(&self) -> &Home {
        &self.home
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        // What is of an earlier generation is gone already.
        if !self.home.is_current() {
            return;
        }
        let cmd = self.home.cmd();
        // Its memory is everybody's: an answer is not needed.
        if let Some(key) = self.key.take() {
            let _ = key.destroy(cmd);
        }
        if let Some(pd) = self.pd.take() {
            pd.dealloc(cmd);
        }
    }
}
