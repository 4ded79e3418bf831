// SPDX-License-Identifier: GPL-2.0
//! Connections: the state transitions of both ends, and who tells whom.
//!
//! Between the channels of a loopback pair the messages of the handshake are function calls; no two
//! channels are ever locked at a time. Those to another machine are letters, see [`super::peer`].

use kernel::{
    prelude::*,
    sync::{
        atomic::ordering::Relaxed,
        Arc, //
    }, //
};

use super::{
    endpoint::Endpoint,
    flow::Link,
    handshake::{
        Actions,
        Handshake,
        Message, //
    },
    hardware::Hardware,
    pattern::Stream,
    Alarm,
    Core,
    Inner, //
};
use crate::{
    qp::Path,
    wq::Remote, //
};

/// Messages that a loopback pair may exchange in one go; three are enough.
const MESSAGES: u32 = 8;
/// READs and atomics under way on a connection, log2, where the device allows them.
const LOG_DEPTH: u8 = 4;

/// Who is at the other end.
#[derive(Clone)]
pub(super) enum Other {
    /// A channel of this machine.
    Pair(Arc<Core>),
    /// A channel of another machine.
    Peer,
}

/// One end of a connection.
pub(super) struct Connection {
    other: Other,
    /// The end that the QP was last connected to.
    remote: Option<Endpoint>,
}

impl Connection {
    /// Nothing is known of the other end yet.
    pub(super) fn new(other: Other) -> Self {
        Self {
            other,
            remote: None,
        }
    }

    /// Whether the QP was last connected to that end.
    pub(super) fn is_with(&self, end: &Endpoint) -> bool {
        self.remote
            .as_ref()
            .is_some_and(|remote| remote.is_same_life(end))
    }
}

/// What goes to the other end.
type Said = (Message, Endpoint);

impl Inner {
    /// Number of the QP, 0 without.
    pub(super) fn qpn(&self) -> u32 {
        self.hw.as_ref().map_or(0, |hw| hw.qp.number())
    }

    /// The connection is no more. What was posted is reported to the flow; the QP is not touched.
    pub(super) fn disconnect(&mut self) {
        self.flow.disconnected();
        self.lose_posted();
        self.connection = None;
        self.broken = None;
        self.stop_asking();
    }

    fn lose_posted(&mut self) {
        // In the order of posting, oldest first.
        let (tail, used) = match &self.hw {
            Some(hw) => (hw.qp.sq().tail(), hw.qp.sq().used()),
            None => return,
        };
        for step in 0..used {
            let slot = match &self.hw {
                Some(hw) => hw.qp.sq().slot(tail.plus(step)),
                None => return,
            };
            if let Some(posted) = self.posted.get_mut(slot).and_then(Option::take) {
                self.flow.lost(posted.ticket);
            }
        }
    }

    /// This end of the connection with first PSN `psn`.
    pub(super) fn endpoint(&self, index: u32, psn: u32) -> Option<Endpoint> {
        let hw = self.hw.as_ref()?;
        Some(Endpoint {
            channel: index,
            qpn: hw.qp.number(),
            psn,
            gid: hw.identity.gid(),
            mac: hw.identity.mac,
            mtu: hw.identity.path_mtu(),
            rkey: hw.shared.key(),
            addr: hw.shared.start(),
            control_qpn: 0,
            control_qkey: 0,
        })
    }
}

impl Core {
    /// Shows what async events name this channel by.
    pub(super) fn publish_numbers(&self, hw: Option<&Hardware>) {
        self.qpn.store(hw.map_or(0, |hw| hw.qp.number()), Relaxed);
        self.cqn.store(hw.map_or(0, |hw| hw.cq.number()), Relaxed);
    }

