// SPDX-License-Identifier: GPL-2.0
//! The command queue: execution, completion, timeouts, verdicts.

use core::mem::size_of;

use kernel::{
    bits::bit_u32,
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        barrier::{
            self,
            dma_mb, //
        },
        Arc,
        SpinLockIrq, //
    },
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    }, //
};
use kernel_ext::{
    completion::Completion,
    numa::Node,
    pci::BoundDevice, //
};
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    opcode_name,
    raw::mlx5_cmd_layout,
    wire,
    wire::put, //
};
use rmlx5_trace::Outcome;

use super::{
    in_len,
    mailbox::{
        blocks_for,
        Chain,
        Free,
        Memory, //
    },
    out_len,
    slot::{
        Finish,
        Slot,
        State,
        Table,
        Ticket,
        MAX, //
    },
    Cause,
    CmdError,
    Command,
    CompletionSource,
    Header,
    Reply, //
};
use crate::{
    buf::{
        Buf,
        PAGE, //
    },
    iseg::{
        Iseg,
        QueueShape, //
    },
    limit::Limit, //
};

/// How long a caller waits for a slot.
const SLOT_TIMEOUT: Delta = Delta::from_secs(60);
/// A waiter looks by itself this often: a lost interrupt costs this, not the timeout; loss of the
/// device is noticed within it.
const LOOK: Delta = Delta::from_millis(100);
/// Longest input or output, from the number of mailbox blocks.
const MAX_LEN: usize = 2 << 20;
/// `type` of an entry: a command that came over PCIe. Source: `MLX5_PCI_CMD_XPORT` in core/cmd.c.
const XPORT_PCI: u64 = 7;
/// Ownership bit of the last byte of an entry.
const OWNER_HW: u8 = 1;
/// Addresses in one page command.
pub(crate) const PAGES_PER_COMMAND: usize = 512;

const OWN: usize = wire!(mlx5_cmd_layout, status_own).offset();

/// Why nothing is sent any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well.
    Alive,
    /// The generation is over, a reset is coming.
    Dead,
    /// The device disappeared from the bus.
    Gone,
    /// The device does not answer: the card is broken.
    Broken,
}

impl Verdict {
    const fn code(self) -> u32 {
        match self {
            Self::Alive => 0,
            Self::Dead => 1,
            Self::Gone => 2,
            Self::Broken => 3,
        }
    }

    const fn from_code(code: u32) -> Self {
        match code {
            0 => Self::Alive,
            1 => Self::Dead,
            2 => Self::Gone,
            _ => Self::Broken,
        }
    }
}

/// What happened so far. Shown in debugfs, used by tests.
#[derive(Default)]
pub(crate) struct Stats {
    /// Commands sent.
    pub(crate) sent: Counter,
    /// Commands that failed, whatever the reason.
    pub(crate) failed: Counter,
    /// Completions that no issued slot asked for.
    pub(crate) spurious: Counter,
    /// Completions found by looking, without their interrupt.
    pub(crate) lost_interrupts: Counter,
    /// Commands without an answer in time.
    pub(crate) timeouts: Counter,
    /// Answers after the timeout.
    pub(crate) late: Counter,
}

/// A statistics counter.
pub(crate) struct Counter(Atomic<u64>);

impl Default for Counter {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Counter {
    /// Counts one.
    pub(crate) fn inc(&self) {
        self.add(1);
    }

    /// Counts `n`.
    pub(crate) fn add(&self, n: u64) {
        self.0.add(n, Relaxed);
    }

