// SPDX-License-Identifier: GPL-2.0
//! States of send and receive queues that are not part of a QP.

use mlx5_hw::raw;

/// State of a queue, as the device counts; send and receive queues alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Reset,
    Ready,
    Error,
}

const _: () = assert!(
    raw::MLX5_SQC_STATE_RST == raw::MLX5_RQC_STATE_RST
        && raw::MLX5_SQC_STATE_RDY == raw::MLX5_RQC_STATE_RDY
        && raw::MLX5_SQC_STATE_ERR == raw::MLX5_RQC_STATE_ERR
);

impl State {
    pub(crate) const fn code(self) -> u64 {
        (match self {
            Self::Reset => raw::MLX5_RQC_STATE_RST,
            Self::Ready => raw::MLX5_RQC_STATE_RDY,
            Self::Error => raw::MLX5_RQC_STATE_ERR,
        }) as u64
    }

    pub(crate) fn parse(code: u64) -> Option<Self> {
        [Self::Reset, Self::Ready, Self::Error]
            .into_iter()
            .find(|state| state.code() == code)
    }
}
