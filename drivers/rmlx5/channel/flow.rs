// SPDX-License-Identifier: GPL-2.0
//! The traffic of one channel during a self-test, and what became of each operation.
//!
//! A [`Flow`] decides and checks; posting, polling and memory are its owner's. Its work is made of
//! jobs, one for each slot: WRITE to the other end, READ it back and compare, SEND, SEND with
//! immediate data (the other end compares) and FETCH_ADD on the other end's counter (the old value
//! is known). Jobs of different slots overlap, and so the send queue is kept filled.

use super::{
    fault::{check_received, Fault},
    layout::{self, MAX_SLOTS},
    op::{Op, Ticket},
    options::Options,
    pattern::{Key, Mismatch, Stream},
    tally::Tally,
};
use crate::wq::{Remote, Request, Sge};

/// Memory of a channel. Offsets are those of [`layout`], inside the local MR.
pub(crate) trait Memory {
    /// Writes a message at `at`.
    fn fill(&self, at: u32, key: Key, len: u32);
    /// Overwrites `len` bytes at `at` with what no message holds there.
    fn spoil(&self, at: u32, key: Key, len: u32);
    /// Compares a message at `at`.
    fn check(&self, at: u32, key: Key, len: u32) -> Result<(), Mismatch>;
    /// Reads 8 bytes in host order.
    fn load64(&self, at: u32) -> u64;
    /// Writes 8 bytes in host order.
    fn store64(&self, at: u32, value: u64);
}

/// The connection in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Key of the local MR.
    pub(crate) lkey: u32,
    /// Address of byte 0 of the local MR.
    pub(crate) base: u64,
    /// The other end's shared MR.
    pub(crate) remote: Remote,
    /// Messages of this end.
    pub(crate) sending: Stream,
    /// Messages of the other end.
    pub(crate) receiving: Stream,
    /// Atomics work, in the byte order of the host.
    pub(crate) atomic: bool,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    number: u64,
    size: u32,
    op: Op,
    /// Posted and not completed.
    posted: bool,
    /// Value the counter must have had, while a FETCH_ADD is posted.
    expected: u64,
}

/// Traffic of one channel.
pub(crate) struct Flow {
    options: Options,
    writes: Stream,
    link: Option<Link>,
    jobs: [Option<Job>; MAX_SLOTS],
    round: u64,
    size_index: usize,
    started: u64,
    sent: u64,
    received: u64,
    counter: Option<u64>,
    rebase: Rebase,
    running: bool,
    /// Connections still to be broken by this end.
    breaks: u32,
    /// Operations since the connection began.
    warm: u32,
    /// The WQE that breaks this connection is posted.
    breaking: bool,
    /// What happened so far.
    pub(crate) tally: Tally,
}

/// Operations that a connection must have carried before it is broken.
const WARM: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rebase {
    Idle,
    Posted,
}

impl Flow {
    /// A channel without traffic. `identity` tells it from every other one of the machine.
    pub(crate) const fn new(identity: u32) -> Self {
        Self {
            options: Options::new(),
            writes: Stream::new(identity, u32::MAX),
            link: None,
            jobs: [None; MAX_SLOTS],
            round: 0,
            size_index: 0,
            started: 0,
            sent: 0,
            received: 0,
            counter: None,
            rebase: Rebase::Idle,
            running: false,
            breaks: 0,
            warm: 0,
            breaking: false,
            tally: Tally::new(),
        }
    }

    /// Begins a run and forgets the account of the last one. Nothing may be posted.
    pub(crate) fn start(&mut self, options: Options) {
        self.options = options;
        self.jobs = [None; MAX_SLOTS];
        self.round = 0;
        self.size_index = 0;
        self.running = true;
        self.breaks = options.breaks;
        self.tally.clear();
    }

    /// No new jobs; those under way finish.
    pub(crate) fn stop(&mut self) {
        self.running = false;
        self.breaks = 0;
    }

    /// Nothing can be finished any more: the connection is given up. Jobs are forgotten.
    pub(crate) fn abandon(&mut self) {
        self.stop();
        self.link = None;
        self.jobs = [None; MAX_SLOTS];
    }

    /// Whether every job has finished and no more will come.
    pub(crate) fn is_done(&self) -> bool {
        !self.has_rounds() && self.jobs.iter().all(Option::is_none)
    }