    /// The count.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

struct Inner {
    table: Table,
    free: Free,
    shape: QueueShape,
}

/// The command queue of one device. Lives from probe to unbind; [`Cmd::start`] begins a new
/// generation on it.
#[pin_data]
pub(crate) struct Cmd {
    pdev: BoundDevice,
    iseg: Arc<Iseg>,
    node: Node,
    entries: Buf,
    memory: Memory,
    #[pin]
    inner: SpinLockIrq<Inner>,
    /// One wake-up per slot.
    done: KVec<Arc<Completion>>,
    /// Counts the free slots that are not for pages.
    vacant: Arc<Completion>,
    /// Counts the page slot.
    vacant_pages: Arc<Completion>,
    /// Set while completions come through the command EQ.
    #[pin]
    source: SpinLockIrq<Option<Arc<dyn CompletionSource>>>,
    events: Atomic<u32>,
    verdict: Atomic<u32>,
    bound_ms: Atomic<u64>,
    limit: Limit,
    pub(crate) stats: Stats,
}

impl Cmd {
    /// Allocates everything that commands of ordinary size need. Nothing is told to the device.
    pub(crate) fn new(pdev: &BoundDevice, iseg: Arc<Iseg>, node: Node) -> Result<Arc<Self>> {
        let entries = Buf::new(pdev.device(), node, PAGE)?;
        let memory = Memory::new()?;
        let mut free = Free::new()?;
        memory.grow(pdev.device(), node, |add| add(&mut free))?;
        let mut done = KVec::with_capacity(MAX, GFP_KERNEL)?;
        for _ in 0..MAX {
            done.push(Arc::pin_init(Completion::new(), GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let vacant = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        let vacant_pages = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                pdev: pdev.clone(),
                iseg,
                node,
                entries,
                memory,
                inner <- new_spinlock_irq!(Inner {
                    table: Table::new(),
                    free,
                    shape: QueueShape {
                        log_size: 0,
                        log_stride: 6,
                    },
                }),
                done,
                vacant,
                vacant_pages,
                source <- new_spinlock_irq!(None),
                events: Atomic::new(0),
                verdict: Atomic::new(Verdict::Dead.code()),
                bound_ms: Atomic::new(60_000),
                limit: Limit::default(),
                stats: Stats::default(),
            }),
            GFP_KERNEL,
        )
    }

    /// Begins a generation: the device has been reset (or just found) and uses nothing that an
    /// earlier generation gave it. Polled until [`Cmd::use_events`].
    pub(crate) fn start(&self) -> Result {
        let shape = self.iseg.queue_shape()?;
        let slots = 1usize << shape.log_size;
        self.use_polling();
        self.entries.clear()?;
        {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            // Slots that were in doubt: the reset is their answer.
            for index in 0..inner.table.len() {
                if let Some(slot) = inner.table.get(index) {
                    if slot.state == State::Abandoned {
                        slot.state = State::Free;
                        inner.free.put(core::mem::take(&mut slot.input));
                        inner.free.put(core::mem::take(&mut slot.output));
                    }
                }
            }
            inner.table.resize(slots);
            inner.shape = shape;
            self.vacant.reinit();
            self.vacant_pages.reinit();
            // A caller who is still on its way out of the old generation gives its slot back itself.
            for index in 0..slots {
                let free = |slot: &mut Slot| slot.state == State::Free;
                if inner.table.get(index).is_some_and(free) {
                    self.vacate(index + 1 == slots);
                }
            }
        }
        self.iseg.set_queue(self.entries.address(0)?);
        if self.iseg.gone() {
            return Err(ENODEV);
        }
        self.verdict.store(Verdict::Alive.code(), Release);
        Ok(())
    }

    /// What the queue thinks of the device.
    pub(crate) fn verdict(&self) -> Verdict {
        Verdict::from_code(self.verdict.load(Acquire))
    }

    /// Ends the generation: every waiter returns at once, nothing is sent any more. Any context.
    pub(crate) fn fail(&self, verdict: Verdict) {
        // The first reason stands; `Dead` is the weakest.
        if self.verdict() != Verdict::Broken {
            self.verdict.store(verdict.code(), Release);
        }
        let mut guard = self.inner.lock();
        for index in 0..guard.table.len() {
            if let Some(slot) = guard.table.get(index) {
                if matches!(slot.state, State::Issued(_)) {
                    slot.state = State::Abandoned;
                    if let Some(done) = self.done.get(index) {
                        done.complete();
                    }
                }
            }
        }
    }

    /// Longest time the firmware may take for one command from now on, before the card is called
    /// broken. The interface allows 60 s (`tout_def_sw_val` in core/lib/tout.c), the default; where
    /// the PCI core waits it is less.
    pub(crate) fn set_bound(&self, bound: Delta) {
        // CAST: a bound is positive.
        self.bound_ms
            .store(bound.as_millis().max(1) as u64, Relaxed);
    }

