// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What goes into a command and what comes back.

use std::marker::PhantomData;

use mlx5_hw::{
    field,
    field::{bytes_of, Field, Mut},
    ifc, raw,
};

/// Builds the input of one command.
pub struct Input<L> {
    /// The bytes so far; a list may be appended.
    pub bytes: Vec<u8>,
    layout: PhantomData<fn() -> L>,
}

impl<L> Input<L> {
    /// Zeroes with an opcode.
    pub fn new(opcode: u32) -> Self {
        let mut bytes = vec![0; bytes_of::<L>()];
        // CAST: opcodes are 16 bits wide.
        bytes[..2].copy_from_slice(&(opcode as u16).to_be_bytes());
        Self {
            bytes,
            layout: PhantomData,
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

impl Input<ifc::access_register_in> {
    /// ACCESS_REG: `data` is the register, to be written, or what a read asks.
    #[must_use]
    pub fn register(id: u64, read: bool, data: &[u8]) -> Self {
        let mut input = Self::new(raw::MLX5_CMD_OP_ACCESS_REG)
            .op_mod(read.into())
            .set(field!(access_register_in, register_id), id);
        input.bytes.extend_from_slice(data);
        input
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
