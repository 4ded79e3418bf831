// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//! Numbers with which the device says how something went.

use crate::raw;

macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident: $($(#[$vmeta:meta])* $variant:ident = $value:expr, $text:literal;)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vmeta])* #[doc = $text] $variant = $value as u8,)+
        }

        impl $name {
            /// Every number there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The number as it is on the wire.
            pub const fn code(self) -> u8 {
                // CAST: `repr(u8)`.
                self as u8
            }

            /// Parses the number on the wire; `None` when the interface does not define it.
            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.code() == code)
            }

            /// A few words for a log line.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

numbers! {
    /// Command status, output byte 0. Source: `MLX5_CMD_STAT_*` in include/linux/mlx5/device.h.
    Status:
    Ok = raw::MLX5_CMD_STAT_OK, "ok";
    Internal = raw::MLX5_CMD_STAT_INT_ERR, "internal error";
    BadOp = raw::MLX5_CMD_STAT_BAD_OP_ERR, "unknown opcode or modifier";
    BadParam = raw::MLX5_CMD_STAT_BAD_PARAM_ERR, "bad parameter";
    BadSysState = raw::MLX5_CMD_STAT_BAD_SYS_STATE_ERR, "HCA in wrong state";
    BadRes = raw::MLX5_CMD_STAT_BAD_RES_ERR, "no such object";
    ResBusy = raw::MLX5_CMD_STAT_RES_BUSY, "object is in use";
    NotReady = raw::MLX5_CMD_STAT_NOT_READY, "not ready";
    Limit = raw::MLX5_CMD_STAT_LIM_ERR, "limit reached";
    BadResState = raw::MLX5_CMD_STAT_BAD_RES_STATE_ERR, "object in wrong state";
    BadIndex = raw::MLX5_CMD_STAT_IX_ERR, "index out of range";
    NoRes = raw::MLX5_CMD_STAT_NO_RES_ERR, "no resources";
    BadQpState = raw::MLX5_CMD_STAT_BAD_QP_STATE_ERR, "illegal QP transition";
    BadPacket = raw::MLX5_CMD_STAT_BAD_PKT_ERR, "management packet discarded";
    BadOutstandingCqes = raw::MLX5_CMD_STAT_BAD_SIZE_OUTS_CQES_ERR, "more CQEs than the new CQ holds";
    BadInputLen = raw::MLX5_CMD_STAT_BAD_INP_LEN_ERR, "bad input length";
    BadOutputLen = raw::MLX5_CMD_STAT_BAD_OUTP_LEN_ERR, "bad output length";
}

numbers! {
    /// Delivery status of a command queue entry, byte 0x3f bits 7:1. Source:
    /// `MLX5_CMD_DELIVERY_STAT_*` in drivers/net/ethernet/mellanox/mlx5/core/cmd.c.
    Delivery:
    Ok = 0x0, "ok";
    Signature = 0x1, "signature error";
    Token = 0x2, "token error";
    BlockNumber = 0x3, "bad block number";
    OutputAlignment = 0x4, "output pointer not aligned";
    InputAlignment = 0x5, "input pointer not aligned";
    Firmware = 0x6, "firmware internal error";
    InputLen = 0x7, "command input length error";
    OutputLen = 0x8, "command output length error";
    Reserved = 0x9, "reserved field is not zero";
    Descriptor = 0x10, "bad command type";
}

numbers! {
    /// Syndrome of an error CQE. Source: `MLX5_CQE_SYNDROME_*` in include/linux/mlx5/cq.h.
    Syndrome:
    LocalLength = raw::MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, "local length error";
    LocalQpOp = raw::MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, "local QP operation error";
    LocalProtection = raw::MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, "Local Protection Error";
    Flushed = raw::MLX5_CQE_SYNDROME_WR_FLUSH_ERR, "flushed";
    MwBind = raw::MLX5_CQE_SYNDROME_MW_BIND_ERR, "memory window bind error";
    BadResponse = raw::MLX5_CQE_SYNDROME_BAD_RESP_ERR, "bad response";
    LocalAccess = raw::MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, "local access error";
    RemoteInvalidRequest = raw::MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, "remote invalid request";
    RemoteAccess = raw::MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, "remote access error";
    RemoteOperation = raw::MLX5_CQE_SYNDROME_REMOTE_OP_ERR, "remote operation error";
    RetryExceeded = raw::MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, "transport retries exceeded";
    RnrRetryExceeded = raw::MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR, "RNR retries exceeded";
    RemoteAborted = raw::MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR, "remote aborted";
}
