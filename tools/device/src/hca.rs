// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All state of one function, and the services that its parts offer each other.

use mlx5_hw::field;

use crate::{
    caps::Caps,
    cmd::queue::CommandQueue,
    cong::Congestion,
    counters::Census,
    cq::Cq,
    env::Env,
    eq::Eq,
    eth::Ethernet,
    flow::{counter::FlowCounter, tree::Tree},
    host::Host,
    icmd::Icmd,
    iseg::InitSegment,
    mkey::Mkey,
    nodnic::Nodnic,
    pages::Pages,
    pd::Pd,
    priority::Priorities,
    q_counter::QCounter,
    qp::Qp,
    roce_address::RoceTable,
    rq::Rq,
    rqt::Rqt,
    sched::{Scheduler, Work},
    sq::Sq,
    srq::Srq,
    table::{Kind, Object, Table},
    tir::Tir,
    tis::Tis,
    transport::Transport,
    transport_domain::TransportDomain,
    uar::Uar,
    vnic_env::VnicEnv,
    vport::{Vport, FCS_LEN},
    xrcd::Xrcd,
};

/// How far the driver has brought the function up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before ENABLE_HCA.
    Off,
    /// After ENABLE_HCA.
    Enabled,
    /// After INIT_HCA: objects can be made.
    Initialized,
}

/// One function. A reset replaces every field but the first with a fresh one.
pub struct Hca {
    /// What outlives resets.
    pub env: Env,
    /// Counts resets: tells work of before from work of after.
    pub generation: u64,
    /// How far it is up.
    pub phase: Phase,
    /// Interface version the driver has chosen.
    pub issi: u16,
    /// Byte order of the host (HOST_ENDIANNESS): 0 is little endian.
    pub host_endianness: u8,
    /// What the driver calls itself.
    pub driver_version: String,
    /// The initialization segment.
    pub iseg: InitSegment,
    /// The interface for boot programs.
    pub nodnic: Nodnic,
    /// The command interface of tools.
    pub icmd: Icmd,
    /// The command queue.
    pub cmdq: CommandQueue,
    /// Capabilities.
    pub caps: Caps,
    /// Firmware pages.
    pub pages: Pages,
    /// The vport and its port: addresses, MTU, link.
    pub vport: Vport,
    /// Priorities and traffic classes of the port.
    pub priorities: Priorities,
    /// Congestion control of the port.
    pub congestion: Congestion,
    /// The RoCE address table.
    pub roce: RoceTable,
    /// Work the data path has to do.
    pub sched: Scheduler,
    /// Event queues.
    pub eqs: Table<Eq>,
    /// Doorbell pages.
    pub uars: Table<Uar>,
    /// Protection domains.
    pub pds: Table<Pd>,
    /// XRC domains.
    pub xrcds: Table<Xrcd>,
    /// Transport domains.
    pub transport_domains: Table<TransportDomain>,
    /// Q counter sets.
    pub q_counters: Table<QCounter>,
    /// Completion queues.
    pub cqs: Table<Cq>,
    /// Memory keys, by index (key >> 8).
    pub mkeys: Table<Mkey>,
    /// Queue pairs. Their numbers and those of SQs and RQs do not overlap, because a doorbell
    /// carries only a number.
    pub qps: Table<Box<Qp>>,
    /// Shared receive queues of every kind (SRQ, XRC SRQ, RMP): one number space.
    pub srqs: Table<Srq>,
    /// Ethernet send queues.
    pub sqs: Table<Sq>,
    /// Ethernet receive queues.
    pub rqs: Table<Rq>,
    /// Transport interface send objects.
    pub tises: Table<Tis>,
    /// Transport interface receive objects.
    pub tirs: Table<Tir>,
    /// Receive queue tables.
    pub rqts: Table<Rqt>,
    /// State of the RDMA engine that belongs to no object.
    pub transport: Transport,
    /// State of the Ethernet engine that belongs to no object.
    pub eth: Ethernet,
    /// Flow tables.
    pub flow: Tree,
    /// Flow counters.
    pub flow_counters: Table<FlowCounter>,
    /// What the function counts of its own troubles.
    pub vnic: VnicEnv,
}

/// First numbers of the tables: far from zero, where mistakes are, and from each other.
mod first {
    pub const EQ: u32 = 0x1;
    pub const CQ: u32 = 0x400;
    pub const MKEY: u32 = 0x800;
    pub const QP: u32 = 0x80;
    pub const SQ: u32 = 0x80_0000;
    pub const RQ: u32 = 0xa0_0000;
    pub const SRQ: u32 = 0x100;
    pub const PD: u32 = 0x10;
    pub const UAR: u32 = 0x10;
    pub const OTHER: u32 = 0x1;
}