    /// What a peer needs to connect. `None` without hardware.
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        let inner = self.inner.lock();
        inner.endpoint(self.index, inner.next_psn)
    }

    /// Ties two channels of this machine together and connects them. Sleeps.
    pub(super) fn pair(a: &Arc<Self>, b: &Arc<Self>) -> Result {
        for (this, other) in [(a, b), (b, a)] {
            let mut inner = this.inner.lock();
            inner.disconnect();
            inner.peer = None;
            inner.handshake = Handshake::connected();
            inner.steps.given_up = false;
            inner.connection = Some(Connection::new(Other::Pair(other.clone())));
        }
        a.reconnect()
    }

    /// Starts over with the other end. Sleeps.
    pub(super) fn reconnect(&self) -> Result {
        let (said, other) = {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            let Some(connection) = &inner.connection else {
                inner.broken = None;
                return Ok(());
            };
            let other = connection.other.clone();
            if let Other::Peer = other {
                if inner.has_way_to_peer() {
                    return self.ask_peer(inner);
                }
                let psn = inner.next_psn;
                self.reset(inner, psn)?;
                inner.connection = None;
                inner.broken = None;
                dev_info!(
                    self.device.pdev,
                    "channel {}: waits for the peer's new endpoint\n",
                    self.index
                );
                return Ok(());
            }
            let actions = inner.handshake.restart();
            (self.apply(inner, actions, None)?, other)
        };
        let Other::Pair(other) = other else {
            return Ok(());
        };
        let mut next = said;
        for _ in 0..MESSAGES {
            let Some(said) = next else { break };
            let Some(answer) = other.hear(said)? else {
                break;
            };
            next = self.hear(answer)?;
        }
        self.wake();
        other.wake();
        Ok(())
    }

    /// The other end said something; what this end answers. Sleeps.
    fn hear(&self, (message, endpoint): Said) -> Result<Option<Said>> {
        let mut guard = self.inner.lock();
        let known = guard
            .connection
            .as_ref()
            .is_some_and(|connection| connection.is_with(&endpoint));
        let actions = guard.handshake.receive(message, known);
        self.apply(&mut guard, actions, Some(&endpoint))
    }

    /// Carries out what the handshake wants; what this end says then. Sleeps.
    pub(super) fn apply(
        &self,
        inner: &mut Inner,
        actions: Actions,
        remote: Option<&Endpoint>,
    ) -> Result<Option<Said>> {
        if actions.reset {
            let psn = self.fresh_psn(inner);
            self.reset(inner, psn)?;
        }
        if actions.to_rtr {
            self.receive_from(inner, remote.ok_or(EINVAL)?)?;
        }
        if actions.to_rts {
            self.send_to(inner)?;
        }
        let endpoint = inner.endpoint(self.index, inner.psn).ok_or(ENODEV)?;
        Ok(actions.send.map(|message| (message, endpoint)))
    }

    /// RESET and INIT. What was finished before counts; the rest is lost.
    pub(super) fn reset(&self, inner: &mut Inner, psn: u32) -> Result {
        inner.steps.resets = inner.steps.resets.wrapping_add(1);
        self.mend_cq(inner)?;
        self.drain(inner);
        let cmd = &self.device.cmd;
        let hw = inner.hw.as_mut().ok_or(ENODEV)?;
        hw.qp.reset(cmd)?;
        // What events said so far was about the QP before.
        for raised in self.alarms.iter().skip(Alarm::QpCatastrophic as usize) {
            raised.store(0, Relaxed);
        }
        // The device writes no more completions of this QP; those that are there count.
        self.drain(inner);
        inner.flow.disconnected();
        inner.lose_posted();
        let hw = inner.hw.as_mut().ok_or(ENODEV)?;
        hw.qp.restart(cmd, &inner.area.records)?;
        inner.psn = psn;
        // What the drain found out about the old connection is settled. Time goes on counting.
        self.post(inner);
        Ok(())
    }

    /// RTR, towards `remote`.
    pub(super) fn receive_from(&self, inner: &mut Inner, remote: &Endpoint) -> Result {
        let path = self.path(inner, remote)?;
        let caps = self.device.caps()?;
        let hw = inner.hw.as_mut().ok_or(ENODEV)?;
        hw.qp.receive_from(&self.device.cmd, &path)?;
        let link = Link {
            lkey: hw.local.key(),
            base: hw.local.start(),
            remote: Remote {
                addr: remote.addr,
                rkey: remote.rkey,
            },
            sending: Stream::new(hw.qp.number(), inner.psn),
            receiving: Stream::new(remote.qpn, remote.psn),
            atomic: caps.atomic && caps.atomic_host_order,
        };
        inner.flow.connected(link);
        if let Some(connection) = &mut inner.connection {
            connection.remote = Some(*remote);
        }
        Ok(())
    }

    /// RTS, towards the end that [`Core::receive_from`] was told.
    pub(super) fn send_to(&self, inner: &mut Inner) -> Result {
        let remote = inner
            .connection
            .as_ref()
            .and_then(|connection| connection.remote)
            .ok_or(EINVAL)?;
        let path = self.path(inner, &remote)?;
        let hw = inner.hw.as_mut().ok_or(ENODEV)?;
        hw.qp.send_to(&self.device.cmd, &path)?;
        if inner.is_peer_lost() {
            dev_info!(
                self.device.pdev,
                "channel {}: QP {:#x}: the peer is back\n",
                self.index,
                inner.qpn()
            );
        }
        inner.stop_asking();
        if inner.mended() {
            self.device.counters.qps_recovered.inc();
        }
        Ok(())
    }

    fn path(&self, inner: &Inner, remote: &Endpoint) -> Result<Path> {
        let hw = inner.hw.as_ref().ok_or(ENODEV)?;
        let caps = self.device.caps()?;
        let mtu = hw.identity.path_mtu().min(remote.mtu);
        let ports = u32::from(caps.roce_source_port_max)
            .saturating_sub(caps.roce_source_port_min.into())
            .saturating_add(1);
        // Any port serves; a connection keeps its own, so that switches keep its packets in order.
        let port = u32::from(caps.roce_source_port_min).wrapping_add(
            (hw.qp.number() ^ remote.qpn)
                .wrapping_mul(31)
                .checked_rem(ports)
                .unwrap_or(0),
        );
        Ok(Path {
            remote_qpn: remote.qpn,
            send_psn: inner.psn,
            receive_psn: remote.psn,
            gid: remote.gid,
            mac: remote.mac,
            source_index: caps.own_address(),
            // CAST: not above the maximum, which has 16 bits.
            source_port: port as u16,
            // CAST: 256 to 4096 give 1 to 5.
            mtu_code: mtu.checked_ilog2().ok_or(EINVAL)?.saturating_sub(7).min(5) as u8,
            log_message: caps.log_max_message,
            log_initiator_depth: caps.log_max_initiator_depth.min(LOG_DEPTH),
            log_responder_depth: caps.log_max_responder_depth.min(LOG_DEPTH),
        })
    }

    /// A CQ that overran, or could not be written, is of no use: makes a new one, with a new QP.
    fn mend_cq(&self, inner: &mut Inner) -> Result {
        if !inner.broken.as_ref().is_some_and(|broken| broken.is_cq()) {
            return Ok(());
        }
        inner.mute = false;
        inner.flow.disconnected();
        inner.lose_posted();
        self.publish_numbers(None);
        let hw = inner.hw.take().ok_or(ENODEV)?;
        let hw = hw.renew(self, &inner.area, inner.moderation, inner.log_cqes)?;
        self.publish_numbers(Some(&hw));
        inner.hw = Some(hw);
        Ok(())
    }

    /// Lets the task of this channel look what there is to do.
    pub(super) fn wake(&self) {
        let channel = self.inner.lock().hw.as_ref().map(|hw| hw.channel.clone());
        if let Some(channel) = channel {
            channel.wake();
        }
    }
}