    /// A connection begins: its streams start at message 0 and its counter is not known.
    pub(crate) fn connected(&mut self, link: Link) {
        self.link = Some(link);
        self.sent = 0;
        self.received = 0;
        self.counter = None;
        self.rebase = Rebase::Idle;
        self.warm = 0;
        self.breaking = false;
    }

    /// The connection is gone. The owner reports each posted WQE through [`Flow::lost`].
    pub(crate) fn disconnected(&mut self) {
        self.link = None;
        self.counter = None;
    }

    /// The next operation to post; `None` when there is none now.
    ///
    /// Fills the memory that the operation sends. The owner must post it.
    pub(crate) fn next(&mut self, memory: &impl Memory) -> Option<(Request, Ticket)> {
        let link = self.link?;
        if self.breaks != 0 && self.warm >= WARM && !self.breaking {
            self.breaks -= 1;
            self.breaking = true;
            return Some((self.bad_write(&link), Ticket::BadKey));
        }
        for slot in 0..layout::slots(self.options.sizes.longest()) {
            self.refill(slot);
            if let Some(request) = self.post(slot, &link, memory) {
                return Some(request);
            }
        }
        None
    }

    /// Whether [`Flow::next`] may have something once a slot is free.
    fn has_rounds(&self) -> bool {
        self.running && (self.round < self.options.rounds || self.breaks != 0)
    }

    fn refill(&mut self, slot: usize) {
        if !self.has_rounds() {
            return;
        }
        let sizes = self.options.sizes;
        let Some(free @ None) = self.jobs.get_mut(slot) else {
            return;
        };
        let Some(size) = sizes.as_slice().get(self.size_index) else {
            return;
        };
        *free = Some(Job {
            number: self.started,
            size: *size,
            op: Op::Write,
            posted: false,
            expected: 0,
        });
        self.started = self.started.wrapping_add(1);
        self.size_index += 1;
        if self.size_index >= sizes.as_slice().len() {
            self.size_index = 0;
            self.round = self.round.saturating_add(1);
        }
    }

    fn post(
        &mut self,
        slot: usize,
        link: &Link,
        memory: &impl Memory,
    ) -> Option<(Request, Ticket)> {
        let longest = self.options.sizes.longest();
        let job = self.jobs.get_mut(slot)?.as_mut()?;
        if job.posted {
            return None;
        }
        // CAST: at most MAX_SLOTS, and an area holds that many.
        let offset = slot as u32 * layout::slot_bytes(longest);
        let source = layout::SOURCE + offset;
        let sink = layout::SINK + offset;
        let sge = |at: u32, len: u32| Sge {
            addr: link.base.wrapping_add(at.into()),
            lkey: link.lkey,
            len,
        };
        let remote = |at: u32| Remote {
            addr: link.remote.addr.wrapping_add(at.into()),
            rkey: link.remote.rkey,
        };
        let request = match job.op {
            Op::Write => {
                memory.fill(source, written(self.writes, job), job.size);
                Request::Write {
                    remote: remote(layout::TARGET + offset),
                    local: sge(source, job.size),
                }
            }
            Op::Read => {
                memory.spoil(sink, written(self.writes, job), job.size);
                Request::Read {
                    remote: remote(layout::TARGET + offset),
                    local: sge(sink, job.size),
                }
            }
            Op::Send | Op::SendImm => {
                let len = job.size.min(layout::RECV_BYTES);
                let key = link.sending.key(self.sent, len);
                self.sent = self.sent.wrapping_add(1);
                memory.fill(source, key, len);
                let local = sge(source, len);
                match job.op {
                    Op::Send => Request::Send { local },
                    _ => Request::SendImm {
                        local,
                        imm: key.immediate(),
                    },
                }
            }
            Op::FetchAdd => {
                let Some(value) = self.counter else {
                    if self.rebase == Rebase::Posted {
                        return None;
                    }
                    self.rebase = Rebase::Posted;
                    memory.store64(layout::SCRATCH, first_value(link));
                    let request = Request::Write {
                        remote: remote(layout::COUNTER),
                        local: sge(layout::SCRATCH, 8),
                    };
                    return Some((request, Ticket::Counter));
                };
                let add = written(self.writes, job).addend();
                job.expected = value;
                self.counter = Some(value.wrapping_add(add));
                memory.store64(sink, !value);
                Request::FetchAdd {
                    remote: remote(layout::COUNTER),
                    add,
                    local: sge(sink, 8),
                }
            }
        };
        job.posted = true;
        let ticket = Ticket::Job {
            // CAST: below MAX_SLOTS.
            slot: slot as u8,
            op: job.op,
        };
        Some((request, ticket))
    }

