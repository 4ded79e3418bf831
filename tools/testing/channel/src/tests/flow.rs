// SPDX-License-Identifier: GPL-2.0
//! Two flows against each other over an RC connection in memory that can break and can corrupt.

use crate::{
    channel::{
        fault::Fault,
        flow::{Flow, Link, Memory},
        layout,
        op::{Op, Ticket},
        options::Options,
        pattern::{Key, Mismatch, Stream},
    },
    wq::{Remote, Request},
};
use std::{cell::RefCell, collections::VecDeque};

struct Ram(RefCell<Vec<u8>>);

impl Ram {
    fn new(bytes: u32) -> Self {
        Self(RefCell::new(vec![0; bytes as usize]))
    }

    fn read(&self, at: u64, len: u32) -> Vec<u8> {
        self.0.borrow()[at as usize..at as usize + len as usize].to_vec()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.0.borrow_mut()[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }
}

impl Memory for Ram {
    fn fill(&self, at: u32, key: Key, len: u32) {
        key.fill(
            0,
            &mut self.0.borrow_mut()[at as usize..(at + len) as usize],
        );
    }

    fn spoil(&self, at: u32, key: Key, len: u32) {
        self.fill(at, key, len);
        self.0.borrow_mut()[at as usize..(at + len) as usize]
            .iter_mut()
            .for_each(|byte| *byte = !*byte);
    }

    fn check(&self, at: u32, key: Key, len: u32) -> Result<(), Mismatch> {
        key.check(0, &self.read(at.into(), len))
    }

    fn load64(&self, at: u32) -> u64 {
        u64::from_le_bytes(self.read(at.into(), 8).try_into().unwrap())
    }

    fn store64(&self, at: u32, value: u64) {
        self.write(at.into(), &value.to_le_bytes());
    }
}

struct End {
    flow: Flow,
    local: Ram,
    shared: Ram,
    posted: VecDeque<(Request, Ticket)>,
    receive: u32,
}

/// What the device does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Defect {
    None,
    WritesNothing,
    ReadsNothing,
    AddsTwice,
    ForgetsImmediate,
    SwapsMessages,
}

struct Pair {
    ends: [End; 2],
    psn: u32,
    defect: Defect,
    faults: Vec<Fault>,
}

impl Pair {
    fn new(options: &str, defect: Defect) -> Self {
        let end = |identity| End {
            flow: Flow::new(identity),
            local: Ram::new(layout::LOCAL_BYTES),
            shared: Ram::new(layout::SHARED_BYTES),
            posted: VecDeque::new(),
            receive: 0,
        };
        let mut pair = Self {
            ends: [end(0), end(1)],
            psn: 0,
            defect,
            faults: vec![],
        };
        let options = Options::parse(options).unwrap();
        pair.ends.iter_mut().for_each(|end| end.flow.start(options));
        pair.connect();
        pair
    }

    fn connect(&mut self) {
        self.psn += 2;
        for (n, end) in self.ends.iter_mut().enumerate() {
            let stream = |n: usize| Stream::new(n as u32, self.psn + n as u32);
            end.receive = 0;
            end.flow.connected(Link {
                lkey: 1,
                base: 0,
                remote: Remote { addr: 0, rkey: 2 },
                sending: stream(n),
                receiving: stream(1 - n),
                atomic: true,
            });
        }
    }

    fn break_connection(&mut self) {
        for end in &mut self.ends {
            end.flow.disconnected();
            while let Some((_, ticket)) = end.posted.pop_front() {
                end.flow.lost(ticket);
            }
        }
    }

    /// Executes up to `budget` WQEs; says whether anything was left to do.
    fn run(&mut self, budget: usize) -> bool {
        for _ in 0..budget {
            let mut idle = true;
            for n in 0..2 {
                let (left, right) = self.ends.split_at_mut(1);
                let (me, other) = if n == 0 {
                    (&mut left[0], &mut right[0])
                } else {
                    (&mut right[0], &mut left[0])
                };
                while let Some(next) = me.flow.next(&me.local) {
                    assert!(me.posted.len() < layout::WQES as usize);
                    me.posted.push_back(next);
                }
                let Some((request, ticket)) = me.posted.pop_front() else {
                    continue;
                };
                idle = false;
                if ticket == Ticket::BadKey {
                    self.break_connection();
                    self.connect();
                    break;
                }
                let fault = execute(me, other, request, self.defect);
                self.faults.extend(fault);
                self.faults
                    .extend(me.flow.completed(ticket, 100, &me.local).err());
            }
            if idle {
                return false;
            }
        }
        true
    }

    fn finish(&mut self) {
        while self.run(1000) {}
        for end in &self.ends {
            assert!(end.flow.is_done());
        }
    }
}

