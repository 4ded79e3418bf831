// SPDX-License-Identifier: GPL-2.0
//! What the card can do: read once per generation, validated here, before anybody uses a number.
//!
//! A capability that makes the card unusable is named in the log; a number beyond what the
//! interface can express is clamped. Nothing outside this file sees a raw capability.

use kernel::{
    fmt,
    prelude::*, //
};
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

use crate::cmd::{
    Cmd,
    Command, //
};

/// Capability groups. Source: `enum mlx5_cap_type` in include/linux/mlx5/device.h.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    General = 0,
    Ethernet = 1,
    Atomic = 3,
    Roce = 4,
    NicFlowTable = 7,
}

/// What QUERY_HCA_CAP is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// What could be switched on.
    Max = 0,
    /// What is on.
    Current = 1,
}

/// QUERY_HCA_CAP: the 4 KiB of one group.
pub(crate) struct QueryHcaCap {
    pub(crate) group: Group,
    pub(crate) which: Which,
}

impl Command for QueryHcaCap {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_HCA_CAP;
    type In = ifc::query_hca_cap_in;
    type Out = ifc::query_hca_cap_out;
    type Output = KVVec<u8>;

    fn op_mod(&self) -> u16 {
        // CAST: both are small.
        (self.group as u16) << 1 | self.which as u16
    }

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<KVVec<u8>> {
        let bytes = output.raw(span!(query_hca_cap_out, capability));
        let mut copy = KVVec::new();
        copy.extend_from_slice(bytes, GFP_KERNEL).ok()?;
        Some(copy)
    }
}

/// SET_HCA_CAP, general: the current capabilities with what this driver wants changed.
pub(crate) struct SetGeneral<'a> {
    current: &'a [u8],
    log_max_qp: u8,
}

impl Command for SetGeneral<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_HCA_CAP;
    type In = ifc::set_hca_cap_in;
    type Out = ifc::set_hca_cap_out;
    type Output = ();

    fn op_mod(&self) -> u16 {
        // CAST: small.
        (raw::MLX5_SET_HCA_CAP_OP_MOD_GENERAL_DEVICE << 1) as u16
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let bytes = input.raw(span!(set_hca_cap_in, capability));
        if bytes.len() != self.current.len() {
            return Err(EPROTO);
        }
        bytes.copy_from_slice(self.current);
        input.with(span!(set_hca_cap_in, capability.cmd_hca_cap), |cap| {
            cap.set(field!(cmd_hca_cap, log_max_qp), self.log_max_qp.into())
                // No checksums over mailboxes: PCIe has its own.
                .set(field!(cmd_hca_cap, cmdif_checksum), 0)
                // UAR pages of 4 KiB, as counted in BAR0.
                .set(field!(cmd_hca_cap, log_uar_page_sz), 0)
                // Code of a table of 128 P_Keys (`to_fw_pkey_sz` in core/main.c).
                .set(field!(cmd_hca_cap, pkey_table_size), 0);
        });
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// SET_HCA_CAP, atomic: results of atomics in the byte order of the host.
struct SetAtomic<'a> {
    current: &'a [u8],
}

impl Command for SetAtomic<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_SET_HCA_CAP;
    type In = ifc::set_hca_cap_in;
    type Out = ifc::set_hca_cap_out;
    type Output = ();

    fn op_mod(&self) -> u16 {
        // CAST: small.
        (raw::MLX5_SET_HCA_CAP_OP_MOD_ATOMIC << 1) as u16
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let bytes = input.raw(span!(set_hca_cap_in, capability));
        if bytes.len() != self.current.len() {
            return Err(EPROTO);
        }
        bytes.copy_from_slice(self.current);
        input.with(span!(set_hca_cap_in, capability.atomic_caps), |cap| {
            cap.set(
                field!(atomic_caps, atomic_req_8B_endianness_mode),
                HOST_ORDER,
            );
        });
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// A capability that makes the card unusable.
pub(crate) struct BadCap {
    name: &'static str,
    value: u64,
    need: &'static str,
}

impl fmt::Display for BadCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "capability {} is {}, need {}",
            self.name, self.value, self.need
        )
    }
}

