// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A driver for tests: it posts commands through the real command queue and watches an EQ.

use mlx5_hw::{
    field,
    field::{bytes_of, Field, Mut},
    ifc, raw,
    status::{Delivery, Status},
};

use super::Machine;
use crate::{card::Card, profile::Profile};

const ENTRY: u64 = 64;
const BLOCK: u64 = 1024;
const DATA: usize = 512;

/// Builds the input of one command.
pub struct Input<L> {
    /// The bytes so far; a list may be appended.
    pub bytes: Vec<u8>,
    layout: std::marker::PhantomData<fn() -> L>,
}

impl<L> Input<L> {
    /// Zeroes with an opcode.
    pub fn new(opcode: u32) -> Self {
        let mut bytes = vec![0; bytes_of::<L>()];
        // CAST: opcodes are 16 bits wide.
        bytes[..2].copy_from_slice(&(opcode as u16).to_be_bytes());
        Self {
            bytes,
            layout: std::marker::PhantomData,
        }
    }

    /// Sets a field.
    ///
    /// # Panics
    /// When the value does not fit.
    #[must_use]
    pub fn set(mut self, field: Field<L>, value: u64) -> Self {
        let mut view = Mut::new(&mut self.bytes).expect("made as long as the layout");
        view.set(field, value);
        assert!(
            !view.overflowed(),
            "value {value:#x} does not fit its field"
        );
        self
    }

    /// Sets op_mod.
    #[must_use]
    pub fn op_mod(mut self, op_mod: u16) -> Self {
        self.bytes[6..8].copy_from_slice(&op_mod.to_be_bytes());
        self
    }

    /// Appends a list of 64-bit elements.
    #[must_use]
    pub fn list(mut self, elements: &[u64]) -> Self {
        for element in elements {
            self.bytes.extend_from_slice(&element.to_be_bytes());
        }
        self
    }
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Output bytes, as many as were asked for.
    pub output: Vec<u8>,
    /// Output byte 0.
    pub status: u8,
    /// Syndrome; its low half tells refusals apart.
    pub syndrome: u32,
}

impl Answer {
    /// A dword of the output.
    pub fn word(&self, at: usize) -> u32 {
        let raw = &self.output[at..at + 4];
        u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]])
    }

    /// The number of an object just made: low 24 bits of output dword 2.
    pub fn number(&self) -> u32 {
        self.word(8) & 0xff_ffff
    }
}

/// One event queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Type.
    pub kind: u8,
    /// Sub-type.
    pub subtype: u8,
    /// Data at byte 0x20.
    pub data: [u8; 28],
}

/// An EQ as its consumer sees it.
#[derive(Clone, Copy, Debug)]
pub struct EventQueue {
    /// Number.
    pub eqn: u32,
    /// Doorbell page.
    pub uar: u32,
    buffer: u64,
    log: u32,
    consumer: u32,
}

/// A machine with a card and a driver on it.
pub struct Driver {
    /// The machine.
    pub machine: Machine,
    /// The card.
    pub card: Card,
    /// Bus address of the command queue.
    pub queue: u64,
    token: u8,
    input: Vec<u64>,
    output: Vec<u64>,
    /// Firmware pages the card holds.
    pub pages: Vec<u64>,
}

impl Driver {
    /// A card that has seen nothing but the address of the command queue.
    pub fn new(profile: Profile) -> Self {
        let machine = Machine::new(256 << 20);
        let card = Card::new(profile, machine.host());
        let queue = machine.alloc(4096);
        let mut driver = Self {
            machine,
            card,
            queue,
            token: 0,
            input: Vec::new(),
            output: Vec::new(),
            pages: Vec::new(),
        };
        driver.program_queue();
        driver
    }

    /// A card after INIT_HCA, ISSI 1.
    ///
    /// # Panics
    /// When the card refuses a step.
    pub fn up(profile: Profile) -> Self {
        let mut driver = Self::new(profile);
        driver.bring_up();
        driver
    }

