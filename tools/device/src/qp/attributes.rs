// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a context says, in terms of the engine.

use mlx5_hw::{field, field::Ref, ifc, span};
use roce::{Mac, Mtu, Psn};
use std::time::Duration;

/// The way to the other side. Source: `mlx5_ifc_ads_bits`, `mlx5_set_path` in ib/qp.c.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Index of the source in the RoCE address table.
    pub sgid_index: u8,
    /// Destination GID.
    pub rgid: [u8; 16],
    /// Destination MAC.
    pub mac: Mac,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN bits.
    pub tos: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// UDP source port.
    pub sport: u16,
    /// VLAN priority.
    pub prio: u8,
}

/// The fields of a context that packets depend on.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// Payload of a packet; `None` until it is set.
    pub mtu: Option<Mtu>,
    /// Longest message, as a shift.
    pub log_msg_max: u8,
    /// QP number of the other side.
    pub remote_qpn: u32,
    /// Way to the other side.
    pub path: Path,
    /// Index into the P_Key table.
    pub pkey_index: u16,
    /// Remote rights: read.
    pub remote_read: bool,
    /// Remote rights: write.
    pub remote_write: bool,
    /// Remote rights: atomic.
    pub remote_atomic: bool,
    /// Q_Key.
    pub qkey: u32,
    /// First PSN to send.
    pub next_send_psn: Psn,
    /// First PSN to expect.
    pub next_recv_psn: Psn,
    /// Retries after timeouts and sequence errors.
    pub retry_count: u8,
    /// Retries after receiver-not-ready; 7 = no limit.
    pub rnr_retry: u8,
    /// Time to wait for an acknowledgement; `None` = for ever.
    pub ack_timeout: Option<Duration>,
    /// READs and atomics in flight at most.
    pub max_initiated: u32,
    /// READs and atomics to answer at a time.
    pub max_answered: u32,
    /// Timer code of the RNR NAKs sent.
    pub min_rnr_nak: u8,
    /// Set of Q counters.
    pub counter_set: u8,
    /// User index in completions.
    pub user_index: u32,
    /// The reserved key may be used.
    pub reserved_key: bool,
    /// Own multicast does not come back.
    pub block_loopback: bool,
    /// Source QP number in datagrams; 0 = the own one.
    pub deth_sqpn: u32,
}

impl Attributes {
    /// Reads a context.
    pub fn of(qpc: Ref<'_, ifc::qpc>) -> Self {
        let ads = qpc.sub(span!(qpc, primary_address_path));
        let timeout = ads.get32(field!(ads, ack_timeout));
        // CAST: each field is no wider than the type it becomes.
        Self {
            mtu: Mtu::from_code(qpc.get32(field!(qpc, mtu))),
            log_msg_max: qpc.get32(field!(qpc, log_msg_max)) as u8,
            remote_qpn: qpc.get32(field!(qpc, remote_qpn)),
            path: Path::of(ads),
            pkey_index: ads.get32(field!(ads, pkey_index)) as u16,
            remote_read: qpc.flag(field!(qpc, rre)),
            remote_write: qpc.flag(field!(qpc, rwe)),
            remote_atomic: qpc.flag(field!(qpc, rae)),
            qkey: qpc.get32(field!(qpc, q_key)),
            next_send_psn: Psn::new(qpc.get32(field!(qpc, next_send_psn))),
            next_recv_psn: Psn::new(qpc.get32(field!(qpc, next_rcv_psn))),
            retry_count: qpc.get32(field!(qpc, retry_count)) as u8,
            rnr_retry: qpc.get32(field!(qpc, rnr_retry)) as u8,
            ack_timeout: (timeout != 0).then(|| Duration::from_nanos(4096 << timeout)),
            max_initiated: 1 << qpc.get32(field!(qpc, log_sra_max)),
            max_answered: 1 << qpc.get32(field!(qpc, log_rra_max)),
            min_rnr_nak: qpc.get32(field!(qpc, min_rnr_nak)) as u8,
            counter_set: qpc.get32(field!(qpc, counter_set_id)) as u8,
            user_index: qpc.get32(field!(qpc, user_index)),
            reserved_key: qpc.flag(field!(qpc, rlky)),
            block_loopback: qpc.flag(field!(qpc, block_lb_mc)),
            deth_sqpn: qpc.get32(field!(qpc, deth_sqpn)),
        }
    }
}

impl Path {
    fn of(ads: Ref<'_, ifc::ads>) -> Self {
        let mut rgid = [0; 16];
        rgid.copy_from_slice(ads.raw(span!(ads, rgid_rip)));
        let mac = ads.get(field!(ads, rmac_47_32)) << 32 | ads.get(field!(ads, rmac_31_0));
        // CAST: each field is no wider than the type it becomes.
        Self {
            sgid_index: ads.get32(field!(ads, src_addr_index)) as u8,
            rgid,
            mac: Mac::from_u64(mac),
            hop_limit: ads.get32(field!(ads, hop_limit)) as u8,
            tos: (ads.get32(field!(ads, dscp)) << 2) as u8,
            flow_label: ads.get32(field!(ads, flow_label)),
            sport: ads.get32(field!(ads, udp_sport)) as u16,
            prio: ads.get32(field!(ads, eth_prio)) as u8,
        }
    }
}