fn execute(me: &mut End, other: &mut End, request: Request, defect: Defect) -> Option<Fault> {
    let local = *request.local();
    match request {
        Request::Write { remote, .. } => {
            if defect != Defect::WritesNothing {
                other
                    .shared
                    .write(remote.addr, &me.local.read(local.addr, local.len));
            }
            None
        }
        Request::Read { remote, .. } => {
            if defect != Defect::ReadsNothing {
                me.local
                    .write(local.addr, &other.shared.read(remote.addr, local.len));
            }
            None
        }
        Request::FetchAdd { remote, add, .. } => {
            let at = remote.addr as u32;
            let old = other.shared.load64(at);
            let times = if defect == Defect::AddsTwice { 2 } else { 1 };
            other
                .shared
                .store64(at, old.wrapping_add(add.wrapping_mul(times)));
            me.local.store64(local.addr as u32, old);
            None
        }
        Request::Send { .. } => deliver(other, &me.local.read(local.addr, local.len), None, defect),
        Request::SendImm { imm, .. } => {
            let imm = if defect == Defect::ForgetsImmediate {
                0
            } else {
                imm
            };
            deliver(
                other,
                &me.local.read(local.addr, local.len),
                Some(imm),
                defect,
            )
        }
    }
}

fn deliver(other: &mut End, bytes: &[u8], imm: Option<u32>, defect: Defect) -> Option<Fault> {
    let slot = other.receive % layout::WQES;
    other.receive += 1;
    let at = layout::RECEIVE + slot * layout::RECV_BYTES;
    let shown = if defect == Defect::SwapsMessages {
        slot ^ 1
    } else {
        slot
    };
    other.local.write(at.into(), bytes);
    other
        .flow
        .received(shown, bytes.len() as u32, imm, &other.local)
        .err()
}

#[test]
fn a_run_does_every_operation_and_checks_every_byte() {
    let mut pair = Pair::new("rounds=50 sizes=1,8,200,4096,65536", Defect::None);
    pair.finish();
    assert_eq!(pair.faults, []);
    for end in &pair.ends {
        let tally = &end.flow.tally;
        for op in Op::ALL {
            assert_eq!(tally.of(op).ops, 250, "{op:?}");
        }
        let written = 50 * (1 + 8 + 200 + 4096 + 65536);
        let sent = 50 * (1 + 8 + 200 + 4096 + 4096);
        assert_eq!(
            (tally.of(Op::Write).bytes, tally.of(Op::Send).bytes),
            (written, sent)
        );
        assert_eq!((tally.messages, tally.immediates), (500, 250));
        assert_eq!(tally.verified, written + 2 * sent + 250 * 8);
        assert_eq!(
            (tally.faults, tally.reposted, tally.indeterminate),
            (0, 0, 0)
        );
    }
}

#[test]
fn every_defect_of_the_device_is_found() {
    for defect in [
        Defect::WritesNothing,
        Defect::ReadsNothing,
        Defect::AddsTwice,
        Defect::ForgetsImmediate,
        Defect::SwapsMessages,
    ] {
        let mut pair = Pair::new("rounds=4 sizes=64,512", defect);
        pair.finish();
        assert!(!pair.faults.is_empty());
        assert!(pair.ends[0].flow.tally.faults > 0);
    }
}

#[test]
fn a_thousand_broken_connections_lose_nothing_that_can_be_repeated() {
    let mut pair = Pair::new("rounds=3000 sizes=8,4096", Defect::None);
    for n in 0..1000 {
        pair.run(1 + n % 7);
        pair.break_connection();
        pair.connect();
    }
    pair.finish();
    assert_eq!(pair.faults, []);
    for end in &pair.ends {
        let tally = &end.flow.tally;
        assert_eq!(
            (tally.of(Op::Write).ops, tally.of(Op::Read).ops),
            (6000, 6000)
        );
        let others: u64 = [Op::Send, Op::SendImm, Op::FetchAdd]
            .iter()
            .map(|op| tally.of(*op).ops)
            .sum();
        assert_eq!(others + tally.indeterminate, 18000);
        assert!(tally.indeterminate > 0 && tally.reposted > 0);
    }
}

#[test]
fn bad_keys_break_the_connection_as_often_as_asked() {
    let mut pair = Pair::new("rounds=1 sizes=64 breaks=100", Defect::None);
    pair.finish();
    assert_eq!(pair.faults, []);
    // A connection takes two PSNs. Each end breaks a hundred, and both may break the same one.
    let broken = pair.psn / 2 - 1;
    assert!((100..=200).contains(&broken), "{broken}");
}

#[test]
fn stop_ends_with_nothing_posted() {
    let mut pair = Pair::new("duration=1", Defect::None);
    pair.run(10);
    pair.ends.iter_mut().for_each(|end| end.flow.stop());
    pair.finish();
    assert!(pair.ends.iter().all(|end| end.posted.is_empty()));
}
