// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State transitions, as data: from which states, to which state, which fields count always and
//! which under which bit of the optional parameter mask.
//!
//! A field is taken from the command if it is mandatory for the transition or its bit is set; all
//! others keep their values. Source of the masks: `opt_mask` and `__mlx5_ib_modify_qp` in ib/qp.c,
//! `enum mlx5_qp_optpar` in include/linux/mlx5/qp.h.

use crate::qp::{Kind, State};
use mlx5_hw::{field, field::Field, ifc};

type Fields = &'static [Field<ifc::qpc>];

/// What a transition does with one kind of QP.
pub(super) struct Rule {
    /// Always taken.
    pub(super) mandatory: Fields,
    /// The primary path is taken (all but P_Key index and timeout).
    pub(super) path: bool,
    /// Bits that may be set in the mask.
    pub(super) optional: u32,
}

pub(super) mod bit {
    use mlx5_hw::raw;
    pub(in super::super) const ALT_PATH: u32 = raw::MLX5_QP_OPTPAR_ALT_ADDR_PATH;
    pub(in super::super) const RRE: u32 = raw::MLX5_QP_OPTPAR_RRE;
    pub(in super::super) const RAE: u32 = raw::MLX5_QP_OPTPAR_RAE;
    pub(in super::super) const RWE: u32 = raw::MLX5_QP_OPTPAR_RWE;
    pub(in super::super) const PKEY: u32 = raw::MLX5_QP_OPTPAR_PKEY_INDEX;
    pub(in super::super) const QKEY: u32 = raw::MLX5_QP_OPTPAR_Q_KEY;
    pub(in super::super) const RNR: u32 = raw::MLX5_QP_OPTPAR_RNR_TIMEOUT;
    pub(in super::super) const PATH: u32 = raw::MLX5_QP_OPTPAR_PRIMARY_ADDR_PATH;
    pub(in super::super) const SRA: u32 = raw::MLX5_QP_OPTPAR_SRA_MAX;
    pub(in super::super) const RRA: u32 = raw::MLX5_QP_OPTPAR_RRA_MAX;
    pub(in super::super) const PM: u32 = raw::MLX5_QP_OPTPAR_PM_STATE;
    pub(in super::super) const RETRY: u32 = raw::MLX5_QP_OPTPAR_RETRY_COUNT;
    pub(in super::super) const RNR_RETRY: u32 = raw::MLX5_QP_OPTPAR_RNR_RETRY;
    pub(in super::super) const TIMEOUT: u32 = raw::MLX5_QP_OPTPAR_ACK_TIMEOUT;
    pub(in super::super) const LAG: u32 = raw::MLX5_QP_OPTPAR_LAG_TX_AFF;
    pub(in super::super) const PORT: u32 = raw::MLX5_QP_OPTPAR_PRI_PORT;
    pub(in super::super) const COUNTER: u32 = raw::MLX5_QP_OPTPAR_COUNTER_SET_ID;
}

/// Fields behind single bits of the mask. The paths are handled apart.
pub(super) const OPTIONAL: &[(u32, Field<ifc::qpc>)] = &[
    (bit::RRE, field!(qpc, rre)),
    (bit::RAE, field!(qpc, rae)),
    (bit::RWE, field!(qpc, rwe)),
    (bit::PKEY, field!(qpc, primary_address_path.pkey_index)),
    (bit::QKEY, field!(qpc, q_key)),
    (bit::RNR, field!(qpc, min_rnr_nak)),
    (bit::SRA, field!(qpc, log_sra_max)),
    (bit::RRA, field!(qpc, log_rra_max)),
    (bit::PM, field!(qpc, pm_state)),
    (bit::RETRY, field!(qpc, retry_count)),
    (bit::RNR_RETRY, field!(qpc, rnr_retry)),
    (bit::TIMEOUT, field!(qpc, primary_address_path.ack_timeout)),
    (bit::LAG, field!(qpc, lag_tx_port_affinity)),
    (bit::PORT, field!(qpc, primary_address_path.vhca_port_num)),
    (bit::COUNTER, field!(qpc, counter_set_id)),
];

