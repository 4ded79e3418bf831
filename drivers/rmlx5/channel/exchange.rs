// SPDX-License-Identifier: GPL-2.0
//! Who the channels are connected to: another machine, by the endpoint lines of both sides, or each
//! other in pairs.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    control::Control,
    endpoint::Endpoint,
    set::{
        pair_up,
        Channels,
        Set, //
    },
    Channel,
    Core, //
};

impl Channels {
    /// The endpoints of all channels. Makes channels and control QP if need be. Sleeps.
    pub(crate) fn endpoints(&self) -> Result<KVec<Endpoint>> {
        let turn = self.turn();
        let mut set = self.provision(&turn)?;
        let control = self.control(&mut set)?;
        let mut endpoints = KVec::with_capacity(set.channels.len(), GFP_KERNEL)?;
        for channel in set.channels.iter() {
            let endpoint = Endpoint {
                control_qpn: control.post.qpn(),
                control_qkey: control.post.qkey,
                ..channel.core.endpoint().ok_or(ENODEV)?
            };
            endpoints.push(endpoint, GFP_KERNEL)?;
        }
        Ok(endpoints)
    }

    /// The control QP. Makes it if need be.
    fn control(&self, set: &mut Set) -> Result<Arc<Control>> {
        let control = match &set.control {
            Some(control) => control.clone(),
            None => {
                let control = Control::new(&self.device, &self.queue, &self.roster)?;
                self.roster.set_control(Some(control.clone()));
                set.control = Some(control.clone());
                control
            }
        };
        control.create(set.base.as_ref().ok_or(ENODEV)?)?;
        Ok(control)
    }

    /// Connects the channels to those of another machine: the first to the first line, and so on.
    ///
    /// `EINVAL` unless there is one line for each channel; `EBUSY` while a self-test runs on a
    /// connection that is in force. Sleeps.
    pub(crate) fn connect(&self, peers: KVec<Endpoint>) -> Result {
        let turn = self.turn();
        may_change(&self.set.lock())?;
        let mut set = self.provision(&turn)?;
        if peers.len() != set.channels.len() {
            dev_err!(
                self.device.pdev,
                "peer: {} lines for {} channels\n",
                peers.len(),
                set.channels.len()
            );
            return Err(EINVAL);
        }
        let control = self.control(&mut set)?;
        for (channel, peer) in set.channels.iter().zip(peers.iter()) {
            channel.core.connect(peer, &control.post)?;
        }
        set.peer = true;
        Ok(())
    }

    /// Connects the channels in loopback pairs again. `EINVAL` for an odd number of channels, `EBUSY`
    /// as for [`Channels::connect`]: a run that waits for a lost peer goes on in pairs. Sleeps.
    pub(crate) fn loopback(&self) -> Result {
        let turn = self.turn();
        {
            let mut set = self.set.lock();
            may_change(&set)?;
            if set.wanted % 2 != 0 {
                return Err(EINVAL);
            }
            self.must_be_up()?;
            set.peer = false;
        }
        let set = self.provision(&turn)?;
        pair_up(&set.channels, 0)
    }
}

/// `EBUSY` while a self-test runs on a connection that is in force.
fn may_change(set: &Set) -> Result {
    let running = set.run.as_ref().is_some_and(|run| run.is_active());
    let in_force = |channel: &Arc<Channel>| channel.core.is_in_force();
    if running && set.channels.iter().any(in_force) {
        return Err(EBUSY);
    }
    Ok(())
}

impl Core {
    /// Whether there is a connection that is not broken.
    fn is_in_force(&self) -> bool {
        let inner = self.inner.lock();
        inner.connection.is_some() && inner.broken.is_none()
    }
}