/// A table whose limit is a capability that is a logarithm.
fn table<T: Object>(first: u32, log: u64) -> Table<T> {
    // CAST: numbers have 24 bits.
    let count = 1u32 << log.min(24) as u32;
    // Twice the numbers, so that a full table still does not reuse at once.
    Table::new(first, count.saturating_mul(2).min((1 << 24) - first), count)
}

impl Hca {
    /// A function fresh from power-on.
    pub fn new(env: Env) -> Self {
        let caps = Caps::new(&env.profile);
        let log = |field| caps.max(field);
        Self {
            generation: 0,
            phase: Phase::Off,
            issi: 0,
            host_endianness: 0,
            driver_version: String::new(),
            iseg: InitSegment::default(),
            nodnic: Nodnic::default(),
            icmd: Icmd::default(),
            cmdq: CommandQueue::default(),
            pages: Pages::default(),
            vport: Vport::new(&env.profile, env.signal()),
            priorities: Priorities::default(),
            congestion: Congestion::default(),
            roce: RoceTable::default(),
            sched: Scheduler::default(),
            eqs: eq_table(&caps),
            uars: uar_table(env.profile.pci.log_bar),
            pds: table(first::PD, log(field!(cmd_hca_cap, log_max_pd))),
            xrcds: table(first::OTHER, log(field!(cmd_hca_cap, log_max_xrcd))),
            transport_domains: table(
                first::OTHER,
                log(field!(cmd_hca_cap, log_max_transport_domain)),
            ),
            q_counters: Table::new(
                first::OTHER,
                255,
                log(field!(cmd_hca_cap, max_qp_cnt)) as u32,
            ),
            cqs: table(first::CQ, log(field!(cmd_hca_cap, log_max_cq))),
            mkeys: table(first::MKEY, log(field!(cmd_hca_cap, log_max_mkey))),
            qps: table(first::QP, log(field!(cmd_hca_cap, log_max_qp))),
            srqs: table(first::SRQ, log(field!(cmd_hca_cap, log_max_srq))),
            sqs: table(first::SQ, log(field!(cmd_hca_cap, log_max_sq))),
            rqs: table(first::RQ, log(field!(cmd_hca_cap, log_max_rq))),
            tises: table(first::OTHER, log(field!(cmd_hca_cap, log_max_tis))),
            tirs: table(first::OTHER, log(field!(cmd_hca_cap, log_max_tir))),
            rqts: table(first::OTHER, log(field!(cmd_hca_cap, log_max_rqt))),
            transport: Transport::default(),
            eth: Ethernet::default(),
            flow: Tree::default(),
            flow_counters: Table::new(first::OTHER, 1 << 24, flow_counters(&caps)),
            vnic: VnicEnv::default(),
            caps,
            env,
        }
    }

    /// Drops all state of the function. Host memory is not touched: pages that were given are
    /// forgotten, not returned.
    pub fn reset(&mut self) {
        let away = Env::new(self.env.profile.clone(), Host::detached());
        let env = std::mem::replace(&mut self.env, away);
        let generation = self.generation + 1;
        *self = Self::new(env);
        self.generation = generation;
    }

    /// Drops all objects and what was configured, at TEARDOWN_HCA and DISABLE_HCA. The pages stay:
    /// the driver takes them back one by one.
    pub fn teardown(&mut self, phase: Phase) {
        let cmdq = std::mem::take(&mut self.cmdq);
        let iseg = std::mem::take(&mut self.iseg);
        let pages = std::mem::take(&mut self.pages);
        let (issi, generation) = (self.issi, self.generation);
        self.reset();
        self.cmdq = cmdq;
        self.iseg = iseg;
        self.phase = phase;
        self.generation = generation;
        self.pages = pages.after_teardown();
        if phase != Phase::Off {
            self.issi = issi;
        }
    }

    /// What follows every command, after its completion.
    pub fn after_command(&mut self) {
        if self.pages.changed() {
            crate::pages::settle(self);
        }
    }

    /// Runs the data path until it has nothing to do or `budget` steps are used up.
    pub fn work(&mut self, budget: u32) {
        for _ in 0..budget {
            let Some(work) = self.sched.pop() else {
                return;
            };
            self.env.counters.turns += 1;
            match work {
                Work::Qp(qpn) => crate::transport::run_qp(self, qpn),
                Work::Loopback => crate::transport::run_loopback(self),
                Work::Settle => crate::transport::settle(self),
                Work::Sq(sqn) => crate::eth::run_sq(self, sqn),
                Work::Frame { frame, from } => self.deliver(&frame, from),
            }
        }
    }

    /// Sends a frame of the RDMA engine (destination MAC to the last byte before the FCS): to this
    /// card itself, to the cable, or both, by its destination MAC.
    pub fn transmit(&mut self, frame: Vec<u8>) {
        crate::eth::port::transmit(self, frame, None, usize::MAX);
    }