/// The validated capabilities. Numbers are counts and bytes, not logs, unless the name says so.
#[derive(Clone, Copy)]
#[expect(
    dead_code,
    reason = "validated in one place, also what only the verbs face will use"
)]
pub(crate) struct Caps {
    /// Event queues the driver may create; at least 3.
    pub(crate) max_eqs: u32,
    /// log2 of the entries of the largest EQ.
    pub(crate) log_max_eq_size: u8,
    /// log2 of the number of QPs; 1 to 18 after SET_HCA_CAP.
    pub(crate) log_max_qp: u8,
    /// log2 of the WQEs of the largest QP; 6 to 15.
    pub(crate) log_max_qp_size: u8,
    /// log2 of the number of CQs; at most 24.
    pub(crate) log_max_cq: u8,
    /// log2 of the entries of the largest CQ; 6 to 22.
    pub(crate) log_max_cq_size: u8,
    /// log2 of the number of memory keys; at most 24.
    pub(crate) log_max_mkey: u8,
    /// log2 of the number of protection domains; at most 24.
    pub(crate) log_max_pd: u8,
    /// log2 of the number of shared receive queues; 0 without.
    pub(crate) log_max_srq: u8,
    /// log2 of the number of receive memory pools.
    pub(crate) log_max_rmp: u8,
    /// log2 of the number of XRC domains.
    pub(crate) log_max_xrcd: u8,
    /// log2 of the receives of the largest one; at most 15.
    pub(crate) log_max_srq_size: u8,
    /// log2 of the number of multicast groups; 0 without.
    pub(crate) log_max_multicast: u8,
    /// QPs in a multicast group.
    pub(crate) max_multicast_qps: u32,
    /// log2 of the longest message in bytes; 12 to 30.
    pub(crate) log_max_message: u8,
    /// log2 of the reads and atomics a QP may have under way, as initiator.
    pub(crate) log_max_initiator_depth: u8,
    /// The same as responder.
    pub(crate) log_max_responder_depth: u8,
    /// Bytes of the longest send WQE; 128 to 1024.
    pub(crate) max_send_wqe: u16,
    /// Bytes of the longest receive WQE; 32 to 512.
    pub(crate) max_receive_wqe: u16,
    /// log2 of the size of a BlueFlame register; 8 or 9 here.
    pub(crate) log_bf_register: u8,
    /// The card has BlueFlame registers; whether they work in this machine, [`crate::wc`] knows.
    pub(crate) blue_flame: bool,
    /// log2 of the number of Ethernet send queues; 0 without.
    pub(crate) log_max_sq: u8,
    /// CQs can be resized.
    pub(crate) cq_resize: bool,
    /// CQs can moderate their events.
    pub(crate) cq_moderation: bool,
    /// QPs can keep datagrams to a group from coming back.
    pub(crate) block_multicast_loopback: bool,
    /// Memory windows work.
    pub(crate) memory_windows: bool,
    /// Extended reliable connections work.
    pub(crate) xrc: bool,
    /// Requests can change whether a key allows atomics.
    pub(crate) umr_atomic: bool,
    /// 0 or 1: whether CQEs can carry a user index.
    pub(crate) cqe_version: u8,
    /// What a registration by a request waits for: `MLX5_CAP_UMR_FENCE_*`.
    pub(crate) umr_fence: u8,
    /// Q counters count packets out of sequence.
    pub(crate) counts_sequence: bool,
    /// Q counters count retransmissions.
    pub(crate) counts_retransmission: bool,
    /// Q counters count completions with errors.
    pub(crate) counts_errors: bool,
    /// The port tells what it counts of congestion.
    pub(crate) counts_congestion: bool,
    /// 8-byte atomics work.
    pub(crate) atomic: bool,
    /// Atomic results can be in host byte order.
    pub(crate) atomic_host_order: bool,
    /// Entries of the RoCE address table; 2 to 255.
    pub(crate) roce_addresses: u16,
    /// Bits: 0 is version 1, 2 is version 2.
    pub(crate) roce_versions: u8,
    /// First UDP source port to use for RoCE v2.
    pub(crate) roce_source_port_min: u16,
    /// The last one.
    pub(crate) roce_source_port_max: u16,
    /// The card is a network card: it has Ethernet queues and steers what it receives.
    pub(crate) ethernet: bool,
    /// Classes of traffic at the port; 0 where they are not this function's to set.
    pub(crate) classes: u8,
    /// log2 of the entries of the largest Ethernet work queue.
    pub(crate) log_max_wq: u8,
    /// log2 of the entries of the largest RQT; at most 13.
    pub(crate) log_max_rqt: u8,
    /// log2 of the number of RQTs; at most 24.
    pub(crate) log_max_rqts: u8,
    /// log2 of the number of RQs; at most 24.
    pub(crate) log_max_rqs: u8,
    /// Unicast addresses that the vport keeps.
    pub(crate) max_unicast: u32,
    /// Groups that the vport keeps.
    pub(crate) max_multicast: u32,
    /// Ports; 1 is used.
    pub(crate) ports: u8,
    /// Frequency of the device's clock in kHz; 0 when unknown.
    pub(crate) clock_khz: u32,
    /// The firmware says that pages are never requested at run time.
    pub(crate) no_page_requests: bool,
}