    /// Completions come through `source` from now on.
    pub(crate) fn use_events(&self, source: Arc<dyn CompletionSource>) {
        let old = self.source.lock().replace(source);
        drop(old);
        self.events.store(1, Release);
    }

    /// Completions are found by looking at the entries from now on.
    pub(crate) fn use_polling(&self) {
        self.events.store(0, Release);
        let old = self.source.lock().take();
        drop(old);
    }

    /// The command EQE named these slots. Hard interrupt context.
    ///
    /// A bit counts only if the slot is with the device and its ownership bit is clear.
    pub(crate) fn complete(&self, vector: u32) {
        for index in 0..MAX {
            // CAST: below 32.
            if vector & bit_u32(index as u32) != 0 && !self.finish(index) {
                self.stats.spurious.inc();
            }
        }
    }

    /// Finishes slot `index` if the device has given it back; whether it did.
    fn finish(&self, index: usize) -> bool {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if !inner.table.with_device(index) || self.owned_by_device(inner.shape, index) {
            return false;
        }
        let free = &mut inner.free;
        match inner.table.finish(index, |chain| free.put(chain)) {
            Finish::Wake => {
                if let Some(done) = self.done.get(index) {
                    done.complete();
                }
                true
            }
            Finish::Late => {
                self.stats.late.inc();
                self.vacate(index + 1 == inner.table.len());
                true
            }
            Finish::Spurious => false,
        }
    }

    fn vacate(&self, pages: bool) {
        if pages {
            self.vacant_pages.complete();
        } else {
            self.vacant.complete();
        }
    }

    fn owned_by_device(&self, shape: QueueShape, index: usize) -> bool {
        self.entries
            .read8((index << shape.log_stride) + OWN)
            .map_or(true, |own| own & OWNER_HW != 0)
    }

    /// Runs `command` and returns its answer. Process context; sleeps.
    ///
    /// Fails at once when the device generation is over. A command that the device refuses, and
    /// every command that gets no answer, is logged here, once.
    pub(crate) fn exec<C: Command>(&self, command: &C) -> Result<C::Output, CmdError> {
        let result = self.exec_quiet(command);
        if let Err(error) = &result {
            if error.cause != Cause::Dead && self.limit.allows() {
                dev_warn!(self.pdev, "command failed: {}\n", error);
            }
        }
        result
    }

    /// As [`Cmd::exec`] for commands whose refusal is an expected answer: not logged.
    pub(crate) fn exec_quiet<C: Command>(&self, command: &C) -> Result<C::Output, CmdError> {
        let traced = rmlx5_trace::command_enabled().then(Instant::<Monotonic>::now);
        let result = self.run(command).map_err(|cause| CmdError {
            // CAST: opcodes are 16 bits wide.
            opcode: C::OPCODE as u16,
            op_mod: command.op_mod(),
            cause,
        });
        if let Some(begin) = traced {
            self.trace(command, result.as_ref().err(), begin.elapsed());
        }
        if result.is_err() {
            self.stats.failed.inc();
        }
        result
    }

    fn trace<C: Command>(&self, command: &C, error: Option<&CmdError>, time: Delta) {
        let outcome = match error {
            None => Outcome::Status(0, 0),
            Some(error) => match error.cause {
                Cause::Status(status, syndrome) => Outcome::Status(status, syndrome),
                _ => Outcome::Error((*error).into()),
            },
        };
        // CAST: opcodes are 16 bits wide.
        let opcode = C::OPCODE as u16;
        let name = opcode_name(opcode).unwrap_or("command");
        let op_mod = command.op_mod();
        rmlx5_trace::command(self.pdev.name(), name, opcode, op_mod, outcome, time);
    }