    fn bad_write(&self, link: &Link) -> Request {
        Request::Write {
            remote: Remote {
                addr: link.remote.addr,
                // The low byte of a key is free; the device compares it.
                rkey: link.remote.rkey ^ 0xff,
            },
            local: Sge {
                addr: link.base,
                lkey: link.lkey,
                len: 8,
            },
        }
    }

    /// A posted operation is done, `ns` after it was posted. Checks what it brought.
    pub(crate) fn completed(
        &mut self,
        ticket: Ticket,
        ns: u64,
        memory: &impl Memory,
    ) -> Result<(), Fault> {
        let (slot, op) = match ticket {
            Ticket::Counter => {
                self.rebase = Rebase::Idle;
                self.counter = self.link.as_ref().map(first_value);
                return Ok(());
            }
            Ticket::BadKey => return Ok(()),
            Ticket::Job { slot, op } => (usize::from(slot), op),
        };
        self.warm = self.warm.saturating_add(1);
        let longest = self.options.sizes.longest();
        let Some(Some(job)) = self.jobs.get_mut(slot) else {
            return Ok(());
        };
        job.posted = false;
        // CAST: below MAX_SLOTS.
        let sink = layout::SINK + slot as u32 * layout::slot_bytes(longest);
        let (bytes, result) = match op {
            Op::Write => (job.size, Ok(())),
            Op::Read => (
                job.size,
                memory
                    .check(sink, written(self.writes, job), job.size)
                    .map_err(|mismatch| Fault::Data {
                        what: "READ",
                        sequence: job.number,
                        mismatch,
                    }),
            ),
            Op::Send | Op::SendImm => (job.size.min(layout::RECV_BYTES), Ok(())),
            Op::FetchAdd => {
                let found = memory.load64(sink);
                let want = job.expected;
                (
                    8,
                    if found == want {
                        Ok(())
                    } else {
                        Err(Fault::Counter { want, found })
                    },
                )
            }
        };
        self.tally.done(op, bytes, ns);
        if result.is_err() {
            self.tally.faults = self.tally.faults.wrapping_add(1);
        } else if matches!(op, Op::Read | Op::FetchAdd) {
            self.tally.checked(bytes);
        }
        self.advance(slot);
        result
    }

    /// The connection broke while this operation was posted. What can be repeated is posted again
    /// after the connection is back; the rest ends with an error for its job.
    pub(crate) fn lost(&mut self, ticket: Ticket) {
        let Ticket::Job { slot, op } = ticket else {
            self.rebase = Rebase::Idle;
            return;
        };
        let slot = usize::from(slot);
        let Some(Some(job)) = self.jobs.get_mut(slot) else {
            return;
        };
        job.posted = false;
        if op.can_repeat() {
            self.tally.reposted = self.tally.reposted.wrapping_add(1);
        } else {
            self.tally.indeterminate = self.tally.indeterminate.wrapping_add(1);
            self.advance(slot);
        }
    }

    /// A message of the other end lies in receive slot `slot`.
    pub(crate) fn received(
        &mut self,
        slot: u32,
        len: u32,
        immediate: Option<u32>,
        memory: &impl Memory,
    ) -> Result<(), Fault> {
        let Some(link) = self.link else {
            return Ok(());
        };
        let sequence = self.received;
        self.received = sequence.wrapping_add(1);
        let result = check_received(&link, sequence, slot, len, immediate, memory);
        self.tally.received(immediate.is_some());
        match result {
            Ok(()) => self.tally.checked(len),
            Err(_) => self.tally.faults = self.tally.faults.wrapping_add(1),
        }
        result
    }

    fn advance(&mut self, slot: usize) {
        let atomic = self.link.is_none_or(|link| link.atomic);
        if let Some(place) = self.jobs.get_mut(slot) {
            *place = place.and_then(|job| {
                Some(Job {
                    op: job
                        .op
                        .next()
                        .filter(|next| atomic || *next != Op::FetchAdd)?,
                    posted: false,
                    ..job
                })
            });
        }
    }
}

/// Key of what a job writes. It must not change when the WRITE is posted again on a new
/// connection, so it depends on the channel and the job only.
fn written(writes: Stream, job: &Job) -> Key {
    writes.key(job.number, job.size)
}

fn first_value(link: &Link) -> u64 {
    link.sending.key(u64::MAX, 8).addend()
}
