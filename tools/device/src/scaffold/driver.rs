// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A driver for tests: it posts commands through the real command queue and watches an EQ.

mod input;
mod objects;

use mlx5_hw::{
    field, ifc, raw,
    status::{Delivery, Status},
};

pub use input::{Answer, Input};
pub use objects::{Event, EventQueue};

use super::Machine;
use crate::{card::Card, profile::Profile};

const ENTRY: u64 = 64;
const BLOCK: u64 = 1024;
const DATA: usize = 512;

/// XOR over bytes: all ones over whatever carries its own checksum.
pub fn xor(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum ^ byte)
}

/// A machine with a card and a driver on it.
pub struct Driver {
    /// The machine.
    pub machine: Machine,
    /// The card.
    pub card: Card,
    /// Bus address of the command queue.
    pub queue: u64,
    /// Whether commands carry checksums (`cmdif_checksum` is 3).
    pub signed: bool,
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
            signed: false,
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

    fn chain(
        machine: &Machine,
        blocks: &mut Vec<u64>,
        len: usize,
        (token, signed): (u8, bool),
        data: &[u8],
    ) -> u64 {
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
            if signed {
                block[0x23e] = !xor(&block[DATA..0x23e]);
                block[0x23f] = !xor(&block[..0x23f]);
            }
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
        let (machine, token) = (self.machine.clone(), (self.token, self.signed));
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
        entry[0x3c] = self.token;
        entry[0x3f] = 1;
        // The stock driver signs the entry always (`set_signature` in core/cmd.c).
        entry[0x3d] = !xor(&entry);
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

    /// The whole entry in a slot, and the output blocks of `out_len` bytes, as the card left them.
    pub fn left(&self, slot: u8, out_len: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let count = out_len.saturating_sub(16).div_ceil(DATA);
        let blocks = self.output.iter().take(count);
        (
            self.machine.peek(self.slot(slot), ENTRY as usize),
            blocks.map(|block| self.machine.peek(*block, 576)).collect(),
        )
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
}