    /// From ENABLE_HCA to INIT_HCA.
    ///
    /// # Panics
    /// When the card refuses a step.
    pub fn bring_up(&mut self) {
        self.ok(
            Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA),
            12,
        );
        let issi = Input::new(raw::MLX5_CMD_OP_SET_ISSI).set(field!(set_issi_in, current_issi), 1);
        self.ok(issi, 16);
        self.give_startup_pages(1);
        self.give_startup_pages(2);
        self.ok(
            Input::<ifc::init_hca_in>::new(raw::MLX5_CMD_OP_INIT_HCA),
            16,
        );
    }

    /// Gives what QUERY_PAGES asks for.
    ///
    /// # Panics
    /// When the card refuses.
    pub fn give_startup_pages(&mut self, op_mod: u16) {
        let query = Input::<ifc::query_pages_in>::new(raw::MLX5_CMD_OP_QUERY_PAGES).op_mod(op_mod);
        let wanted = self.ok(query, 16).word(12);
        self.give_pages(wanted);
    }

    /// Gives fresh pages.
    ///
    /// # Panics
    /// When the card refuses.
    pub fn give_pages(&mut self, count: u32) {
        if count == 0 {
            return;
        }
        let first = self.machine.alloc(count as usize * 4096);
        let pages: Vec<u64> = (0..u64::from(count)).map(|n| first + 4096 * n).collect();
        let give = Input::new(raw::MLX5_CMD_OP_MANAGE_PAGES)
            .op_mod(1)
            .set(field!(manage_pages_in, input_num_entries), count.into())
            .list(&pages);
        self.ok(give, 16);
        self.pages.extend(pages);
    }

    /// Takes up to `count` pages back and checks that each was given. Returns how many came.
    ///
    /// # Panics
    /// When a page comes back that was not given.
    pub fn take_pages(&mut self, count: u32) -> usize {
        let take = Input::new(raw::MLX5_CMD_OP_MANAGE_PAGES)
            .op_mod(2)
            .set(field!(manage_pages_in, input_num_entries), count.into());
        let answer = self.ok(take, 16 + 8 * count as usize);
        let came = answer.word(8) as usize;
        for raw in answer.output[16..].chunks_exact(8).take(came) {
            let page = raw.iter().fold(0, |pa, byte| pa << 8 | u64::from(*byte));
            let at = self.pages.iter().position(|given| *given == page);
            self.pages.swap_remove(at.expect("the page was given"));
        }
        came
    }

    /// Writes the address of the command queue into the initialization segment.
    pub fn program_queue(&mut self) {
        let [high, low] = [(self.queue >> 32) as u32, self.queue as u32];
        self.card.bar_write(0x10, &high.to_be_bytes());
        self.card.bar_write(0x14, &low.to_be_bytes());
    }

    /// A dword of BAR0.
    pub fn bar32(&mut self, offset: u64) -> u32 {
        let mut raw = [0; 4];
        self.card.bar_read(offset, &mut raw);
        u32::from_be_bytes(raw)
    }

    fn chain(machine: &Machine, blocks: &mut Vec<u64>, len: usize, token: u8, data: &[u8]) -> u64 {
        let count = len.div_ceil(DATA);
        while blocks.len() < count {
            let page = machine.alloc(4096);
            blocks.extend((0..4).map(|n| page + BLOCK * n));
        }
        for index in 0..count {
            let mut block = [0u8; 576];
            let from = (index * DATA).min(data.len());
            let to = ((index + 1) * DATA).min(data.len());
            block[..to - from].copy_from_slice(&data[from..to]);
            let next = if index + 1 < count {
                blocks[index + 1]
            } else {
                0
            };
            block[0x230..0x238].copy_from_slice(&next.to_be_bytes());
            // CAST: few blocks.
            block[0x238..0x23c].copy_from_slice(&(index as u32).to_be_bytes());
            block[0x23d] = token;
            machine.poke(blocks[index], &block);
        }
        if count == 0 {
            0
        } else {
            blocks[0]
        }
    }

    /// Puts a command into a slot without ringing the doorbell.
    pub fn post(&mut self, slot: u8, input: &[u8], out_len: usize) {
        self.token = self.token.wrapping_add(1).max(1);
        let rest = input.get(16..).unwrap_or_default();
        let (machine, token) = (self.machine.clone(), self.token);
        let in_ptr = Self::chain(&machine, &mut self.input, rest.len(), token, rest);
        let out_rest = out_len.saturating_sub(16);
        let out_ptr = Self::chain(&machine, &mut self.output, out_rest, token, &[]);
        let mut entry = [0u8; ENTRY as usize];
        entry[0] = 7;
        // CAST: test lengths.
        entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
        entry[8..16].copy_from_slice(&in_ptr.to_be_bytes());
        let inline = input.len().min(16);
        entry[0x10..0x10 + inline].copy_from_slice(&input[..inline]);
        entry[0x30..0x38].copy_from_slice(&out_ptr.to_be_bytes());
        entry[0x38..0x3c].copy_from_slice(&(out_len as u32).to_be_bytes());
        entry[0x3c] = token;
        entry[0x3f] = 1;
        self.machine.poke(self.slot(slot), &entry);
    }

    /// Bus address of a slot.
    pub fn slot(&self, slot: u8) -> u64 {
        self.queue + u64::from(slot) * ENTRY
    }

    /// Rings the command doorbell.
    pub fn ring(&mut self, mask: u32) {
        self.card.bar_write(0x18, &mask.to_be_bytes());
    }

    /// The answer in a slot: `None` while the card owns it.
    pub fn answer(&self, slot: u8, out_len: usize) -> Option<Result<Answer, Delivery>> {
        let entry = self.machine.peek(self.slot(slot), ENTRY as usize);
        if entry[0x3f] & 1 == 1 {
            return None;
        }
        let delivery = Delivery::from_code(entry[0x3f] >> 1);
        if delivery != Some(Delivery::Ok) {
            return Some(Err(delivery.expect("a delivery status of the interface")));
        }
        let mut output = entry[0x20..0x30].to_vec();
        for block in &self.output {
            if output.len() >= out_len {
                break;
            }
            output.extend(self.machine.peek(*block, DATA));
        }
        output.truncate(out_len.max(8));
        Some(Ok(Answer {
            status: output[0],
            syndrome: u32::from_be_bytes([output[4], output[5], output[6], output[7]]),
            output,
        }))
    }

    /// Runs raw input bytes in slot 0.
    ///
    /// # Errors
    /// The delivery status, when the command was not even looked at.
    ///
    /// # Panics
    /// When the card does not answer at once.
    pub fn raw(&mut self, input: &[u8], out_len: usize) -> Result<Answer, Delivery> {
        self.post(0, input, out_len);
        self.ring(1);
        self.answer(0, out_len).expect("the card answers at once")
    }

    /// Runs a command.
    ///
    /// # Panics
    /// When it is not delivered.
    pub fn exec<L>(&mut self, input: Input<L>, out_len: usize) -> Answer {
        self.raw(&input.bytes, out_len).expect("delivered")
    }

    /// Runs a command that must succeed.
    ///
    /// # Panics
    /// When it does not.
    pub fn ok<L>(&mut self, input: Input<L>, out_len: usize) -> Answer {
        let answer = self.exec(input, out_len);
        let line = self.card.trace().since(0).last();
        let text = line.map_or("", |line| line.text.as_str());
        assert_eq!(answer.status, Status::Ok.code(), "{text}");
        answer
    }

    /// Runs a command that must be refused, and returns how: status and low half of the syndrome.
    ///
    /// # Panics
    /// When it succeeds.
    pub fn refused<L>(&mut self, input: Input<L>, out_len: usize) -> (Status, u16) {
        let answer = self.exec(input, out_len);
        let status = Status::from_code(answer.status).expect("a status of the interface");
        assert_ne!(status, Status::Ok, "the command should have been refused");
        // CAST: the low half is the point.
        (status, answer.syndrome as u16)
    }

    /// A doorbell page.
    pub fn alloc_uar(&mut self) -> u32 {
        self.ok(
            Input::<ifc::alloc_uar_in>::new(raw::MLX5_CMD_OP_ALLOC_UAR),
            16,
        )
        .number()
    }

    /// A protection domain.
    pub fn alloc_pd(&mut self) -> u32 {
        self.ok(
            Input::<ifc::alloc_pd_in>::new(raw::MLX5_CMD_OP_ALLOC_PD),
            16,
        )
        .number()
    }

    /// The input that creates an EQ of `1 << log` entries, and the address of its buffer.
    pub fn eq_input(
        &mut self,
        uar: u32,
        log: u32,
        vector: u16,
        events: &[u32],
    ) -> (Input<ifc::create_eq_in>, u64) {
        let bytes = 64usize << log;
        let buffer = self.machine.alloc(bytes);
        for index in 0..1u64 << log {
            self.machine.poke(buffer + 64 * index + 63, &[1]);
        }
        let pages: Vec<u64> = (0..bytes.div_ceil(4096) as u64)
            .map(|n| buffer + 4096 * n)
            .collect();
        let mut words = [0u64; 4];
        for event in events {
            words[(event / 64) as usize] |= 1 << (event % 64);
        }
        let input = Input::new(raw::MLX5_CMD_OP_CREATE_EQ)
            .set(
                field!(create_eq_in, eq_context_entry.log_eq_size),
                log.into(),
            )
            .set(field!(create_eq_in, eq_context_entry.uar_page), uar.into())
            .set(field!(create_eq_in, eq_context_entry.intr), vector.into())
            .set(field!(create_eq_in, event_bitmask[0]), words[0])
            .set(field!(create_eq_in, event_bitmask[1]), words[1])
            .set(field!(create_eq_in, event_bitmask[2]), words[2])
            .set(field!(create_eq_in, event_bitmask[3]), words[3])
            .list(&pages);
        (input, buffer)
    }

    /// An EQ for these events, armed.
    pub fn create_eq(&mut self, uar: u32, log: u32, vector: u16, events: &[u32]) -> EventQueue {
        let (input, buffer) = self.eq_input(uar, log, vector, events);
        let eqn = self.ok(input, 16).number() & 0xff;
        let queue = EventQueue {
            eqn,
            uar,
            buffer,
            log,
            consumer: 0,
        };
        self.update_eq(&queue, true);
        queue
    }

    /// Tells the card the consumer index of an EQ.
    pub fn update_eq(&mut self, queue: &EventQueue, arm: bool) {
        let word = queue.eqn << 24 | queue.consumer & 0xff_ffff;
        let offset = u64::from(queue.uar) * 4096 + if arm { 0x40 } else { 0x48 };
        self.card.bar_write(offset, &word.to_be_bytes());
    }

    /// The next entry of an EQ, if there is one; the card is not told.
    pub fn next_event(&self, queue: &mut EventQueue) -> Option<Event> {
        let slot = u64::from(queue.consumer & ((1 << queue.log) - 1));
        let raw = self.machine.peek(queue.buffer + 64 * slot, 64);
        if u32::from(raw[63] & 1) != queue.consumer >> queue.log & 1 {
            return None;
        }
        queue.consumer = queue.consumer.wrapping_add(1);
        let mut data = [0; 28];
        data.copy_from_slice(&raw[0x20..0x3c]);
        Some(Event {
            kind: raw[1],
            subtype: raw[3],
            data,
        })
    }

    /// Answers the page requests that wait in an EQ, as the stock driver's work item does. Returns
    /// the counts asked for.
    ///
    /// # Panics
    /// When the card refuses its own pages.
    pub fn serve_pages(&mut self, queue: &mut EventQueue) -> Vec<i32> {
        let mut asked = Vec::new();
        while let Some(event) = self.next_event(queue) {
            assert_eq!(u32::from(event.kind), raw::MLX5_EVENT_TYPE_PAGE_REQUEST);
            let [_, _, _, _, a, b, c, d, ..] = event.data;
            let count = i32::from_be_bytes([a, b, c, d]);
            asked.push(count);
            self.update_eq(queue, false);
            if count > 0 {
                self.give_pages_in(31, count.unsigned_abs());
            } else {
                self.take_pages(count.unsigned_abs());
            }
        }
        self.update_eq(queue, true);
        asked
    }

    /// Gives fresh pages through a slot of their own, while others may be busy.
    ///
    /// # Panics
    /// When the card refuses.
    pub fn give_pages_in(&mut self, slot: u8, count: u32) {
        let first = self.machine.alloc(count as usize * 4096);
        let pages: Vec<u64> = (0..u64::from(count)).map(|n| first + 4096 * n).collect();
        let give = Input::<ifc::manage_pages_in>::new(raw::MLX5_CMD_OP_MANAGE_PAGES)
            .op_mod(1)
            .set(field!(manage_pages_in, input_num_entries), count.into())
            .list(&pages);
        self.post(slot, &give.bytes, 16);
        self.ring(1 << slot);
        let answer = self
            .answer(slot, 16)
            .expect("page commands are never parked");
        assert_eq!(answer.expect("delivered").status, Status::Ok.code());
        self.pages.extend(pages);
    }
}