    fn run<C: Command>(&self, command: &C) -> Result<C::Output, Cause> {
        let input = build(command)?;
        let mut output = KVVec::from_elem(0u8, out_len(command), GFP_KERNEL)
            .map_err(|_| Cause::Resources(ENOMEM))?;
        self.transact(C::PAGES, &input, &mut output)?;
        let reply = Ref::<Reply>::new(&output).ok_or(Cause::Answer)?;
        // CAST: an 8-bit field.
        let status = reply.get(field!(enable_hca_out, status)) as u8;
        if status != 0 {
            let syndrome = reply.get32(field!(enable_hca_out, syndrome));
            return Err(Cause::Status(status, syndrome));
        }
        Ref::new(&output)
            .and_then(|output| command.parse(output))
            .ok_or(Cause::Answer)
    }

    fn alive(&self) -> Result<(), Cause> {
        match self.verdict() {
            Verdict::Alive => Ok(()),
            Verdict::Dead | Verdict::Gone | Verdict::Broken => Err(Cause::Dead),
        }
    }

    /// Sends `input`, waits, fills `output`.
    fn transact(&self, pages: bool, input: &[u8], output: &mut [u8]) -> Result<(), Cause> {
        self.alive()?;
        if input.len() > MAX_LEN || output.len() > MAX_LEN {
            return Err(Cause::Input(E2BIG));
        }
        let vacant = if pages {
            &self.vacant_pages
        } else {
            &self.vacant
        };
        let (index, ticket) = loop {
            if vacant.wait_timeout(SLOT_TIMEOUT).is_err() {
                self.alive()?;
                return Err(Cause::Resources(EBUSY));
            }
            // After a restart the count may be too high by those who held a slot across it; each
            // round without a slot takes one away.
            if let Some(held) = self.inner.lock().table.hold(pages) {
                break held;
            }
            self.alive()?;
        };
        let result = self
            .issue(index, ticket, input, output.len())
            .and_then(|()| self.wait(index, ticket))
            .and_then(|()| self.collect(index, output));
        self.release(index, ticket, pages);
        result
    }

    /// Frees the slot unless the device still has it.
    fn release(&self, index: usize, ticket: Ticket, pages: bool) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(slot) = inner.table.get(index) else {
            return;
        };
        if slot.state != State::Held(ticket) && slot.state != State::Done(ticket) {
            return;
        }
        slot.state = State::Free;
        inner.free.put(core::mem::take(&mut slot.input));
        inner.free.put(core::mem::take(&mut slot.output));
        self.vacate(pages);
    }

    /// Takes chains for both directions, with more memory if need be.
    fn chains(&self, input: usize, output: usize) -> Result<(Chain, Chain), Cause> {
        // Each round adds an arena; their number is bounded.
        loop {
            {
                let mut guard = self.inner.lock();
                if let Some(first) = guard.free.take(input) {
                    match guard.free.take(output) {
                        Some(second) => return Ok((first, second)),
                        None => guard.free.put(first),
                    }
                }
            }
            self.memory
                .grow(self.pdev.device(), self.node, |add| {
                    add(&mut self.inner.lock().free)
                })
                .map_err(Cause::Resources)?;
        }
    }

    /// The block indexes of a chain.
    fn indexes(&self, chain: &Chain) -> Result<KVVec<u16>, Cause> {
        let mut list = KVVec::from_elem(0u16, chain.blocks(), GFP_KERNEL)
            .map_err(|_| Cause::Resources(ENOMEM))?;
        self.inner.lock().free.list(chain, &mut list);
        Ok(list)
    }

