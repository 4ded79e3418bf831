// SPDX-License-Identifier: GPL-2.0
//! The command interface: how the driver asks the firmware for something.
//!
//! One page of entries is shared with the device. A slot holds one command: up to 16 bytes inline,
//! the rest in a chain of mailbox blocks. The driver hands the slot over by an ownership bit and a
//! doorbell; the device clears the bit last, and raises a command EQE when the command EQ exists.
//!
//! | term | meaning |
//! |---|---|
//! | slot | index of an entry; bit of the doorbell and of the command EQE |
//! | delivery status | how the transport went; status and syndrome say how the command went |
//! | token | byte that ties an entry to the blocks of its chains |
//!
//! Rules (see notes on a device that lies): a completion counts only for a slot that is issued and
//! whose ownership bit is clear; a slot that timed out is not used again until the device answers
//! it or was reset; one verdict stops everything at once instead of one timeout per command.
//!
//! Lock order: 1. [`queue::Queue`]'s table; it is taken in hard interrupts and never held while
//! sleeping.

mod call;
mod handle;
pub(crate) mod mailbox;
pub(crate) mod queue;
pub(crate) mod room;
mod slot;

use kernel::{
    error::Error,
    fmt,
    prelude::*, //
};
use mlx5_hw::{
    field::{
        bytes_of,
        Mut,
        Ref, //
    },
    ifc, opcode_name,
    status::{
        Delivery,
        Status, //
    },
};

pub(crate) use call::MAX_LEN;
pub(crate) use handle::Cmd;

/// One command of the interface: one opcode, one type.
///
/// The transport fills opcode and modifier and checks status and syndrome; the type knows the rest.
pub(crate) trait Command {
    /// `MLX5_CMD_OP_*`.
    const OPCODE: u32;
    /// Layout of the fixed part of the input.
    type In;
    /// Layout of the fixed part of the output.
    type Out;
    /// What the caller gets.
    type Output;
    /// Page management has its own slot, so that it can overtake a command that waits for pages.
    const PAGES: bool = false;

    /// Operation modifier.
    fn op_mod(&self) -> u16 {
        0
    }

    /// Bytes of the list behind the fixed input.
    fn in_tail(&self) -> usize {
        0
    }

    /// Bytes of the list behind the fixed output.
    fn out_tail(&self) -> usize {
        0
    }

    /// Fills the input, which is zeroed and has opcode and modifier set.
    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result;

    /// Reads the output of a command that succeeded. `None`: the answer makes no sense.
    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Self::Output>;
}

/// Bytes of the input of `command`.
pub(crate) fn in_len<C: Command>(command: &C) -> usize {
    bytes_of::<C::In>().saturating_add(command.in_tail())
}

/// Bytes of the output of `command`.
pub(crate) fn out_len<C: Command>(command: &C) -> usize {
    bytes_of::<C::Out>().saturating_add(command.out_tail())
}

/// Why a command failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The device refused it: status byte and syndrome.
    Status(u8, u32),
    /// It was not delivered: delivery status.
    Delivery(u8),
    /// No answer in time, last look included.
    Timeout,
    /// The device is not there any more (all-ones).
    Gone,
    /// The device generation is over or the card has been declared broken, and the card does not reach
    /// memory any more.
    Dead,
    /// No slot or no memory; nothing was sent.
    Resources(Error),
    /// The input does not fit its fields; nothing was sent.
    Input(Error),
    /// The answer makes no sense.
    Answer,
}

/// A command that failed, with what is needed to find it in a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CmdError {
    /// `MLX5_CMD_OP_*`.
    pub(crate) opcode: u16,
    /// Operation modifier.
    pub(crate) op_mod: u16,
    /// Why.
    pub(crate) cause: Cause,
}

impl CmdError {
    /// Whether the device may still be working on it: what it was given must not be freed.
    pub(crate) fn in_doubt(&self) -> bool {
        matches!(self.cause, Cause::Timeout | Cause::Gone)
    }

    /// After a command that takes an object away: whether the object may be there still, with the memory
    /// that it was given.
    pub(crate) fn keeps_object(&self) -> bool {
        self.cause != Cause::Dead
    }

    /// Whether the device has no more of what the command makes.
    fn is_full(&self) -> bool {
        match self.cause {
            Cause::Status(code, _) => Status::from_code(code) == Some(Status::Limit),
            _ => false,
        }
    }
}