/// Most QPs to ask for, as the C driver's default profile (log_max_qp 18 in core/main.c).
const LOG_MAX_QP: u8 = 18;

/// `MLX5_ATOMIC_REQ_MODE_HOST_ENDIANNESS` in core/main.c.
const HOST_ORDER: u64 = 1;

/// A field whose value must lie in a range, or the card is unusable.
fn need<L>(
    caps: &Ref<'_, L>,
    name: &'static str,
    field: mlx5_hw::field::Field<L>,
    min: u64,
    need: &'static str,
) -> Result<u64, BadCap> {
    let value = caps.get(field);
    if value < min {
        return Err(BadCap { name, value, need });
    }
    Ok(value)
}

macro_rules! at_least {
    ($caps:expr, $layout:ident . $member:ident, $min:literal) => {
        need(
            $caps,
            stringify!($member),
            field!($layout, $member),
            $min,
            concat!("at least ", stringify!($min)),
        )?
    };
}

/// The smaller of a value and a limit of at most 8 bits.
fn clamp8(value: u64, max: u8) -> u8 {
    // CAST: clamped.
    value.min(max.into()) as u8
}

/// The smaller of a value and a limit of at most 16 bits.
fn clamp16(value: u64, max: u16) -> u16 {
    // CAST: clamped.
    value.min(max.into()) as u16
}

fn query(cmd: &Cmd, group: Group, which: Which) -> Result<KVVec<u8>> {
    Ok(cmd.exec(&QueryHcaCap { group, which })?)
}

/// Switches atomics to host byte order where the card can; the group as it is then.
fn negotiate_atomic(cmd: &Cmd) -> Result<KVVec<u8>> {
    let current = query(cmd, Group::Atomic, Which::Current)?;
    let caps = Ref::<ifc::atomic_caps>::new(&current).ok_or(EPROTO)?;
    let can = caps.flag(field!(
        atomic_caps,
        supported_atomic_req_8B_endianness_mode_1
    ));
    if !can || caps.get(field!(atomic_caps, atomic_req_8B_endianness_mode)) == HOST_ORDER {
        return Ok(current);
    }
    cmd.exec(&SetAtomic { current: &current })?;
    query(cmd, Group::Atomic, Which::Current)
}

/// Classes of traffic that this function may set. Source: `mlx5e_dcbnl_build_netdev`, `mlx5_max_tc` in core.
fn traffic_classes(general: &Ref<'_, ifc::cmd_hca_cap>) -> u8 {
    let may = general.flag(field!(cmd_hca_cap, vport_group_manager))
        && general.flag(field!(cmd_hca_cap, qos))
        && general.flag(field!(cmd_hca_cap, ets))
        && general.flag(field!(cmd_hca_cap, qcam_reg));
    match general.get(field!(cmd_hca_cap, max_tc)) {
        _ if !may => 0,
        0 => 8,
        classes => clamp8(classes, 8),
    }
}

impl Caps {
    /// Entries of the RoCE address table that users may fill: all but the last one.
    pub(crate) fn gid_table_len(&self) -> u16 {
        self.roce_addresses.saturating_sub(1)
    }

    /// Shared receive queues at a time: those of protection domains are receive memory pools; 0 without.
    /// Source: `create_srq_split` in ib/srq_cmd.c.
    pub(crate) fn max_srq(&self) -> u32 {
        match self.log_max_srq.min(self.log_max_rmp) {
            0 => 0,
            log => 1 << log,
        }
    }

    /// RoCE version 1 works too.
    pub(crate) fn roce_v1(&self) -> bool {
        self.roce_versions & 1 != 0
    }

    /// Index of the driver's own entry in the RoCE address table, which is the last one.
    pub(crate) fn own_address(&self) -> u8 {
        // CAST: the table has at most 255 entries.
        self.gid_table_len() as u8
    }

