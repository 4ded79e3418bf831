// SPDX-License-Identifier: GPL-2.0
//! A connection to a channel of another machine, and what brings it back: letters through the
//! control QP.
//!
//! The first connection is made from endpoint lines that a person or a program carries. After an
//! error either end asks for a new one; an end that hears nothing says it again, and when it has
//! heard nothing for long enough it counts the peer as lost and waits: asks now and then, and at
//! once when the port comes up. The same happens after a reset of either card.

use kernel::{
    prelude::*,
    sync::Arc,
    time::Delta, //
};
use kernel_ext::time::now_ns;

use super::{
    connect::{
        Connection,
        Other, //
    },
    endpoint::Endpoint,
    handshake::{
        Handshake,
        Message, //
    },
    letter::{
        BadLetter,
        Letter,
        Mail,
        Mailbox, //
    },
    patience::Patience,
    post::Post,
    recover::Cause,
    Core,
    Inner, //
};

/// Letters read in one go; a mailbox holds no more.
const LETTERS: u32 = 4;
/// Lines about letters that are ignored, of one channel.
const BAD_LINES: u64 = 2;

/// The other machine's end.
pub(super) struct Peer {
    /// What it said last, or what the line said.
    endpoint: Endpoint,
    /// The way to it.
    post: Arc<Post>,
    /// Waits for its answer.
    patience: Option<Patience>,
}

impl Inner {
    /// Whether a letter to the peer has no answer yet.
    pub(super) fn is_asking(&self) -> bool {
        self.peer
            .as_ref()
            .is_some_and(|peer| peer.patience.is_some())
    }

    /// Whether the peer is lost.
    pub(super) fn is_peer_lost(&self) -> bool {
        let patience = self.peer.as_ref().and_then(|peer| peer.patience);
        patience.is_some_and(|patience| patience.is_lost())
    }

    /// Whether the peer can be asked for a new connection.
    pub(super) fn has_way_to_peer(&self) -> bool {
        self.peer
            .as_ref()
            .is_some_and(|peer| peer.endpoint.control_qpn != 0)
    }

    /// Nothing more is expected of the peer.
    pub(super) fn stop_asking(&mut self) {
        if let Some(peer) = &mut self.peer {
            peer.patience = None;
        }
    }

    fn start_asking(&mut self) {
        if let Some(peer) = &mut self.peer {
            peer.patience = Some(Patience::new(now_ns()));
        }
    }
}

impl Core {
    /// Connects to a channel of another machine, which does the same. Sleeps.
    pub(super) fn connect(&self, remote: &Endpoint, post: &Arc<Post>) -> Result {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        // Letters of an earlier connection.
        *self.mail.lock() = Mailbox::default();
        let psn = inner.next_psn;
        inner.next_psn = self.fresh_psn(inner);
        inner.connection = Some(Connection::new(Other::Peer));
        inner.peer = Some(Peer {
            endpoint: *remote,
            post: post.clone(),
            patience: None,
        });
        inner.steps.given_up = false;
        self.reset(inner, psn)?;
        self.receive_from(inner, remote)?;
        self.send_to(inner)?;
        inner.handshake = Handshake::connected();
        drop(guard);
        self.wake();
        Ok(())
    }

    /// The card is back from a reset: asks the peer for a new connection, if there was one. Sleeps
    /// for locks only.
    pub(super) fn rejoin(&self) {
        let mut inner = self.inner.lock();
        if inner.has_way_to_peer() {
            inner.connection = Some(Connection::new(Other::Peer));
            inner.steps.given_up = false;
            inner.break_up(Cause::Reset);
        }
    }

    /// Starts over and tells the peer. Sleeps.
    pub(super) fn ask_peer(&self, inner: &mut Inner) -> Result {
        let actions = inner.handshake.restart();
        let said = self.apply(inner, actions, None)?;
        inner.start_asking();
        self.say(inner, said);
        Ok(())
    }

    /// Says it again when it is due. Says when to look again.
    pub(super) fn await_peer(&self, inner: &mut Inner) -> Option<Delta> {
        let now = now_ns();
        let nudged = self.was_nudged();
        let patience = inner.peer.as_mut()?.patience.as_mut()?;
        if patience.left(now) == 0 || nudged {
            let lost = patience.say(now);
            if lost {
                inner.steps.lost = inner.steps.lost.wrapping_add(1);
                dev_warn!(
                    self.device.pdev,
                    "channel {}: QP {:#x}: the peer does not answer, waiting for it\n",
                    self.index,
                    inner.qpn()
                );
            }
            let said = inner
                .handshake
                .remind()
                .zip(inner.endpoint(self.index, inner.psn));
            self.say(inner, said);
        }
        let patience = inner.peer.as_ref()?.patience.as_ref()?;
        // CAST: a delay of at most a few seconds.
        Some(Delta::from_nanos(patience.left(now).max(1) as i64))
    }

    /// Reads what the peer said. Sleeps.
    pub(super) fn read_mail(&self, inner: &mut Inner) {
        for _ in 0..LETTERS {
            let Some(mail) = self.mail.lock().take() else {
                return;
            };
            if let Err(bad) = self.hear_from_peer(inner, &mail) {
                inner.steps.ignored = inner.steps.ignored.wrapping_add(1);
                if inner.steps.ignored <= BAD_LINES {
                    dev_warn!(
                        self.device.pdev,
                        "channel {}: letter ignored: {}\n",
                        self.index,
                        format_args!("{bad}")
                    );
                }
            }
        }
    }

    fn hear_from_peer(&self, inner: &mut Inner, mail: &Mail) -> Result<(), BadLetter> {
        let (Some(peer), Some(connection)) = (&mut inner.peer, &inner.connection) else {
            return Err(BadLetter::Source("sender"));
        };
        mail.is_from(&peer.endpoint)?;
        let letter = &mail.letter;
        let from = Endpoint {
            control_qkey: peer.endpoint.control_qkey,
            ..letter.from
        };
        let actions = inner
            .handshake
            .receive(letter.message, connection.is_with(&from));
        if actions.reset || actions.to_rtr {
            peer.endpoint = from;
        }
        if actions.reset {
            inner.break_up(Cause::Peer);
            inner.follow();
            inner.start_asking();
        }
        match self.apply(inner, actions, Some(&from)) {
            Ok(said) => self.say_to(inner, said, &from),
            Err(error) => {
                // The next attempt is one of this end.
                inner.stop_asking();
                inner.fail_to_follow(error);
            }
        }
        Ok(())
    }

    fn say(&self, inner: &Inner, said: Option<(Message, Endpoint)>) {
        if let Some(peer) = &inner.peer {
            self.say_to(inner, said, &peer.endpoint);
        }
    }

    fn say_to(&self, inner: &Inner, said: Option<(Message, Endpoint)>, to: &Endpoint) {
        let (Some(peer), Some((message, from))) = (&inner.peer, said) else {
            return;
        };
        let letter = Letter {
            to: to.channel,
            message,
            from,
        };
        peer.post.send(&letter, to);
    }
}