const INIT: Fields = &[
    field!(qpc, pm_state),
    field!(qpc, pd),
    field!(qpc, counter_set_id),
    field!(qpc, rlky),
    field!(qpc, primary_address_path.pkey_index),
    field!(qpc, primary_address_path.vhca_port_num),
    field!(qpc, rre),
    field!(qpc, rwe),
    field!(qpc, rae),
    field!(qpc, atomic_mode),
    field!(qpc, q_key),
    field!(qpc, log_ack_req_freq),
];
const RTR_RC: Fields = &[
    field!(qpc, mtu),
    field!(qpc, log_msg_max),
    field!(qpc, remote_qpn),
    field!(qpc, next_rcv_psn),
    field!(qpc, min_rnr_nak),
    field!(qpc, log_rra_max),
    field!(qpc, atomic_mode),
];
const RTR_UC: Fields = &[
    field!(qpc, mtu),
    field!(qpc, log_msg_max),
    field!(qpc, remote_qpn),
    field!(qpc, next_rcv_psn),
];
const RTR_UD: Fields = &[field!(qpc, mtu), field!(qpc, log_msg_max)];
const RTS_RC: Fields = &[
    field!(qpc, next_send_psn),
    field!(qpc, log_sra_max),
    field!(qpc, retry_count),
    field!(qpc, rnr_retry),
    field!(qpc, log_ack_req_freq),
    field!(qpc, primary_address_path.ack_timeout),
];
const RTS_OTHER: Fields = &[field!(qpc, next_send_psn)];

/// One of the commands that change a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    RstToInit,
    InitToInit,
    InitToRtr,
    RtrToRts,
    RtsToRts,
    SqerToRts,
}

impl Step {
    pub(super) fn from(self) -> State {
        match self {
            Self::RstToInit => State::Rst,
            Self::InitToInit | Self::InitToRtr => State::Init,
            Self::RtrToRts => State::Rtr,
            Self::RtsToRts => State::Rts,
            Self::SqerToRts => State::Sqer,
        }
    }

    pub(super) fn to(self) -> State {
        match self {
            Self::RstToInit | Self::InitToInit => State::Init,
            Self::InitToRtr => State::Rtr,
            Self::RtrToRts | Self::RtsToRts | Self::SqerToRts => State::Rts,
        }
    }

    pub(super) fn rule(self, kind: Kind) -> Rule {
        use Kind::{Gsi, Rc, Uc, Ud, Umr, Xrc};
        let rights = bit::RRE | bit::RAE | bit::RWE;
        let (mandatory, path, optional): (Fields, bool, u32) = match (self, kind) {
            (Self::RstToInit, _) => (INIT, false, 0),
            (Self::InitToInit, Rc | Xrc) => (&[], false, rights | bit::PKEY | bit::LAG | bit::PORT),
            (Self::InitToInit, Uc) => (&[], false, bit::RWE | bit::PKEY | bit::LAG | bit::PORT),
            (Self::InitToInit, Ud | Gsi) => (&[], false, bit::PKEY | bit::QKEY | bit::PORT),
            (Self::InitToRtr, Rc | Xrc) => {
                let optional = bit::ALT_PATH | rights | bit::PKEY | bit::LAG;
                (RTR_RC, true, optional)
            }
            (Self::InitToRtr, Uc) => {
                let optional = bit::ALT_PATH | bit::RWE | bit::PKEY | bit::LAG;
                (RTR_UC, true, optional)
            }
            (Self::InitToRtr, Ud | Gsi) => (RTR_UD, false, bit::PKEY | bit::QKEY),
            (Self::InitToRtr, Umr) => (RTR_UD, false, 0),
            (Self::RtrToRts, Rc | Xrc) => {
                (RTS_RC, false, bit::ALT_PATH | rights | bit::RNR | bit::PM)
            }
            (Self::RtrToRts, Uc) => (RTS_OTHER, false, bit::ALT_PATH | bit::RWE | bit::PM),
            (Self::RtrToRts, Ud | Gsi) => (RTS_OTHER, false, bit::QKEY),
            (Self::RtsToRts, Rc | Xrc) => {
                let optional = bit::ALT_PATH | rights | bit::RNR | bit::PM | bit::COUNTER;
                (&[], false, optional)
            }
            (Self::RtsToRts, Uc) => {
                let optional = bit::ALT_PATH | bit::RWE | bit::PM | bit::COUNTER;
                (&[], false, optional)
            }
            (Self::RtsToRts, Ud | Gsi) => (&[], false, bit::QKEY | bit::COUNTER),
            (Self::SqerToRts, Rc | Xrc) => (&[], false, rights | bit::RNR),
            (Self::SqerToRts, Uc) => (&[], false, bit::RWE),
            (Self::SqerToRts, Ud | Gsi) => (&[], false, bit::QKEY),
            (_, Umr) => (&[], false, 0),
        };
        Rule {
            mandatory,
            path,
            optional,
        }
    }
}