/// errno of a status. Source: `cmd_status_to_err` in core/cmd.c.
fn status_errno(code: u8) -> Error {
    match Status::from_code(code) {
        Some(
            Status::BadOp
            | Status::BadParam
            | Status::BadRes
            | Status::BadResState
            | Status::BadIndex
            | Status::BadQpState
            | Status::BadPacket
            | Status::BadOutstandingCqes,
        ) => EINVAL,
        Some(Status::ResBusy) => EBUSY,
        Some(Status::NotReady | Status::NoRes) => EAGAIN,
        Some(Status::Limit) => ENOMEM,
        _ => EIO,
    }
}

impl From<CmdError> for Error {
    fn from(error: CmdError) -> Self {
        match error.cause {
            Cause::Status(code, _) => status_errno(code),
            Cause::Delivery(_) | Cause::Answer => EIO,
            Cause::Timeout => ETIMEDOUT,
            Cause::Gone => ENODEV,
            Cause::Dead => EIO,
            Cause::Resources(error) | Cause::Input(error) => error,
        }
    }
}

impl fmt::Display for CmdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = opcode_name(self.opcode).unwrap_or("command");
        write!(f, "{} ({:#x}, mod {:#x}): ", name, self.opcode, self.op_mod)?;
        match self.cause {
            Cause::Status(code, syndrome) => {
                let text = Status::from_code(code).map_or("unknown status", Status::text);
                write!(f, "{text} (status {code:#x}, syndrome {syndrome:#x})")
            }
            Cause::Delivery(code) => {
                let text = Delivery::from_code(code).map_or("unknown", Delivery::text);
                write!(f, "not delivered: {text} ({code:#x})")
            }
            Cause::Timeout => write!(f, "no answer in time"),
            Cause::Gone => write!(f, "device is gone"),
            Cause::Dead => write!(f, "not sent, device is down"),
            Cause::Resources(error) => write!(f, "not sent, error {}", error.to_errno()),
            Cause::Input(error) => write!(f, "bad input, error {}", error.to_errno()),
            Cause::Answer => write!(f, "answer makes no sense"),
        }
    }
}

/// The header that every input starts with; ENABLE_HCA's has nothing in the way.
pub(crate) type Header = ifc::enable_hca_in;
/// The header that every output starts with.
pub(crate) type Reply = ifc::enable_hca_out;

/// What can look for command completions that came without an interrupt; the EQ code implements it.
pub(crate) trait CompletionSource: Send + Sync {
    /// Handles whatever is in the command EQ. Process context, bounded.
    fn poll(&self);
}

/// A command that only puts its fields into members of the input, and whose answer carries nothing but its
/// status, or one number: `=> MEMBER: TYPE` behind the name of the output.
#[macro_export]
macro_rules! plain_command {
    ($(#[$meta:meta])* $name:ident, $opcode:ident, $in:ident, $out:ident => $result:ident: $output:ty
        $(, $field:ident: $ty:ty => $member:ident)* $(,)?) => {
        $crate::plain_command!(@make [$(#[$meta])*] $name, $opcode, $in, $out, $output, |output| {
            output.get(::mlx5_hw::field!($out, $result)).try_into().ok()
        }, [$($field: $ty => $member)*]);
    };
    ($(#[$meta:meta])* $name:ident, $opcode:ident, $in:ident, $out:ident
        $(, $field:ident: $ty:ty => $member:ident)* $(,)?) => {
        $crate::plain_command!(@make [$(#[$meta])*] $name, $opcode, $in, $out, (), |_output| {
            Some(())
        }, [$($field: $ty => $member)*]);
    };
    (@make [$(#[$meta:meta])*] $name:ident, $opcode:ident, $in:ident, $out:ident, $output:ty,
        |$answer:ident| $parse:expr, [$($field:ident: $ty:ty => $member:ident)*]) => {
        $(#[$meta])*
        pub(crate) struct $name {
            $(
                /// Goes into the member of the same name of the layout.
                pub(crate) $field: $ty,
            )*
        }

        impl $crate::cmd::Command for $name {
            const OPCODE: u32 = ::mlx5_hw::raw::$opcode;
            type In = ::mlx5_hw::ifc::$in;
            type Out = ::mlx5_hw::ifc::$out;
            type Output = $output;

            fn fill(&self, _input: &mut ::mlx5_hw::field::Mut<'_, Self::In>) -> Result {
                $(_input.set(::mlx5_hw::field!($in, $member), self.$field.into());)*
                Ok(())
            }

            fn parse(
                &self,
                $answer: ::mlx5_hw::field::Ref<'_, Self::Out>,
            ) -> Option<$output> {
                $parse
            }
        }
    };
}
