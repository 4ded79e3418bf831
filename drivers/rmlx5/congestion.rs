// SPDX-License-Identifier: GPL-2.0
//! What the port counts of congestion: packets that were marked on their way, and the notifications
//! that tell their senders.
//!
//! The notification point (NP) is the side that receives marked packets, the reaction point (RP) the one that
//! sent them. Source: `cong_cnts` and `mlx5_ib_get_hw_stats` in ib/counters.c, `mlx5_cmd_query_cong_counter`
//! in core/lag/lag.c; capability `cc_query_allowed`.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw, //
};

use crate::cmd::{
    Cmd,
    CmdError,
    Command, //
};

/// Number of counters.
pub(crate) const COUNT: usize = 4;

/// Their names, which are those of the stock driver.
pub(crate) const NAMES: [&CStr; COUNT] = [
    c"rp_cnp_ignored",
    c"rp_cnp_handled",
    c"np_ecn_marked_roce_packets",
    c"np_cnp_sent",
];

struct Query;

impl Command for Query {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_CONG_STATISTICS;
    type In = ifc::query_cong_statistics_in;
    type Out = ifc::query_cong_statistics_out;
    type Output = [u64; COUNT];

    /// The counters are not cleared: others may look at them too.
    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<[u64; COUNT]> {
        macro_rules! wide {
            ($high:ident, $low:ident) => {
                output.get(field!(query_cong_statistics_out, $high)) << 32
                    | output.get(field!(query_cong_statistics_out, $low))
            };
        }
        Some([
            wide!(rp_cnp_ignored_high, rp_cnp_ignored_low),
            wide!(rp_cnp_handled_high, rp_cnp_handled_low),
            wide!(
                np_ecn_marked_roce_packets_high,
                np_ecn_marked_roce_packets_low
            ),
            wide!(np_cnp_sent_high, np_cnp_sent_low),
        ])
    }
}

/// What the port has counted, in the order of [`NAMES`]. Sleeps.
pub(crate) fn query(cmd: &Cmd) -> Result<[u64; COUNT], CmdError> {
    cmd.exec(&Query)
}