    /// Prepares the entry and hands it to the device.
    fn issue(
        &self,
        index: usize,
        ticket: Ticket,
        input: &[u8],
        out_len: usize,
    ) -> Result<(), Cause> {
        let (first, second) = self.chains(blocks_for(input.len()), blocks_for(out_len))?;
        let lists = self
            .indexes(&first)
            .and_then(|list| Ok((list, self.indexes(&second)?)));
        {
            // From here on `release` returns the chains.
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            match inner.table.get(index) {
                Some(slot) => {
                    slot.input = first;
                    slot.output = second;
                }
                None => {
                    inner.free.put(first);
                    inner.free.put(second);
                }
            }
        }
        let (in_blocks, out_blocks) = lists?;
        // The token only has to differ from its neighbours; zero is avoided as what an empty block
        // holds. CAST: the cut is wanted.
        let token = (self.stats.sent.get() as u8) | 1;
        let (inline, rest) = input.split_at(input.len().min(16));
        self.memory
            .write(&in_blocks, token, rest)
            .and_then(|()| self.memory.write(&out_blocks, token, &[]))
            .map_err(Cause::Input)?;
        let entry = self
            .entry(token, inline, input.len(), &in_blocks, out_len, &out_blocks)
            .ok_or(Cause::Input(ERANGE))?;
        let shape = self.inner.lock().shape;
        let at = index << shape.log_stride;
        let body = entry.get(..OWN).ok_or(Cause::Input(ERANGE))?;
        self.entries.write(at, body).map_err(Cause::Input)?;
        let done = self.done.get(index).ok_or(Cause::Input(ERANGE))?;
        done.reinit();
        // Entry and blocks before the ownership bit.
        dma_mb(barrier::Write);
        self.entries
            .write8(at + OWN, OWNER_HW)
            .map_err(Cause::Input)?;
        {
            let mut guard = self.inner.lock();
            // Under the lock: `fail` has either seen the slot or set the verdict before.
            self.alive()?;
            if let Some(slot) = guard.table.get(index) {
                slot.state = State::Issued(ticket);
            }
        }
        self.stats.sent.inc();
        // The ownership bit before the doorbell.
        dma_mb(barrier::Write);
        // CAST: below 32.
        self.iseg.ring(bit_u32(index as u32));
        Ok(())
    }

    /// The image of an entry, ownership bit set, signed.
    fn entry(
        &self,
        token: u8,
        inline: &[u8],
        in_len: usize,
        in_blocks: &[u16],
        out_len: usize,
        out_blocks: &[u16],
    ) -> Option<[u8; size_of::<mlx5_cmd_layout>()]> {
        let mut entry = [0u8; size_of::<mlx5_cmd_layout>()];
        let in_ptr = self.memory.address(in_blocks.first().copied()).ok()?;
        let out_ptr = self.memory.address(out_blocks.first().copied()).ok()?;
        // CAST: lengths are at most `MAX_LEN`.
        let fits = put(&mut entry, wire!(mlx5_cmd_layout, type_), XPORT_PCI)
            && put(&mut entry, wire!(mlx5_cmd_layout, inlen), in_len as u64)
            && put(&mut entry, wire!(mlx5_cmd_layout, in_ptr), in_ptr)
            && put(&mut entry, wire!(mlx5_cmd_layout, out_ptr), out_ptr)
            && put(&mut entry, wire!(mlx5_cmd_layout, outlen), out_len as u64)
            && put(&mut entry, wire!(mlx5_cmd_layout, token), token.into());
        if !fits {
            return None;
        }
        let inline_at = core::mem::offset_of!(mlx5_cmd_layout, in_);
        entry
            .get_mut(inline_at..inline_at + inline.len())?
            .copy_from_slice(inline);
        *entry.get_mut(OWN)? = OWNER_HW;
        // The XOR over a signed entry is all ones. Source: `set_signature` in core/cmd.c.
        let sum = entry.iter().fold(0, |sum, byte| sum ^ byte);
        *entry.get_mut(wire!(mlx5_cmd_layout, sig).offset())? = !sum;
        Some(entry)
    }

    /// Waits for the answer: by event where there are events, and by looking.
    fn wait(&self, index: usize, ticket: Ticket) -> Result<(), Cause> {
        let done = self.done.get(index).ok_or(Cause::Answer)?;
        let start = Instant::<Monotonic>::now();
        // CAST: at most days.
        let bound = Delta::from_millis(self.bound_ms.load(Relaxed) as i64);
        let mut step = Delta::from_micros(10);
        loop {
            let events = self.events.load(Acquire) != 0;
            if events {
                if done.wait_timeout(LOOK).is_ok() {
                    return self.answered(index, ticket);
                }
                if self.finish(index) {
                    self.stats.lost_interrupts.inc();
                }
            } else {
                self.finish(index);
            }
            if self.is_done(index, ticket) {
                return Ok(());
            }
            self.alive()?;
            if start.elapsed() > bound {
                return self.last_look(index, ticket);
            }
            if !events {
                fsleep(step);
                step = Delta::from_nanos(
                    step.as_nanos()
                        .saturating_mul(2)
                        .min(Delta::from_millis(1).as_nanos()),
                );
            }
            if start.elapsed() > LOOK && self.iseg.gone() {
                self.abandon(index, ticket);
                self.fail(Verdict::Gone);
                return Err(Cause::Gone);
            }
        }
    }

