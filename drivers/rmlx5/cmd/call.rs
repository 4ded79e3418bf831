// SPDX-License-Identifier: GPL-2.0
//! One command on its way: slot, mailboxes, entry, doorbell, answer.

use core::mem::size_of;

use kernel::{
    bits::bit_u32,
    prelude::*,
    sync::{
        atomic::ordering::{
            Acquire,
            Relaxed, //
        },
        barrier::{
            self,
            dma_mb, //
        }, //
    },
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    }, //
};
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    raw::mlx5_cmd_layout,
    wire,
    wire::put, //
};

use super::{
    in_len,
    mailbox::{
        blocks_for,
        Chain, //
    },
    out_len,
    queue::{
        Queue,
        Verdict,
        OWN,
        OWNER_HW, //
    },
    slot::{
        State,
        Ticket, //
    },
    Cause,
    Command,
    Header,
    Reply, //
};

/// How long a caller waits for a slot.
const SLOT_TIMEOUT: Delta = Delta::from_secs(60);
/// A waiter looks by itself this often: a lost interrupt costs this, not the timeout; loss of the
/// device is noticed within it.
const LOOK: Delta = Delta::from_millis(100);
/// Longest input or output, from the number of mailbox blocks.
pub(crate) const MAX_LEN: usize = 2 << 20;
/// `type` of an entry: a command that came over PCIe. Source: `MLX5_PCI_CMD_XPORT` in core/cmd.c.
const XPORT_PCI: u64 = 7;

impl Queue {
    /// Builds, sends in `generation` or not at all, waits, checks delivery and status, parses.
    pub(super) fn run<C: Command>(&self, generation: u32, command: &C) -> Result<C::Output, Cause> {
        // Before there is a list of that length: users choose it.
        if in_len(command) > MAX_LEN || out_len(command) > MAX_LEN {
            return Err(Cause::Input(E2BIG));
        }
        let input = build(command)?;
        let mut output = KVVec::<u8>::zeroed(out_len(command), GFP_KERNEL)
            .map_err(|_| Cause::Resources(ENOMEM))?;
        self.transact((generation, C::PAGES), &input, &mut output)?;
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

    /// Whether `generation` is the present one, and not over.
    fn alive(&self, generation: u32) -> Result<(), Cause> {
        match self.verdict() {
            Verdict::Alive if self.generation() == generation => Ok(()),
            _ => Err(Cause::Dead),
        }
    }

    /// Sends `input`, waits, fills `output`.
    fn transact(
        &self,
        (generation, pages): (u32, bool),
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), Cause> {
        let (index, ticket) = self.hold(generation, pages)?;
        let result = self
            .issue((generation, pages), (index, ticket), input, output.len())
            .and_then(|()| self.wait(generation, (index, ticket)))
            .and_then(|()| self.collect(index, output));
        self.release(index, ticket, pages);
        result
    }

    /// Takes a slot, waiting for one as long as `generation` lives.
    fn hold(&self, generation: u32, pages: bool) -> Result<(usize, Ticket), Cause> {
        let vacant = if pages {
            &self.vacant_pages
        } else {
            &self.vacant
        };
        let start = Instant::<Monotonic>::now();
        loop {
            self.alive(generation)?;
            // Slots that a dead card keeps are not given back: nobody wakes who waits for them.
            if vacant.wait_timeout(LOOK).is_err() {
                if start.elapsed() > SLOT_TIMEOUT {
                    return Err(Cause::Resources(EBUSY));
                }
                continue;
            }
            // After a restart the count may be too high by those who held a slot across it; each
            // round without a slot takes one away.
            if let Some(held) = self.inner.lock().table.hold(pages) {
                return Ok(held);
            }
        }
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
    fn chains(&self, pages: bool, input: usize, output: usize) -> Result<(Chain, Chain), Cause> {
        // Each round adds an arena; their number is bounded.
        loop {
            {
                let mut guard = self.inner.lock();
                if let Some(first) = guard.free.take(input, pages) {
                    match guard.free.take(output, pages) {
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
        let mut list = KVVec::<u16>::zeroed(chain.blocks(), GFP_KERNEL)
            .map_err(|_| Cause::Resources(ENOMEM))?;
        self.inner.lock().free.list(chain, &mut list);
        Ok(list)
    }

    /// Prepares the entry and hands it to the device.
    fn issue(
        &self,
        (generation, pages): (u32, bool),
        (index, ticket): (usize, Ticket),
        input: &[u8],
        out_len: usize,
    ) -> Result<(), Cause> {
        let (first, second) = self.chains(pages, blocks_for(input.len()), blocks_for(out_len))?;
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
        let body = entry.get(..OWN).ok_or(Cause::Input(ERANGE))?;
        let done = self.done.get(index).ok_or(Cause::Input(ERANGE))?;
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        // Under the lock up to the doorbell: `fail` has either seen the slot or set the verdict
        // before, and `start` comes before or after all of it.
        self.alive(generation)?;
        let at = index << inner.shape.log_stride;
        let slot = inner.table.get(index).ok_or(Cause::Dead)?;
        self.entries.write(at, body).map_err(Cause::Input)?;
        done.reinit();
        // Entry and blocks before the ownership bit.
        dma_mb(barrier::Write);
        self.entries
            .write8(at + OWN, OWNER_HW)
            .map_err(Cause::Input)?;
        slot.state = State::Issued(ticket);
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
        let words = entry.chunks_exact(8).filter_map(|word| word.first_chunk());
        let words = words.fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word));
        let sum = words.to_ne_bytes().iter().fold(0, |sum, byte| sum ^ byte);
        *entry.get_mut(wire!(mlx5_cmd_layout, sig).offset())? = !sum;
        Some(entry)
    }

    /// Waits for the answer: by event where there are events, and by looking.
    fn wait(&self, generation: u32, (index, ticket): (usize, Ticket)) -> Result<(), Cause> {
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
            self.alive(generation)?;
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
            KVVec::<u16>::zeroed(list, GFP_KERNEL).map_err(|_| Cause::Resources(ENOMEM))?;
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
        KVVec::<u8>::zeroed(in_len(command), GFP_KERNEL).map_err(|_| Cause::Resources(ENOMEM))?;
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
