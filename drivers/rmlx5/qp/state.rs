// SPDX-License-Identifier: GPL-2.0
//! States of a QP and the commands between them.

use mlx5_hw::raw;

/// State of an RC QP as the driver moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpState {
    /// Nothing is processed; the device has forgotten all posted WQEs.
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Every WQE is flushed.
    Error,
}

/// A step from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// RST2INIT_QP.
    RstToInit,
    /// INIT2RTR_QP.
    InitToRtr,
    /// RTR2RTS_QP.
    RtrToRts,
    /// 2ERR_QP.
    ToError,
    /// 2RST_QP.
    ToReset,
}

impl QpState {
    /// Parses the state in a QP context. States that driver-owned QPs never have (SQD, SQER...)
    /// are `None`.
    pub(crate) fn from_context(state: u32) -> Option<Self> {
        match state {
            raw::MLX5_QP_STATE_RST => Some(Self::Reset),
            raw::MLX5_QP_STATE_INIT => Some(Self::Init),
            raw::MLX5_QP_STATE_RTR => Some(Self::Rtr),
            raw::MLX5_QP_STATE_RTS => Some(Self::Rts),
            raw::MLX5_QP_STATE_ERR => Some(Self::Error),
            _ => None,
        }
    }

    /// The state after `step`; `None` when the interface does not allow it from here.
    /// Source: `optab` in ib/qp.c.
    pub(crate) fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (_, Step::ToReset) => Some(Self::Reset),
            (_, Step::ToError) => Some(Self::Error),
            (Self::Reset, Step::RstToInit) => Some(Self::Init),
            (Self::Init, Step::InitToRtr) => Some(Self::Rtr),
            (Self::Rtr, Step::RtrToRts) => Some(Self::Rts),
            _ => None,
        }
    }

    /// Whether the device takes receives that are posted now.
    pub(crate) fn takes_receives(self) -> bool {
        self != Self::Reset
    }

    /// Name for reports and log lines.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Error => "ERROR",
        }
    }
}
