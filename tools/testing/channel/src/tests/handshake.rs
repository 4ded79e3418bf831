// SPDX-License-Identifier: GPL-2.0
//! The reconnect handshake over a line that loses, doubles and reorders.

use crate::channel::{
    backoff::{Backoff, LIMIT, LONGEST_MS},
    handshake::{Actions, Handshake, Message, Stage},
};
use proptest::prelude::*;

/// One end with the PSNs that a real one programs.
struct End {
    machine: Handshake,
    psn: u32,
    /// PSN that this end expects from the other.
    expects: Option<u32>,
    can_receive: bool,
    can_send: bool,
    next_psn: u32,
}

impl End {
    fn new(first_psn: u32, other: u32) -> Self {
        Self {
            machine: Handshake::connected(),
            psn: first_psn,
            expects: Some(other),
            can_receive: true,
            can_send: true,
            next_psn: first_psn,
        }
    }

    fn apply(&mut self, actions: Actions, peer_psn: Option<u32>) -> Option<(Message, u32)> {
        if actions.reset {
            self.next_psn += 1;
            self.psn = self.next_psn;
            (self.can_receive, self.can_send, self.expects) = (false, false, None);
        }
        if actions.to_rtr {
            assert!(!self.can_receive, "RTR only from INIT");
            self.expects = Some(peer_psn.expect("the PSN comes with the message"));
            self.can_receive = true;
        }
        if actions.to_rts {
            assert!(self.can_receive && !self.can_send, "RTS only from RTR");
            self.can_send = true;
        }
        actions.send.map(|message| (message, self.psn))
    }

    fn fail(&mut self) -> Option<(Message, u32)> {
        let actions = self.machine.restart();
        self.apply(actions, None)
    }

    fn hear(&mut self, (message, psn): (Message, u32)) -> Option<(Message, u32)> {
        let actions = self.machine.receive(message);
        self.apply(actions, Some(psn))
    }

    fn remind(&self) -> Option<(Message, u32)> {
        self.machine.remind().map(|message| (message, self.psn))
    }

    fn is_up(&self) -> bool {
        self.machine.stage() == Stage::Up && self.can_send
    }
}

fn settle(a: &mut End, b: &mut End) {
    for _ in 0..20 {
        if a.is_up() && b.is_up() {
            break;
        }
        let mut to_b = a.remind();
        let mut to_a = b.remind();
        for _ in 0..8 {
            let (from_a, from_b) = (
                to_a.take().and_then(|m| a.hear(m)),
                to_b.take().and_then(|m| b.hear(m)),
            );
            (to_b, to_a) = (from_a, from_b);
        }
    }
    assert!(a.is_up() && b.is_up());
    assert_eq!(a.machine.epoch(), b.machine.epoch());
    assert_eq!((a.expects, b.expects), (Some(b.psn), Some(a.psn)));
}

#[test]
fn three_messages_bring_both_ends_up() {
    let (mut a, mut b) = (End::new(100, 200), End::new(200, 100));
    let request = a.fail().unwrap();
    let reply = b.hear(request).unwrap();
    let ready = a.hear(reply).unwrap();
    assert!(a.is_up());
    assert_eq!(b.hear(ready), None);
    settle(&mut a, &mut b);
}

#[test]
fn both_ends_may_start_at_once() {
    let (mut a, mut b) = (End::new(100, 200), End::new(200, 100));
    let (from_a, from_b) = (a.fail().unwrap(), b.fail().unwrap());
    let (reply_b, reply_a) = (b.hear(from_a).unwrap(), a.hear(from_b).unwrap());
    a.hear(reply_b);
    b.hear(reply_a);
    settle(&mut a, &mut b);
}

#[test]
fn an_old_request_does_not_break_a_new_connection() {
    let (mut a, mut b) = (End::new(100, 200), End::new(200, 100));
    let old = a.fail().unwrap();
    b.hear(old);
    settle(&mut a, &mut b);
    b.fail();
    settle(&mut a, &mut b);
    let psn = b.psn;
    assert_eq!(b.hear(old), None);
    assert!(b.is_up() && b.psn == psn);
}

#[test]
fn epochs_wrap() {
    let (mut a, mut b) = (End::new(0, 0), End::new(0, 0));
    for _ in 0..1000 {
        a.fail();
        settle(&mut a, &mut b);
    }
    assert_eq!(a.machine.epoch(), 1000);
}

proptest! {
    /// A line that drops, doubles and reorders, with failures in between: once it is quiet, the
    /// ends come up and agree.
    #[test]
    fn any_line_settles(steps in proptest::collection::vec((0u8..8, any::<prop::sample::Index>()), 0..200)) {
        let (mut a, mut b) = (End::new(1000, 1_000_000), End::new(1_000_000, 1000));
        let (mut to_a, mut to_b): (Vec<_>, Vec<_>) = (vec![], vec![]);
        for (step, pick) in steps {
            match step {
                0 => to_b.extend(a.fail()),
                1 => to_a.extend(b.fail()),
                2 => to_b.extend(a.remind()),
                3 => to_a.extend(b.remind()),
                4 if !to_b.is_empty() => { let m = to_b.swap_remove(pick.index(to_b.len())); to_a.extend(b.hear(m)); }
                5 if !to_a.is_empty() => { let m = to_a.swap_remove(pick.index(to_a.len())); to_b.extend(a.hear(m)); }
                6 if !to_b.is_empty() => { let m = to_b[pick.index(to_b.len())]; to_a.extend(b.hear(m)); }
                7 => { to_a.pop(); }
                _ => {}
            }
        }
        settle(&mut a, &mut b);
    }
}

#[test]
fn backoff_doubles_up_to_its_bound_and_gives_up() {
    let mut backoff = Backoff::new();
    let delays: Vec<u32> = std::iter::from_fn(|| backoff.next()).collect();
    assert_eq!(delays.len(), LIMIT as usize);
    assert_eq!(&delays[..4], [1, 2, 4, 8]);
    assert_eq!(delays.last(), Some(&LONGEST_MS));
    backoff.succeeded();
    assert_eq!((backoff.attempts(), backoff.next()), (0, Some(1)));
}
