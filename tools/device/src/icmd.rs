// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command interface of tools and boot programs ("ICMD"): a mailbox behind the vendor gateway, worked while the
//! driver's command queue may be anywhere.
//!
//! Addresses, control word and the two TLVs of a register access: iPXE's mlx_icmd.h and mlx_reg_access.h, mstflint's
//! mtcr_icmd_cif.c; capabilities: its icmd_hca_layouts.h. Of the commands two are offered, the register access, with the
//! registers that ACCESS_REG has, and the query of general capabilities.
//!
//! | address | what |
//! |---|---|
//! | 0 | opcode in the upper half, status in bits 8 to 15, busy in bit 0 |
//! | 0x1000 | bytes of the mailbox |
//! | 0x100000 | mailbox |

use crate::{hca::Hca, register};

const CONTROL: u32 = 0;
const SIZE: u32 = 0x1000;
const MAILBOX: u32 = 0x10_0000;
/// Bytes of the mailbox.
const LEN: usize = 0x300;

const BUSY: u32 = 1;

const REGISTER_ACCESS: u32 = 0x9001;
const QUERY_CAPABILITIES: u32 = 0x8400;

/// General capabilities: MCAM exists, and every register can be reached by ICMD.
const GENERAL: u32 = 1 << 26 | 1 << 29;

const OK: u32 = 0;
const INVALID_OPCODE: u32 = 1;
const BAD_PARAM: u32 = 4;

/// Types of the TLVs, in bits 27 to 31 of their first words; lengths in words are below.
const TLV_OPERATION: u32 = 1;
const TLV_REGISTER: u32 = 3;
const TLV_OPERATION_WORDS: usize = 4;
const CLASS_REGISTER: u32 = 1;
const METHOD_QUERY: u32 = 1;
const METHOD_WRITE: u32 = 2;

/// Status in the operation TLV (`MAD` statuses of mstflint's reg_access.c).
const REGISTER_OK: u32 = 0;
const UNKNOWN_TLV: u32 = 3;
const REGISTER_NOT_SUPPORTED: u32 = 4;
const CLASS_NOT_SUPPORTED: u32 = 5;
const METHOD_NOT_SUPPORTED: u32 = 6;
const BAD_REGISTER_PARAM: u32 = 7;

/// The mailbox and the last control word.
#[derive(Debug)]
pub struct Icmd {
    control: u32,
    mailbox: Box<[u32; LEN / 4]>,
}

impl Default for Icmd {
    fn default() -> Self {
        Self {
            control: 0,
            mailbox: Box::new([0; LEN / 4]),
        }
    }
}

impl Icmd {
    fn word(&mut self, at: u32) -> Option<&mut u32> {
        let inside = at.checked_sub(MAILBOX).filter(|inside| inside % 4 == 0)?;
        self.mailbox.get_mut(inside as usize / 4)
    }
}

/// Reads a word; `None` where there is nothing.
pub fn read(hca: &mut Hca, at: u32) -> Option<u32> {
    match at {
        CONTROL => Some(hca.icmd.control),
        // CAST: a constant.
        SIZE => Some(LEN as u32),
        at => hca.icmd.word(at).map(|word| *word),
    }
}

/// Writes a word; the busy bit starts the command, which is over before the next access. False where nothing can be
/// written.
pub fn write(hca: &mut Hca, at: u32, value: u32) -> bool {
    if at == CONTROL {
        hca.icmd.control = value & !BUSY;
        if value & BUSY != 0 {
            let status = run(hca, value >> 16);
            hca.icmd.control = value & 0xffff_0000 | status << 8;
        }
        return true;
    }
    match hca.icmd.word(at) {
        Some(word) => {
            *word = value;
            true
        }
        None => false,
    }
}

fn run(hca: &mut Hca, opcode: u32) -> u32 {
    match opcode {
        REGISTER_ACCESS => access_register(hca),
        QUERY_CAPABILITIES => query_capabilities(hca),
        _ => {
            tracing::debug!("ICMD {opcode:#x} is not offered");
            INVALID_OPCODE
        }
    }
}

fn query_capabilities(hca: &mut Hca) -> u32 {
    let [first, second, ..] = hca.icmd.mailbox.as_mut();
    let group = *first & 0xffff;
    if group != 0 {
        tracing::debug!("ICMD: no capability group {group:#x}");
        return BAD_PARAM;
    }
    (*first, *second) = (GENERAL, 0);
    OK
}

fn access_register(hca: &mut Hca) -> u32 {
    let words = *hca.icmd.mailbox;
    let Some(status) = access(hca, &words) else {
        return BAD_PARAM;
    };
    if let Some(word) = hca.icmd.mailbox.first_mut() {
        *word = *word & !0x7f00 | status << 8;
    }
    OK
}

/// A register access; the status for its operation TLV, or `None` for a mailbox that is not one.
fn access(hca: &mut Hca, words: &[u32; LEN / 4]) -> Option<u32> {
    let tlv = |word: u32| (word >> 27, (word >> 16 & 0x7ff) as usize);
    let (operation, detail) = (words[0], words[1]);
    let register = words[TLV_OPERATION_WORDS];
    if tlv(operation) != (TLV_OPERATION, TLV_OPERATION_WORDS) {
        return None;
    }
    let (kind, len) = tlv(register);
    if kind != TLV_REGISTER {
        return Some(UNKNOWN_TLV);
    }
    if detail & 0xff != CLASS_REGISTER {
        return Some(CLASS_NOT_SUPPORTED);
    }
    let start = TLV_OPERATION_WORDS + 1;
    let data = words.get(start..(TLV_OPERATION_WORDS + len).max(start))?;
    let input: Vec<u8> = data.iter().flat_map(|word| word.to_be_bytes()).collect();
    let id = u64::from(detail >> 16);
    let reads = match detail >> 8 & 0x7f {
        METHOD_QUERY => true,
        METHOD_WRITE => false,
        _ => return Some(METHOD_NOT_SUPPORTED),
    };
    if !register::exists(id) {
        return Some(REGISTER_NOT_SUPPORTED);
    }
    let mut output = vec![0; input.len()];
    if let Err(refused) = register::access(hca, id, reads, &input, &mut output) {
        tracing::debug!("ICMD: register {id:#x}: {refused:?}");
        return Some(BAD_REGISTER_PARAM);
    }
    let places = hca.icmd.mailbox.iter_mut().skip(start);
    for (place, bytes) in places.zip(output.chunks_exact(4)) {
        *place = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    Some(REGISTER_OK)
}
