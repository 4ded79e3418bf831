// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults that a person orders: each happens once (or `count` times) and is then used up.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::cq::{Cqe, CQE_LEN};

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fault")]
pub enum Fault {
    /// The context of a QP is found corrupted: the QP goes to ERROR with a catastrophic event.
    QpContext {
        /// Number of the QP.
        qpn: u32,
    },
    /// The card loses its way to the memory of a CQ: one error event, and no completion any more.
    CqContext {
        /// Number of the CQ.
        cqn: u32,
    },
    /// The health buffer shows this syndrome from now on, until a reset.
    Health {
        /// `MLX5_INITIAL_SEG_HEALTH_SYNDROME_*`.
        syndrome: u8,
        /// Whether a driver may ask for a software reset (rfr bit and initializing bit 30).
        #[serde(default)]
        reset_request: bool,
    },
    /// The next interrupts of a vector are lost.
    SwallowInterrupt {
        /// MSI-X vector.
        vector: u16,
        /// How many.
        #[serde(default = "once")]
        count: u32,
    },
    /// The next commands are never answered.
    SwallowCommand {
        /// Only this opcode; any when absent.
        #[serde(default)]
        opcode: Option<u16>,
        /// How many.
        #[serde(default = "once")]
        count: u32,
    },
    /// The next commands are answered late.
    DelayCommand {
        /// Only this opcode; any when absent.
        #[serde(default)]
        opcode: Option<u16>,
        /// By how long, in milliseconds.
        millis: u64,
        /// How many.
        #[serde(default = "once")]
        count: u32,
    },
    /// The next commands end with a status of our choice and change nothing.
    FailCommand {
        /// Only this opcode; any when absent.
        #[serde(default)]
        opcode: Option<u16>,
        /// `MLX5_CMD_STAT_*`.
        status: u8,
        /// How many.
        #[serde(default = "once")]
        count: u32,
    },
    /// A command completion event for these slots is posted now, whatever they hold.
    SpuriousCommandEvent {
        /// Mask of slots.
        slots: u32,
    },
    /// The next command completion events are posted twice.
    DuplicateCommandEvent {
        /// How many.
        #[serde(default = "once")]
        count: u32,
    },
    /// The next completions of a CQ lie: bits of one of their dwords are turned over. The owner bit is
    /// right all the same.
    SpoilCqe {
        /// Number of the CQ.
        cqn: u32,
        /// Offset of the dword in bytes, 0 to 60.
        at: usize,
        /// Bits of the dword, as it is read in the order of the wire.
        bits: u32,
        /// How many completions.
        #[serde(default = "once")]
        count: u32,
    },
}

const fn once() -> u32 {
    1
}

/// A fault that cannot be done now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FaultError(pub String);

/// What a fault does to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFault {
    /// Never answer.
    Swallow,
    /// Answer after this long.
    Delay(Duration),
    /// Answer with this status.
    Fail(u8),
}

#[derive(Debug)]
struct OnCommand {
    opcode: Option<u16>,
    action: CommandFault,
    left: u32,
}

#[derive(Debug)]
struct OnCqe {
    cqn: u32,
    at: usize,
    bits: u32,
    left: u32,
}

/// The faults still to happen.
#[derive(Debug, Default)]
pub struct Faults {
    interrupts: BTreeMap<u16, u32>,
    commands: Vec<OnCommand>,
    duplicates: u32,
    cqes: Vec<OnCqe>,
}

impl Faults {
    /// Remembers a fault that waits for its occasion; gives back one that is to happen now.
    pub fn order(&mut self, fault: Fault) -> Option<Fault> {
        match fault {
            Fault::SwallowInterrupt { vector, count } => {
                *self.interrupts.entry(vector).or_default() += count;
            }
            Fault::SwallowCommand { opcode, count } => {
                self.on_command(opcode, CommandFault::Swallow, count);
            }
            Fault::DelayCommand {
                opcode,
                millis,
                count,
            } => {
                let delay = CommandFault::Delay(Duration::from_millis(millis));
                self.on_command(opcode, delay, count);
            }
            Fault::FailCommand {
                opcode,
                status,
                count,
            } => self.on_command(opcode, CommandFault::Fail(status), count),
            Fault::DuplicateCommandEvent { count } => self.duplicates += count,
            Fault::SpoilCqe {
                cqn,
                at,
                bits,
                count,
            } if at % 4 == 0 && at < CQE_LEN => self.cqes.push(OnCqe {
                cqn,
                at,
                bits,
                left: count,
            }),
            now => return Some(now),
        }
        None
    }

    fn on_command(&mut self, opcode: Option<u16>, action: CommandFault, left: u32) {
        self.commands.push(OnCommand {
            opcode,
            action,
            left,
        });
    }

    /// Whether the next interrupt of `vector` is lost; uses the fault up.
    pub fn swallow_interrupt(&mut self, vector: u16) -> bool {
        match self.interrupts.get_mut(&vector) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// What happens to a command with this opcode; uses the fault up.
    pub fn command(&mut self, opcode: u16) -> Option<CommandFault> {
        let fault = self
            .commands
            .iter_mut()
            .find(|fault| fault.left > 0 && fault.opcode.is_none_or(|only| only == opcode))?;
        fault.left -= 1;
        let action = fault.action;
        self.commands.retain(|fault| fault.left > 0);
        Some(action)
    }

    /// What the next completion of a CQ is made of instead; uses the fault up.
    pub fn completion(&mut self, cqn: u32, cqe: Cqe) -> Cqe {
        let Some(fault) = self.cqes.iter_mut().find(|fault| fault.cqn == cqn) else {
            return cqe;
        };
        fault.left = fault.left.saturating_sub(1);
        let spoilt = cqe.turned(fault.at, fault.bits);
        self.cqes.retain(|fault| fault.left > 0);
        spoilt
    }

    /// Whether the next command event is posted twice; uses the fault up.
    pub fn duplicate_event(&mut self) -> bool {
        let yes = self.duplicates > 0;
        self.duplicates = self.duplicates.saturating_sub(1);
        yes
    }
}
