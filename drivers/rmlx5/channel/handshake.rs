// SPDX-License-Identifier: GPL-2.0
//! How the two ends of a broken RC connection come back together.
//!
//! Both ends go RESET -> INIT -> RTR -> RTS with fresh PSNs. An end that finds its QP in ERROR
//! starts a new epoch and says so; the other end follows. Every message may be lost or doubled,
//! and both ends may start at once:
//!
//! ```text
//!   broken end                        other end
//!   epoch+1, INIT
//!        ---- Request{epoch, psn} ---->
//!                                     RESET, INIT, RTR
//!        <--- Reply{epoch, psn} -------
//!   RTR, RTS
//!        ---- Ready{epoch} ----------->
//!                                     RTS
//! ```
//!
//! Epochs may differ by more than one: an end that was connected anew by a person begins at 0. An
//! end that gets a request or a reply of the past says how far it is (Ahead), and the other end starts
//! over beyond that. Messages of the past do nothing else, so late and doubled ones do no harm.
//!
//! This file decides only; the owner of the QP carries the steps out and carries the messages: for
//! a loopback pair by a function call, to a peer through the control QP.

/// What an end says to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// I start over; here is my PSN.
    Request,
    /// I can receive; here is my PSN.
    Reply,
    /// I can send.
    Ready,
    /// Your request or reply is of the past; I am in this epoch.
    Ahead,
}

/// A message without its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// What is said.
    pub(crate) kind: Kind,
    /// Which life of the connection is meant.
    pub(crate) epoch: u32,
}

/// Where an end is in the current epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// QP in INIT: the other end's PSN is not known.
    Waiting,
    /// QP in RTR: it is not known whether the other end can receive.
    Receiving,
    /// QP in RTS.
    Up,
}

/// What the owner of the QP does, in this order: the QP steps, then the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    /// RESET and INIT with a fresh PSN.
    pub(crate) reset: bool,
    /// INIT to RTR, towards the endpoint that came with the message.
    pub(crate) to_rtr: bool,
    /// RTR to RTS.
    pub(crate) to_rts: bool,
    /// What to say to the other end.
    pub(crate) send: Option<Message>,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    epoch: u32,
    stage: Stage,
}

impl Handshake {
    /// A connection that both ends set up by other means.
    pub(crate) const fn connected() -> Self {
        Self {
            epoch: 0,
            stage: Stage::Up,
        }
    }

    /// Where this end is.
    #[cfg_attr(MODULE, expect(dead_code, reason = "tests ask"))]
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Which life of the connection this is.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The QP of this end is in ERROR: start over.
    pub(crate) fn restart(&mut self) -> Actions {
        self.epoch = self.epoch.wrapping_add(1);
        self.stage = Stage::Waiting;
        Actions {
            reset: true,
            send: self.say(Kind::Request),
            ..Actions::default()
        }
    }

    /// Nothing came for a while: say it again. Nothing to say when the connection is up.
    pub(crate) fn remind(&self) -> Option<Message> {
        match self.stage {
            Stage::Waiting => self.say(Kind::Request),
            Stage::Receiving => self.say(Kind::Reply),
            Stage::Up => None,
        }
    }

    /// The other end said something. `known` says whether the endpoint that came with it is the
    /// one that this end's QP was last connected to.
    pub(crate) fn receive(&mut self, message: Message, known: bool) -> Actions {
        let mut actions = Actions::default();
        if is_newer(message.epoch, self.epoch) {
            self.epoch = message.epoch;
            // Only a request starts a life. Anything else says that the other end is further than
            // this one, which was connected anew meanwhile.
            if message.kind != Kind::Request {
                return self.restart();
            }
            self.stage = Stage::Receiving;
            actions.reset = true;
            actions.to_rtr = true;
            actions.send = self.say(Kind::Reply);
            return actions;
        }
        if message.epoch != self.epoch {
            // Whoever says these waits for this end, and would wait for ever.
            if matches!(message.kind, Kind::Request | Kind::Reply) {
                actions.send = self.say(Kind::Ahead);
            }
            return actions;
        }
        match (self.stage, message.kind) {
            // Both ends started at once: each takes the other's request for its PSN.
            (Stage::Waiting, Kind::Request) => {
                self.stage = Stage::Receiving;
                actions.to_rtr = true;
                actions.send = self.say(Kind::Reply);
            }
            (Stage::Waiting, Kind::Reply) => {
                self.stage = Stage::Up;
                actions.to_rtr = true;
                actions.to_rts = true;
                actions.send = self.say(Kind::Ready);
            }
            // The other end cannot be sending to one that has not told its PSN.
            (Stage::Waiting, Kind::Ready) => {}
            // The same epoch with another QP or PSN: the other end was connected anew and counts
            // from the beginning.
            (Stage::Receiving | Stage::Up, Kind::Request | Kind::Reply) if !known => {
                return self.restart();
            }
            (Stage::Receiving, Kind::Reply) => {
                self.stage = Stage::Up;
                actions.to_rts = true;
                actions.send = self.say(Kind::Ready);
            }
            (Stage::Receiving, Kind::Ready) => {
                self.stage = Stage::Up;
                actions.to_rts = true;
            }
            // The answer was lost.
            (Stage::Receiving | Stage::Up, Kind::Request) => actions.send = self.say(Kind::Reply),
            (Stage::Up, Kind::Reply) => actions.send = self.say(Kind::Ready),
            (Stage::Up, Kind::Ready) | (_, Kind::Ahead) => {}
        }
        actions
    }

    fn say(&self, kind: Kind) -> Option<Message> {
        Some(Message {
            kind,
            epoch: self.epoch,
        })
    }
}

/// Whether `a` comes after `b`, across the wrap.
fn is_newer(a: u32, b: u32) -> bool {
    let ahead = a.wrapping_sub(b);
    ahead != 0 && ahead < 1 << 31
}
