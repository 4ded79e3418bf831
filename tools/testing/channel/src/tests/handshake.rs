// SPDX-License-Identifier: GPL-2.0
//! The reconnect handshake over a line that loses, doubles and reorders.

use crate::channel::{
    backoff::{Backoff, LIMIT, LONGEST_MS},
    handshake::{Actions, Handshake, Kind, Message, Stage},
};
use proptest::prelude::*;

/// A message and the endpoint that comes with it; a PSN stands for the whole endpoint.
type Said = (Message, u32);

/// One end with the PSNs that a real one programs.
struct End {
    machine: Handshake,
    psn: u32,
    /// PSN that this end expects from the other.
    expects: Option<u32>,
    can_receive: bool,
    can_send: bool,
    next_psn: u32,
    resets: u32,
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
            resets: 0,
        }
    }

    fn apply(&mut self, actions: Actions, peer_psn: Option<u32>) -> Option<Said> {
        if actions.reset {
            self.resets += 1;
            self.next_psn += 1;
            self.psn = self.next_psn;
            (self.can_receive, self.can_send) = (false, false);
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

    fn fail(&mut self) -> Option<Said> {
        let actions = self.machine.restart();
        self.apply(actions, None)
    }

    /// A person connects this end by the other one's line, and nobody tells the other one.
    fn connect_anew(&mut self, other: &Self) {
        self.machine = Handshake::connected();
        self.next_psn += 1;
        self.psn = self.next_psn;
        self.expects = Some(other.psn);
        (self.can_receive, self.can_send) = (true, true);
    }

    fn hear(&mut self, (message, psn): Said) -> Option<Said> {
        let actions = self.machine.receive(message, self.expects == Some(psn));
        self.apply(actions, Some(psn))
    }

    fn remind(&self) -> Option<Said> {
        self.machine.remind().map(|message| (message, self.psn))
    }

    fn is_up(&self) -> bool {
        self.machine.stage() == Stage::Up && self.can_send
    }
}

fn agree(a: &End, b: &End) -> bool {
    a.is_up() && b.is_up() && (a.expects, b.expects) == (Some(b.psn), Some(a.psn))
}

/// From here on nothing gets lost; who waits says it again, and traffic that the other end does not
/// take breaks the connection of whoever sends it.
fn settle(a: &mut End, b: &mut End) {
    for round in 0..20 {
        if agree(a, b) {
            break;
        }
        let (mut to_b, mut to_a) = (a.remind(), b.remind());
        if to_a.is_none() && to_b.is_none() {
            match round % 2 {
                0 => to_b = a.fail(),
                _ => to_a = b.fail(),
            }
        }
        for _ in 0..8 {
            let (from_a, from_b) = (
                to_a.take().and_then(|m| a.hear(m)),
                to_b.take().and_then(|m| b.hear(m)),
            );
            (to_b, to_a) = (from_a, from_b);
        }
    }
    assert!(agree(a, b));
    assert_eq!(a.machine.epoch(), b.machine.epoch());
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
    // What is said to it does not break the other end either.
    let ahead = b.hear(old).unwrap();
    assert_eq!((ahead.0.kind, ahead.0.epoch), (Kind::Ahead, 2));
    assert_eq!(a.hear(ahead), None);
    assert!(agree(&a, &b) && b.psn == psn);
}

#[test]
fn an_end_that_was_connected_anew_catches_up() {
    let (mut a, mut b) = (End::new(100, 200), End::new(200, 100));
    for _ in 0..5 {
        a.fail();
        settle(&mut a, &mut b);
    }
    a.connect_anew(&b);
    let resets = (a.resets, b.resets);
    let request = a.fail().unwrap();
    let ahead = b.hear(request).unwrap();
    let request = a.hear(ahead).unwrap();
    assert_eq!(request.0.epoch, 6);
    let reply = b.hear(request).unwrap();
    let ready = a.hear(reply).unwrap();
    b.hear(ready);
    assert!(agree(&a, &b));
    assert_eq!((a.resets, b.resets), (resets.0 + 2, resets.1 + 1));
}

/// A request of the past reaches an end that was connected anew: it answers, and waits for an end that is further.
#[test]
fn an_end_that_follows_the_past_is_told_so() {
    let (mut a, mut b) = (End::new(100, 200), End::new(200, 100));
    let old = a.fail().unwrap();
    let request = a.fail().unwrap();
    let reply = b.hear(request).unwrap();
    a.hear(reply);
    b.connect_anew(&a);
    let reply = b.hear(old).unwrap();
    assert_eq!((reply.0.kind, reply.0.epoch), (Kind::Reply, 1));
    let ahead = a.hear(reply).unwrap();
    assert_eq!((ahead.0.kind, ahead.0.epoch), (Kind::Ahead, 2));
    let request = b.hear(ahead).unwrap();
    assert_eq!((request.0.kind, request.0.epoch), (Kind::Request, 3));
    a.hear(request);
    settle(&mut a, &mut b);
}

#[test]
fn the_same_epoch_with_another_endpoint_starts_over() {
    let (mut a, mut b) = (End::new(100, 200), End::new(200, 100));
    a.fail();
    settle(&mut a, &mut b);
    a.connect_anew(&b);
    let request = a.fail().unwrap();
    assert_eq!(request.0.epoch, b.machine.epoch());
    let request = b.hear(request).unwrap();
    assert_eq!((request.0.kind, request.0.epoch), (Kind::Request, 2));
    a.hear(request);
    settle(&mut a, &mut b);
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
    /// A line that drops, doubles and reorders, with failures and new lines of one side in between:
    /// once it is quiet, the ends come up and agree.
    #[test]
    fn any_line_settles(steps in proptest::collection::vec((0u8..10, any::<prop::sample::Index>()), 0..200)) {
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
                8 if pick.index(4) == 0 => a.connect_anew(&b),
                9 if pick.index(4) == 0 => b.connect_anew(&a),
                _ => {}
            }
        }
        settle(&mut a, &mut b);
    }

    /// Without failures nothing that was ever said, in any order, breaks a connection that is up.
    #[test]
    fn what_was_said_breaks_nothing(order in proptest::collection::vec(any::<prop::sample::Index>(), 0..100)) {
        let (mut a, mut b) = (End::new(1000, 1_000_000), End::new(1_000_000, 1000));
        let (mut to_a, mut to_b) = (vec![], vec![]);
        for life in 0..4 {
            let mut said = if life % 2 == 0 { a.fail() } else { b.fail() };
            let mut at_b = life % 2 == 0;
            while let Some(message) = said {
                let (end, log) = if at_b { (&mut b, &mut to_b) } else { (&mut a, &mut to_a) };
                log.push(message);
                said = end.hear(message);
                at_b = !at_b;
            }
        }
        let resets = (a.resets, b.resets);
        for pick in order {
            let answer = a.hear(to_a[pick.index(to_a.len())]);
            answer.and_then(|m| b.hear(m)).and_then(|m| a.hear(m));
            let answer = b.hear(to_b[pick.index(to_b.len())]);
            answer.and_then(|m| a.hear(m)).and_then(|m| b.hear(m));
        }
        prop_assert!(agree(&a, &b));
        prop_assert_eq!((a.resets, b.resets), resets);
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