    /// Reads, switches on what is wanted, reads again, validates. Sleeps.
    pub(crate) fn negotiate(cmd: &Cmd) -> Result<core::result::Result<Self, BadCap>> {
        let max = query(cmd, Group::General, Which::Max)?;
        let current = query(cmd, Group::General, Which::Current)?;
        let max = Ref::<ifc::cmd_hca_cap>::new(&max).ok_or(EPROTO)?;
        let log_max_qp = clamp8(max.get(field!(cmd_hca_cap, log_max_qp)), LOG_MAX_QP);
        cmd.exec(&SetGeneral {
            current: &current,
            log_max_qp,
        })?;
        let current = query(cmd, Group::General, Which::Current)?;
        let general = Ref::<ifc::cmd_hca_cap>::new(&current).ok_or(EPROTO)?;
        let roce = if general.flag(field!(cmd_hca_cap, roce)) {
            Some(query(cmd, Group::Roce, Which::Current)?)
        } else {
            None
        };
        let atomic = if general.flag(field!(cmd_hca_cap, atomic)) {
            Some(negotiate_atomic(cmd)?)
        } else {
            None
        };
        let roce = match &roce {
            Some(bytes) => Some(Ref::<ifc::roce_cap>::new(bytes).ok_or(EPROTO)?),
            None => None,
        };
        let atomic = match &atomic {
            Some(bytes) => Some(Ref::<ifc::atomic_caps>::new(bytes).ok_or(EPROTO)?),
            None => None,
        };
        Ok(Self::validate(general, roce, atomic))
    }

