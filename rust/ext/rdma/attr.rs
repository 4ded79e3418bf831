// SPDX-License-Identifier: GPL-2.0
//! What a device and its ports can do, as `ibv_devinfo` shows it.

use rmlx5_bindings as bindings;

/// Limits and identity of a device (`struct ib_device_attr`). What is zero is not supported.
#[derive(Clone, Copy, Default)]
pub struct DeviceAttributes {
    /// Firmware version, major in bits 63:32, minor in 31:16, sub-minor in 15:0.
    pub fw_ver: u64,
    /// GUID of the system image, in the order of the wire.
    pub sys_image_guid: [u8; 8],
    /// Longest memory region, in bytes.
    pub max_mr_size: u64,
    /// Page sizes for memory regions, a bit for each power of two.
    pub page_size_cap: u64,
    /// PCI vendor id or IEEE OUI.
    pub vendor_id: u32,
    /// PCI device id.
    pub vendor_part_id: u32,
    /// Hardware revision.
    pub hw_ver: u32,
    /// Number of QPs.
    pub max_qp: u32,
    /// Work requests on a queue of a QP.
    pub max_qp_wr: u32,
    /// `IB_DEVICE_*` flags of the uapi.
    pub device_cap_flags: u64,
    /// Scatter entries of a send request.
    pub max_send_sge: u32,
    /// Scatter entries of a receive request.
    pub max_recv_sge: u32,
    /// Scatter entries of an RDMA read.
    pub max_sge_rd: u32,
    /// Number of CQs.
    pub max_cq: u32,
    /// Entries of a CQ.
    pub max_cqe: u32,
    /// Most completions, and microseconds, that an event of a CQ can be put off by.
    pub max_cq_moderation: (u16, u16),
    /// Number of memory regions.
    pub max_mr: u32,
    /// Number of memory windows.
    pub max_mw: u32,
    /// Number of protection domains.
    pub max_pd: u32,
    /// RDMA reads and atomics outstanding at a QP as target.
    pub max_qp_rd_atom: u32,
    /// RDMA reads and atomics outstanding at the device as target.
    pub max_res_rd_atom: u32,
    /// RDMA reads and atomics outstanding at a QP as initiator.
    pub max_qp_init_rd_atom: u32,
    /// Whether atomics are atomic among the QPs of the device.
    pub atomic: bool,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// QPs in a multicast group.
    pub max_mcast_qp_attach: u32,
    /// QPs in all multicast groups.
    pub max_total_mcast_qp_attach: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Number of SRQs.
    pub max_srq: u32,
    /// Work requests of an SRQ.
    pub max_srq_wr: u32,
    /// Scatter entries of an SRQ request.
    pub max_srq_sge: u32,
    /// Receive work queues; 0 without.
    pub max_receive_wqs: u32,
    /// Tables of receive work queues for raw packets, and queues in one.
    pub max_wq_tables: (u32, u32),
    /// Pages of a fast registration.
    pub max_fast_reg_page_list_len: u32,
    /// Partitions.
    pub max_pkeys: u16,
    /// Delay of acknowledgements, 4.096 us to the power of two of this.
    pub local_ca_ack_delay: u8,
    /// Mask of valid bits of a completion time stamp.
    pub timestamp_mask: u64,
    /// Frequency of the device's clock, in kHz.
    pub hca_core_clock: u64,
}

impl DeviceAttributes {
    /// Writes to the core's structure, which is zeroed.
    pub(super) fn store(&self, to: &mut bindings::ib_device_attr) {
        to.fw_ver = self.fw_ver;
        to.sys_image_guid = u64::from_ne_bytes(self.sys_image_guid);
        to.max_mr_size = self.max_mr_size;
        to.page_size_cap = self.page_size_cap;
        to.vendor_id = self.vendor_id;
        to.vendor_part_id = self.vendor_part_id;
        to.hw_ver = self.hw_ver;
        to.max_qp = self.max_qp;
        to.max_qp_wr = self.max_qp_wr;
        to.device_cap_flags = self.device_cap_flags;
        to.max_send_sge = self.max_send_sge;
        to.max_recv_sge = self.max_recv_sge;
        to.max_sge_rd = self.max_sge_rd;
        to.max_cq = self.max_cq;
        to.max_cqe = self.max_cqe;
        to.cq_caps.max_cq_moderation_count = self.max_cq_moderation.0;
        to.cq_caps.max_cq_moderation_period = self.max_cq_moderation.1;
        to.max_mr = self.max_mr;
        to.max_mw = self.max_mw;
        to.max_pd = self.max_pd;
        to.max_qp_rd_atom = self.max_qp_rd_atom;
        to.max_res_rd_atom = self.max_res_rd_atom;
        to.max_qp_init_rd_atom = self.max_qp_init_rd_atom;
        to.atomic_cap = if self.atomic {
            bindings::ib_atomic_cap_IB_ATOMIC_HCA
        } else {
            bindings::ib_atomic_cap_IB_ATOMIC_NONE
        };
        to.max_mcast_grp = self.max_mcast_grp;
        to.max_mcast_qp_attach = self.max_mcast_qp_attach;
        to.max_total_mcast_qp_attach = self.max_total_mcast_qp_attach;
        to.max_ah = self.max_ah;
        to.max_srq = self.max_srq;
        to.max_srq_wr = self.max_srq_wr;
        to.max_srq_sge = self.max_srq_sge;
        to.max_fast_reg_page_list_len = self.max_fast_reg_page_list_len;
        to.max_wq_type_rq = self.max_receive_wqs;
        let (tables, size) = self.max_wq_tables;
        if tables != 0 {
            to.rss_caps.max_rwq_indirection_tables = tables;
            to.rss_caps.max_rwq_indirection_table_size = size;
            to.rss_caps.supported_qpts = 1 << bindings::ib_qp_type_IB_QPT_RAW_PACKET;
        }
        to.max_pkeys = self.max_pkeys;
        to.local_ca_ack_delay = self.local_ca_ack_delay;
        to.timestamp_mask = self.timestamp_mask;
        to.hca_core_clock = self.hca_core_clock;
    }
}