    fn is_done(&self, index: usize, ticket: Ticket) -> bool {
        self.inner
            .lock()
            .table
            .get(index)
            .is_some_and(|slot| slot.state == State::Done(ticket))
    }

    fn answered(&self, index: usize, ticket: Ticket) -> Result<(), Cause> {
        if self.is_done(index, ticket) {
            return Ok(());
        }
        // Woken by `fail`.
        Err(Cause::Dead)
    }

    /// The deadline is over. A completion may have come without its interrupt: the EQ and the entry
    /// are looked at once more before the card is called broken.
    fn last_look(&self, index: usize, ticket: Ticket) -> Result<(), Cause> {
        let source = self.source.lock().clone();
        if let Some(source) = source {
            source.poll();
        }
        self.finish(index);
        if self.is_done(index, ticket) {
            self.stats.lost_interrupts.inc();
            return Ok(());
        }
        self.stats.timeouts.inc();
        self.abandon(index, ticket);
        let gone = self.iseg.gone();
        self.fail(if gone { Verdict::Gone } else { Verdict::Broken });
        let verdict = if gone { "gone" } else { "broken" };
        dev_err!(
            self.pdev,
            "Command Timeout: slot {} got no answer, card is declared {}\n",
            index,
            verdict
        );
        Err(if gone { Cause::Gone } else { Cause::Timeout })
    }

    fn abandon(&self, index: usize, ticket: Ticket) {
        let mut guard = self.inner.lock();
        if let Some(slot) = guard.table.get(index) {
            if slot.state == State::Issued(ticket) {
                slot.state = State::Abandoned;
            }
        }
    }

    /// Reads delivery status and output of a finished slot.
    fn collect(&self, index: usize, output: &mut [u8]) -> Result<(), Cause> {
        // The ownership bit before the rest.
        dma_mb(barrier::Read);
        let (at, list) = {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            let at = index << inner.shape.log_stride;
            let slot = inner.table.get(index).ok_or(Cause::Answer)?;
            (at, slot.output.blocks())
        };
        let delivery = self.entries.read8(at + OWN).map_err(|_| Cause::Answer)? >> 1;
        if delivery != 0 {
            return Err(Cause::Delivery(delivery));
        }
        let mut blocks =
            KVVec::from_elem(0u16, list, GFP_KERNEL).map_err(|_| Cause::Resources(ENOMEM))?;
        {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            let slot = inner.table.get(index).ok_or(Cause::Answer)?;
            inner.free.list(&slot.output, &mut blocks);
        }
        let (inline, rest) = output.split_at_mut(output.len().min(16));
        self.entries
            .read(at + core::mem::offset_of!(mlx5_cmd_layout, out), inline)
            .and_then(|()| self.memory.read(&blocks, rest))
            .map_err(|_| Cause::Answer)
    }
}

/// The bytes of a command.
fn build<C: Command>(command: &C) -> Result<KVVec<u8>, Cause> {
    let mut bytes =
        KVVec::from_elem(0u8, in_len(command), GFP_KERNEL).map_err(|_| Cause::Resources(ENOMEM))?;
    let mut header = Mut::<Header>::new(&mut bytes).ok_or(Cause::Input(EINVAL))?;
    header.set(field!(enable_hca_in, opcode), C::OPCODE.into());
    header.set(field!(enable_hca_in, op_mod), command.op_mod().into());
    let mut input = Mut::<C::In>::new(&mut bytes).ok_or(Cause::Input(EINVAL))?;
    command.fill(&mut input).map_err(Cause::Input)?;
    if input.overflowed() {
        return Err(Cause::Input(EOVERFLOW));
    }
    Ok(bytes)
}