    fn validate(
        general: Ref<'_, ifc::cmd_hca_cap>,
        roce: Option<Ref<'_, ifc::roce_cap>>,
        atomic: Option<Ref<'_, ifc::atomic_caps>>,
    ) -> Result<Self, BadCap> {
        let general = &general;
        let missing = |name| BadCap {
            name,
            value: 0,
            need: "1",
        };
        let roce = &roce.ok_or(missing("roce"))?;
        let port_type = general.get(field!(cmd_hca_cap, port_type));
        if port_type != 1 {
            return Err(BadCap {
                name: "port_type",
                value: port_type,
                need: "1 (Ethernet)",
            });
        }
        let versions = clamp8(roce.get(field!(roce_cap, roce_version)), u8::MAX);
        if versions & 4 == 0 {
            return Err(BadCap {
                name: "roce_version",
                value: versions.into(),
                need: "bit 2 (RoCE v2)",
            });
        }
        let log_bf = general.get(field!(cmd_hca_cap, log_bf_reg_size));
        if !(8..=9).contains(&log_bf) {
            return Err(BadCap {
                name: "log_bf_reg_size",
                value: log_bf,
                need: "8 or 9",
            });
        }
        let log_page = general.get(field!(cmd_hca_cap, log_pg_sz));
        if log_page > 12 {
            return Err(BadCap {
                name: "log_pg_sz",
                value: log_page,
                need: "at most 12",
            });
        }
        // `max_num_eqs` is authoritative where it is there. Source: `mlx5_max_eq_cap_get`.
        let max_eqs = match general.get32(field!(cmd_hca_cap, max_num_eqs)) {
            0 => 1 << general.get(field!(cmd_hca_cap, log_max_eq)),
            count => count,
        };
        if max_eqs < 3 {
            return Err(BadCap {
                name: "max_num_eqs",
                value: max_eqs.into(),
                need: "at least 3",
            });
        }
        // CAST, here and below: 16-bit fields.
        let source_min = roce.get(field!(roce_cap, r_roce_min_src_udp_port)) as u16;
        let source_max = roce.get(field!(roce_cap, r_roce_max_src_udp_port)) as u16;
        let atomic_works = atomic.as_ref().is_some_and(|atomic| {
            // Compare-swap and fetch-add on 8 bytes. Source: `get_atomic_caps` in ib/main.c.
            atomic.get(field!(atomic_caps, atomic_operations)) & 3 == 3
                && atomic.get(field!(atomic_caps, atomic_size_qp)) & 8 != 0
        });
        Ok(Self {
            max_eqs: max_eqs.min(1 << 12),
            log_max_eq_size: clamp8(at_least!(general, cmd_hca_cap.log_max_eq_sz, 8), 22),
            log_max_qp: clamp8(at_least!(general, cmd_hca_cap.log_max_qp, 1), LOG_MAX_QP),
            log_max_qp_size: clamp8(at_least!(general, cmd_hca_cap.log_max_qp_sz, 6), 15),
            log_max_cq: clamp8(at_least!(general, cmd_hca_cap.log_max_cq, 1), 24),
            log_max_cq_size: clamp8(at_least!(general, cmd_hca_cap.log_max_cq_sz, 6), 22),
            log_max_mkey: clamp8(at_least!(general, cmd_hca_cap.log_max_mkey, 1), 24),
            log_max_pd: clamp8(at_least!(general, cmd_hca_cap.log_max_pd, 1), 24),
            log_max_srq: clamp8(general.get(field!(cmd_hca_cap, log_max_srq)), 24),
            log_max_rmp: clamp8(general.get(field!(cmd_hca_cap, log_max_rmp)), 24),
            log_max_xrcd: clamp8(general.get(field!(cmd_hca_cap, log_max_xrcd)), 24),
            log_max_srq_size: clamp8(general.get(field!(cmd_hca_cap, log_max_srq_sz)), 15),
            log_max_multicast: clamp8(general.get(field!(cmd_hca_cap, log_max_mcg)), 24),
            max_multicast_qps: general.get32(field!(cmd_hca_cap, max_qp_mcg)),
            log_max_message: clamp8(at_least!(general, cmd_hca_cap.log_max_msg, 12), 30),
            log_max_initiator_depth: clamp8(general.get(field!(cmd_hca_cap, log_max_ra_req_qp)), 7),
            log_max_responder_depth: clamp8(general.get(field!(cmd_hca_cap, log_max_ra_res_qp)), 7),
            max_send_wqe: clamp16(at_least!(general, cmd_hca_cap.max_wqe_sz_sq, 128), 1024),
            max_receive_wqe: clamp16(at_least!(general, cmd_hca_cap.max_wqe_sz_rq, 32), 512),
            log_bf_register: clamp8(log_bf, 9),
            blue_flame: general.flag(field!(cmd_hca_cap, bf)),
            log_max_sq: clamp8(general.get(field!(cmd_hca_cap, log_max_sq)), 24),
            cq_resize: general.flag(field!(cmd_hca_cap, cq_resize)),
            cq_moderation: general.flag(field!(cmd_hca_cap, cq_moderation)),
            block_multicast_loopback: general.flag(field!(cmd_hca_cap, block_lb_mc)),
            memory_windows: general.flag(field!(cmd_hca_cap, imaicl)),
            xrc: general.flag(field!(cmd_hca_cap, xrc)),
            umr_atomic: !general.flag(field!(cmd_hca_cap, umr_modify_atomic_disabled)),
            cqe_version: clamp8(general.get(field!(cmd_hca_cap, cqe_version)), 1),
            umr_fence: clamp8(general.get(field!(cmd_hca_cap, umr_fence)), 3),
            counts_sequence: general.flag(field!(cmd_hca_cap, out_of_seq_cnt)),
            counts_retransmission: general.flag(field!(cmd_hca_cap, retransmission_q_counters)),
            counts_errors: general.flag(field!(cmd_hca_cap, enhanced_error_q_counters)),
            counts_congestion: general.flag(field!(cmd_hca_cap, cc_query_allowed)),
            atomic: atomic_works,
            atomic_host_order: atomic.as_ref().is_some_and(|atomic| {
                atomic.get(field!(atomic_caps, atomic_req_8B_endianness_mode)) == HOST_ORDER
            }),
            roce_addresses: clamp16(at_least!(roce, roce_cap.roce_address_table_size, 2), 255),
            roce_versions: versions,
            roce_source_port_min: if source_min == 0 { 0xc000 } else { source_min },
            roce_source_port_max: if source_max < source_min {
                source_min
            } else {
                source_max
            },
            ethernet: general.flag(field!(cmd_hca_cap, eth_net_offloads))
                && general.flag(field!(cmd_hca_cap, nic_flow_table)),
            classes: traffic_classes(general),
            log_max_wq: clamp8(general.get(field!(cmd_hca_cap, log_max_wq_sz)), 13),
            log_max_rqt: clamp8(general.get(field!(cmd_hca_cap, log_max_rqt_size)), 13),
            log_max_rqts: clamp8(general.get(field!(cmd_hca_cap, log_max_rqt)), 24),
            log_max_rqs: clamp8(general.get(field!(cmd_hca_cap, log_max_rq)), 24),
            max_unicast: 1
                << clamp8(
                    general.get(field!(cmd_hca_cap, log_max_current_uc_list)),
                    16,
                ),
            max_multicast: 1
                << clamp8(
                    general.get(field!(cmd_hca_cap, log_max_current_mc_list)),
                    16,
                ),
            ports: clamp8(at_least!(general, cmd_hca_cap.num_ports, 1), 2),
            clock_khz: general.get32(field!(cmd_hca_cap, device_frequency_khz)),
            no_page_requests: general.flag(field!(cmd_hca_cap, page_request_disable)),
        })
    }
}