    /// A frame from the cable.
    pub fn receive(&mut self, frame: &[u8]) {
        if !self.vport.link_up() {
            self.env.counters.frames_dropped += 1;
            return;
        }
        if frame.len() + FCS_LEN > usize::from(crate::eth::port::mtu(self)) {
            // `rx_oversize_pkts_phy`, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst.
            self.vport.received.too_long += 1;
            self.env.counters.frames_dropped += 1;
            return;
        }
        if crate::eth::pause::take(self, frame) {
            return;
        }
        let priority = self.priorities.of(frame);
        self.vport.received.count(frame, is_roce(frame), priority);
        self.deliver(frame, None);
    }

    /// Hands a frame to the engine that wants it: RoCE for the addresses of the RoCE address
    /// table, else Ethernet steering. `from` is the transport domain of the SQ, for a frame that
    /// an SQ of this card has sent.
    pub fn deliver(&mut self, frame: &[u8], from: Option<u32>) {
        if self.nodnic.active {
            return crate::nodnic::receive(self, frame);
        }
        if self.phase != Phase::Initialized {
            self.env.counters.frames_dropped += 1;
            return;
        }
        if !crate::transport::receive(self, frame) {
            crate::eth::receive(self, frame, from);
        }
    }

    /// What lives.
    pub fn census(&self) -> Census {
        let mut census = Census {
            pages_given: self.pages.given(),
            pages_used: self.pages_used(),
            ..Census::default()
        };
        census.add(Kind::Eq, self.eqs.len());
        census.add(Kind::Cq, self.cqs.len());
        census.add(Kind::Mkey, self.mkeys.len());
        census.add(Kind::Qp, self.qps.len());
        census.add(Kind::Srq, self.srqs.len());
        census.add(Kind::Pd, self.pds.len());
        census.add(Kind::Uar, self.uars.len());
        census.add(Kind::Xrcd, self.xrcds.len());
        census.add(Kind::TransportDomain, self.transport_domains.len());
        census.add(Kind::Tis, self.tises.len());
        census.add(Kind::Tir, self.tirs.len());
        census.add(Kind::Rqt, self.rqts.len());
        census.add(Kind::Sq, self.sqs.len());
        census.add(Kind::Rq, self.rqs.len());
        census.add(Kind::QCounter, self.q_counters.len());
        census.add(Kind::FlowTable, self.flow.len());
        census.add(Kind::FlowGroup, self.flow.groups());
        census.add(Kind::FlowCounter, self.flow_counters.len());
        census
    }

    /// Firmware memory of all objects, in bytes.
    pub fn footprint(&self) -> u64 {
        self.eqs.footprint()
            + self.cqs.footprint()
            + self.mkeys.footprint()
            + self.qps.footprint()
            + self.srqs.footprint()
            + self.pds.footprint()
            + self.uars.footprint()
            + self.xrcds.footprint()
            + self.transport_domains.footprint()
            + self.tises.footprint()
            + self.tirs.footprint()
            + self.rqts.footprint()
            + self.sqs.footprint()
            + self.rqs.footprint()
            + self.q_counters.footprint()
            + self.flow.footprint()
            + self.flow_counters.footprint()
    }
}

/// Whether a frame carries RoCEv2: UDP to port 4791, behind at most one VLAN tag.
pub fn is_roce(frame: &[u8]) -> bool {
    const VLAN: u16 = 0x8100;
    const PORT: u16 = 4791;
    const UDP: u8 = 17;
    let half = |at: usize| match frame.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    let l2 = if half(12) == VLAN { 18 } else { 14 };
    match half(l2 - 2) {
        0x0800 => {
            let header = usize::from(frame.get(l2).copied().unwrap_or(0) & 0xf) * 4;
            frame.get(l2 + 9) == Some(&UDP) && half(l2 + header + 2) == PORT
        }
        0x86dd => frame.get(l2 + 6) == Some(&UDP) && half(l2 + 42) == PORT,
        _ => false,
    }
}

/// The limit is a number in two fields.
fn flow_counters(caps: &Caps) -> u32 {
    let low = caps.max(field!(cmd_hca_cap, max_flow_counter_15_0));
    let high = caps.max(field!(cmd_hca_cap, max_flow_counter_31_16));
    // CAST: 16 bits each.
    (high << 16 | low) as u32
}

fn eq_table(caps: &Caps) -> Table<Eq> {
    // EQ numbers are 8 bits wide.
    let count = caps.max(field!(cmd_hca_cap, max_num_eqs)).min(254) as u32;
    Table::new(first::EQ, 255 - first::EQ, count)
}

/// Page numbers count 4 KiB pages of BAR0; the first 64 KiB hold the init segment and MSI-X.
fn uar_table(log_bar: u8) -> Table<Uar> {
    let pages = 1u32 << (log_bar.clamp(17, 32) - 12);
    let count = pages - first::UAR;
    Table::new(first::UAR, count, count)
}