/// Logical state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No link, or no network interface.
    Down,
    /// Traffic is possible.
    Active,
}

/// Payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Mtu {
    /// 256 bytes.
    Bytes256 = bindings::ib_mtu_IB_MTU_256,
    /// 512 bytes.
    Bytes512 = bindings::ib_mtu_IB_MTU_512,
    /// 1024 bytes.
    Bytes1024 = bindings::ib_mtu_IB_MTU_1024,
    /// 2048 bytes.
    Bytes2048 = bindings::ib_mtu_IB_MTU_2048,
    /// 4096 bytes.
    Bytes4096 = bindings::ib_mtu_IB_MTU_4096,
}

impl Mtu {
    /// The MTU with a code, 1 to 5.
    pub fn from_code(code: u32) -> Option<Self> {
        [
            Self::Bytes256,
            Self::Bytes512,
            Self::Bytes1024,
            Self::Bytes2048,
            Self::Bytes4096,
        ]
        .into_iter()
        .find(|mtu| *mtu as u32 == code)
    }

    /// Number of bytes.
    pub const fn bytes(self) -> u32 {
        // CAST: The codes are 1 to 5.
        128 << self as u32
    }
}

/// Number of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortWidth {
    /// One.
    X1 = bindings::ib_port_width_IB_WIDTH_1X as u8,
    /// Two.
    X2 = bindings::ib_port_width_IB_WIDTH_2X as u8,
    /// Four.
    X4 = bindings::ib_port_width_IB_WIDTH_4X as u8,
    /// Eight.
    X8 = bindings::ib_port_width_IB_WIDTH_8X as u8,
}

/// Speed of a lane, by the names of InfiniBand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum PortSpeed {
    /// 2.5 Gb/s.
    Sdr = bindings::ib_port_speed_IB_SPEED_SDR as u16,
    /// 5 Gb/s.
    Ddr = bindings::ib_port_speed_IB_SPEED_DDR as u16,
    /// 10 Gb/s.
    Qdr = bindings::ib_port_speed_IB_SPEED_QDR as u16,
    /// 14 Gb/s.
    Fdr = bindings::ib_port_speed_IB_SPEED_FDR as u16,
    /// 25 Gb/s.
    Edr = bindings::ib_port_speed_IB_SPEED_EDR as u16,
    /// 50 Gb/s.
    Hdr = bindings::ib_port_speed_IB_SPEED_HDR as u16,
    /// 100 Gb/s.
    Ndr = bindings::ib_port_speed_IB_SPEED_NDR as u16,
    /// 200 Gb/s.
    Xdr = bindings::ib_port_speed_IB_SPEED_XDR as u16,
}

/// State and limits of a port (`struct ib_port_attr`).
#[derive(Clone, Copy)]
pub struct PortAttributes {
    /// Whether traffic is possible.
    pub state: PortState,
    /// Largest MTU of the port.
    pub max_mtu: Mtu,
    /// MTU in force.
    pub active_mtu: Mtu,
    /// Entries of the GID table, as given to the core at registration.
    pub gid_table_len: u16,
    /// Longest message, in bytes.
    pub max_message: u32,
    /// Lanes.
    pub width: PortWidth,
    /// Speed of a lane.
    pub speed: PortSpeed,
}

impl PortAttributes {
    /// Writes to the core's structure, which is zeroed.
    pub(super) fn store(&self, to: &mut bindings::ib_port_attr) {
        (to.state, to.phys_state) = match self.state {
            PortState::Down => (
                bindings::ib_port_state_IB_PORT_DOWN,
                bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8,
            ),
            PortState::Active => (
                bindings::ib_port_state_IB_PORT_ACTIVE,
                bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8,
            ),
        };
        to.max_mtu = self.max_mtu as u32;
        to.active_mtu = self.active_mtu as u32;
        to.phys_mtu = self.active_mtu.bytes();
        to.gid_tbl_len = self.gid_table_len.into();
        to.pkey_tbl_len = 1;
        to.max_msg_sz = self.max_message;
        to.active_width = self.width as u8;
        to.active_speed = self.speed as u16;
    }
}
