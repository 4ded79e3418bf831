// SPDX-License-Identifier: GPL-2.0
//! A QP as the device sees it.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use crate::cmd::Command;

/// QUERY_QP.
pub(crate) struct QueryQp {
    /// Which one.
    pub(super) number: u32,
}

/// What QUERY_QP says. Codes are those of the interface and not checked, but no wider than their
/// field. Source: `query_qp_attr` in ib/qp.c.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot {
    /// `MLX5_QP_STATE_*`.
    pub(crate) state: u32,
    /// Code of the path MTU.
    pub(crate) mtu: u32,
    /// Key of datagrams.
    pub(crate) qkey: u32,
    /// Next PSN from the other end.
    pub(crate) receive_psn: u32,
    /// Next PSN of this end.
    pub(crate) send_psn: u32,
    /// QP of the other end.
    pub(crate) remote_qpn: u32,
    /// What the other end may do: write, read, atomics.
    pub(crate) remote: (bool, bool, bool),
    /// log2 of reads and atomics under way as initiator.
    pub(crate) log_initiator_depth: u8,
    /// The same as responder.
    pub(crate) log_responder_depth: u8,
    /// Code of the RNR timer.
    pub(crate) rnr_timer: u8,
    /// Retries, and those when the receiver is not ready.
    pub(crate) retries: (u8, u8),
    /// Blocks of the send queue that were rung for, and those the device is done with.
    pub(crate) send_blocks: (u16, u16),
    /// Receives that were published, and those the device has used.
    pub(crate) receives: (u16, u16),
    /// Path.
    pub(crate) path: PathSnapshot,
}

impl Snapshot {
    /// Blocks of the send queue that the device is not done with.
    pub(crate) fn sends_outstanding(&self) -> u32 {
        let (posted, done) = self.send_blocks;
        posted.wrapping_sub(done).into()
    }

    /// Receives that the device has not used.
    pub(crate) fn receives_outstanding(&self) -> u32 {
        let (posted, done) = self.receives;
        posted.wrapping_sub(done).into()
    }
}

/// The primary path of a [`Snapshot`].
#[derive(Clone, Copy)]
pub(crate) struct PathSnapshot {
    /// GID of the other end.
    pub(crate) gid: [u8; 16],
    /// Its Ethernet address.
    pub(crate) mac: [u8; 6],
    /// Index of this end's address.
    pub(crate) source_index: u8,
    /// Flow label.
    pub(crate) flow_label: u32,
    /// Hops.
    pub(crate) hop_limit: u8,
    /// Traffic class.
    pub(crate) traffic_class: u8,
    /// Ethernet priority.
    pub(crate) priority: u8,
    /// Code of the acknowledgement timeout.
    pub(crate) ack_timeout: u8,
    /// Port.
    pub(crate) port: u8,
    /// Index of the partition key.
    pub(crate) pkey_index: u16,
}

impl PathSnapshot {
    fn parse(ads: Ref<'_, ifc::ads>) -> Self {
        // CAST, below: no field is wider than its member.
        let high = (ads.get(field!(ads, rmac_47_32)) as u16).to_be_bytes();
        let low = ads.get32(field!(ads, rmac_31_0)).to_be_bytes();
        let [m0, m1] = high;
        let [m2, m3, m4, m5] = low;
        Self {
            gid: ads
                .raw(span!(ads, rgid_rip))
                .first_chunk()
                .copied()
                .unwrap_or_default(),
            mac: [m0, m1, m2, m3, m4, m5],
            source_index: ads.get(field!(ads, src_addr_index)) as u8,
            flow_label: ads.get32(field!(ads, flow_label)),
            hop_limit: ads.get(field!(ads, hop_limit)) as u8,
            traffic_class: ads.get(field!(ads, tclass)) as u8,
            priority: ads.get(field!(ads, eth_prio)) as u8,
            ack_timeout: ads.get(field!(ads, ack_timeout)) as u8,
            port: ads.get(field!(ads, vhca_port_num)) as u8,
            pkey_index: ads.get(field!(ads, pkey_index)) as u16,
        }
    }
}

impl Command for QueryQp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_QP;
    type In = ifc::query_qp_in;
    type Out = ifc::query_qp_out;
    type Output = Snapshot;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(query_qp_in, qpn), self.number.into());
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Snapshot> {
        let qpc = output.sub(span!(query_qp_out, qpc));
        // CAST, below: no field is wider than its member.
        Some(Snapshot {
            state: qpc.get32(field!(qpc, state)),
            mtu: qpc.get32(field!(qpc, mtu)),
            qkey: qpc.get32(field!(qpc, q_key)),
            receive_psn: qpc.get32(field!(qpc, next_rcv_psn)),
            send_psn: qpc.get32(field!(qpc, next_send_psn)),
            remote_qpn: qpc.get32(field!(qpc, remote_qpn)),
            remote: (
                qpc.flag(field!(qpc, rwe)),
                qpc.flag(field!(qpc, rre)),
                qpc.flag(field!(qpc, rae)),
            ),
            log_initiator_depth: qpc.get(field!(qpc, log_sra_max)) as u8,
            log_responder_depth: qpc.get(field!(qpc, log_rra_max)) as u8,
            rnr_timer: qpc.get(field!(qpc, min_rnr_nak)) as u8,
            retries: (
                qpc.get(field!(qpc, retry_count)) as u8,
                qpc.get(field!(qpc, rnr_retry)) as u8,
            ),
            send_blocks: (
                qpc.get(field!(qpc, sw_sq_wqebb_counter)) as u16,
                qpc.get(field!(qpc, hw_sq_wqebb_counter)) as u16,
            ),
            receives: (
                qpc.get(field!(qpc, sw_rq_counter)) as u16,
                qpc.get(field!(qpc, hw_rq_counter)) as u16,
            ),
            path: PathSnapshot::parse(qpc.sub(span!(qpc, primary_address_path))),
        })
    }
}
