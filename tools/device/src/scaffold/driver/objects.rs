// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware pages, doorbell pages, domains and event queues, as a driver handles them.

use mlx5_hw::{field, ifc, raw, status::Status};

use super::{Driver, Input};

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

impl Driver {
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
