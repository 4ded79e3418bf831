// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands: what one is, how it is refused, and the checks that all of them share.
//!
//! A command is a type that implements [`Command`]; it stands in the file of the object it deals
//! with and in one line of [`registry`]. Before [`Command::run`] sees it, the dispatcher has checked
//! opcode, lengths, uid, state of the HCA, op_mod, reserved bits and free firmware pages. `run`
//! either does all of it or changes nothing and says why.

pub mod absent;
pub mod exempt;
pub mod mailbox;
pub mod queue;
pub mod registry;

use mlx5_hw::{
    field::{Mut, Ref},
    status::Status,
};

use crate::{
    hca::{Hca, Phase},
    layout::Described,
};

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Output byte 0.
    pub status: Status,
    /// Low half of the syndrome; the upper half is the opcode. Tells refusals of one command
    /// apart: 1.. in the command itself, 0x7000.. in shared parsers, 0x8000.. in object tables,
    /// 0xf000.. in the dispatcher.
    pub code: u16,
    /// The log line.
    pub what: String,
}

impl Refused {
    /// A refusal.
    pub fn new(status: Status, code: u16, what: impl Into<String>) -> Self {
        Self {
            status,
            code,
            what: what.into(),
        }
    }
}

/// `refuse!(BadParam, 3, "CQ of 2^{log} entries")`: returns that refusal.
#[macro_export]
macro_rules! refuse {
    ($status:ident, $code:expr, $($text:tt)+) => {
        return Err($crate::cmd::Refused::new(
            ::mlx5_hw::status::Status::$status,
            $code,
            format!($($text)+),
        ))
    };
}

/// How far the HCA must have been brought up for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: ENABLE_HCA.
    Nothing,
    /// ENABLE_HCA has been done.
    Enabled,
    /// ENABLE_HCA has been done, INIT_HCA not.
    EnabledOnly,
    /// INIT_HCA has been done.
    Init,
}

/// One opcode.
pub trait Command {
    /// `MLX5_CMD_OP_*`.
    const OPCODE: u32;
    /// Layout of the input. Fixes its length; a list behind it may have any number of elements
    /// (`run` says how many it wants).
    type In: Described;
    /// Layout of the output. Fixes its least length.
    type Out: Described;
    /// Needed state.
    const NEEDS: Needs = Needs::Init;

    /// Whether there is such an op_mod.
    fn op_mod(op_mod: u16) -> bool {
        op_mod == 0
    }

    /// Firmware memory that the command needs if it succeeds, in bytes: the footprint of the
    /// object it creates.
    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        0
    }

    /// Does it. The output is zero at first and is sent as it is left.
    ///
    /// # Errors
    /// When refused; then nothing has changed.
    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused>;
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done; the output is filled.
    Done,
    /// Refused; status and syndrome are in the output.
    Refused(Refused),
    /// Waits for firmware pages that have been asked for.
    Parked,
}

/// Runs a command. `input` and `output` have the lengths that the entry says; status and syndrome
/// are put into the output, which is at least 16 bytes (the inline part of the entry).
pub fn execute(hca: &mut Hca, input: &[u8], out_len: usize, output: &mut [u8]) -> Verdict {
    match checked(hca, input, out_len, output) {
        Ok(done) => done,
        Err(refused) => {
            hca.vnic.invalid_commands = hca.vnic.invalid_commands.wrapping_add(1);
            output.fill(0);
            let opcode = opcode(input);
            if let [status, _, _, _, syndrome @ ..] = output {
                *status = refused.status.code();
                let word = u32::from(opcode) << 16 | u32::from(refused.code);
                if let Some(place) = syndrome.get_mut(..4) {
                    place.copy_from_slice(&word.to_be_bytes());
                }
            }
            Verdict::Refused(refused)
        }
    }
}

/// Opcode of an input.
pub fn opcode(input: &[u8]) -> u16 {
    half(input, 0)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

fn checked(
    hca: &mut Hca,
    input: &[u8],
    out_len: usize,
    output: &mut [u8],
) -> Result<Verdict, Refused> {
    let opcode = opcode(input);
    let Some(entry) = registry::find(opcode) else {
        refuse!(BadOp, 0xf001, "opcode {opcode:#x} is not known");
    };
    check_lengths(entry, input, out_len)?;
    if input.get(2..4) != Some(&[0, 0]) && entry.input.find("uid").is_some() {
        refuse!(
            BadParam,
            0xf004,
            "uid {:#x}: user contexts are not offered",
            half(input, 2)
        );
    }
    check_phase(hca, entry)?;
    let op_mod = half(input, 6);
    if !(entry.op_mod)(op_mod) {
        refuse!(BadOp, 0xf006, "op_mod {op_mod:#x} is not known");
    }
    exempt::check_reserved(opcode, entry.input, input)?;
    let footprint = (entry.footprint)(input);
    if footprint > 0 && !hca.pages_for(footprint) {
        if hca.request_pages_for(footprint) {
            return Ok(Verdict::Parked);
        }
        refuse!(
            NoRes,
            0xf008,
            "no firmware pages for {footprint} more bytes"
        );
    }
    (entry.run)(hca, input, output)?;
    hca.balance_pages();
    Ok(Verdict::Done)
}

fn check_lengths(entry: &registry::Entry, input: &[u8], out_len: usize) -> Result<(), Refused> {
    let fixed = entry.input.bytes();
    let fits = match entry.input.list() {
        None => input.len() == fixed,
        Some((at, element)) => input.len() >= fixed && (input.len() - at) % element.step() == 0,
    };
    if !fits {
        refuse!(
            BadInputLen,
            0xf002,
            "input of {:#x} bytes, {} is {fixed:#x}",
            input.len(),
            entry.input.name
        );
    }
    if out_len < entry.output.bytes() {
        refuse!(
            BadOutputLen,
            0xf003,
            "output of {out_len:#x} bytes, {} is {:#x}",
            entry.output.name,
            entry.output.bytes()
        );
    }
    Ok(())
}

fn check_phase(hca: &Hca, entry: &registry::Entry) -> Result<(), Refused> {
    let ready = match entry.needs {
        Needs::Nothing => true,
        Needs::Enabled => hca.phase != Phase::Off,
        Needs::EnabledOnly => hca.phase == Phase::Enabled,
        Needs::Init => hca.phase == Phase::Initialized,
    };
    if !ready {
        refuse!(
            BadSysState,
            0xf005,
            "HCA is {:?}, the command needs {:?}",
            hca.phase,
            entry.needs
        );
    }
    Ok(())
}
