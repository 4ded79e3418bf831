// SPDX-License-Identifier: GPL-2.0
//! The RDMA device: `mlx5_%d`, so that the RDMA tools show the card, with the knobs of the
//! channels beside it.
//!
//! Its port is the network interface's: it is ACTIVE while that one runs and has a link, its MTU follows, and
//! its GIDs are the interface's addresses ([`gids`]). On a card without Ethernet the port is DOWN and the table
//! empty. Verbs are for users and for the kernel ([`kverbs`]).
//!
//! The device is registered once and stays across resets.

mod abi;
mod ah;
mod context;
mod counters;
mod cq;
mod doorbell;
mod events;
mod flow;
mod gids;
mod ioctl;
mod knobs;
pub(crate) mod kverbs;
mod matcher;
mod mr;
mod qp;
mod queue;
mod resource;
mod revoke;
mod rule;
mod srq;
mod verbs;
mod window;
mod wq;
mod xrcd;

use core::fmt;

use kernel::{
    fmt::Arguments,
    prelude::*,
    sync::Arc, //
};
use kernel_ext::{
    net::DeviceRef,
    rdma::{
        Config,
        Context,
        CounterSet,
        DataOf,
        DeviceAttributes,
        Driver,
        DriverId,
        Gid,
        GidKinds,
        Mtu,
        PortAttributes,
        PortEvent,
        PortSpeed,
        PortState,
        PortWidth,
        Registration,
        Udata,
        Vma, //
    },
    sysfs::{
        Group,
        Groups, //
    },
};

use self::{
    context::UserContext,
    counters::Counters,
    doorbell::AskedPage,
    events::Events,
    gids::Gids,
    kverbs::{
        Lives,
        Place,
        Successor, //
    },
    revoke::Revoker, //
};
use crate::{
    caps::Caps,
    channel::set::Channels,
    device::Device,
    home::Home,
    limit::Limit,
    net::entrance::Entrance,
    pd::Pd,
    port::{
        path_mtu,
        speed::{
            Lane,
            Speed, //
        },
        Identity,
        Port, //
    },
    recovery::Participant,
    umr::Umr,
    xrc::Anchors, //
};

/// The port: one PCI function has one.
const PORT: u32 = 1;
/// OUI of the maker, as the C driver reports it. Source: QUERY_ADAPTER `ieee_vendor_id`.
const VENDOR: u32 = 0x02c9;
/// Bytes of a send WQE that count for scatter entries. Source: `mlx5_ib_query_device` in ib/main.c.
const SEND_WQE_LIMIT: u32 = 512;
/// Blocks of 64 bytes that a send of any kind may take, with one scatter entry and nothing inline. Source:
/// `mlx5_ib_calc_max_qp_wr` in ib/main.c.
const SEND_BLOCKS: u32 = 4;
/// Bytes of a scatter entry.
const DATA_SEGMENT: u32 = 16;
/// Bytes of a send WQE before its scatter entries: control and remote address.
const SEND_HEAD: u32 = 32;
/// Bytes of a receive of an SRQ before its scatter entries. Source: `mlx5_wqe_srq_next_seg`.
const SRQ_HEAD: u32 = 16;
/// The device can tell: `IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT`, `..._SYS_IMAGE_GUID` and
/// `..._RC_RNR_NAK_GEN` of include/uapi/rdma/ib_user_verbs.h.
const CAP_FLAGS: u64 = 1 << 10 | 1 << 11 | 1 << 12;
/// There are memory windows, those of type 2 tied to QPs: `IB_UVERBS_DEVICE_MEM_WINDOW` and
/// `..._MEM_WINDOW_TYPE_2B`, the same place.
const WINDOWS: u64 = 1 << 17 | 1 << 24;
/// `IB_UVERBS_DEVICE_XRC`, the same place.
const XRC: u64 = 1 << 20;
/// Requests can fill memory regions and make keys invalid: `IB_DEVICE_MEM_MGT_EXTENSIONS`.
const CAP_REGISTRATION: u64 = 1 << 21;
/// Most bytes that the length of a scatter entry can say (0 means it). Source: `mlx5_wqe_data_seg`.
const DATA_SEGMENT_BYTES: u64 = 1 << 31;

/// Bits of a time stamp. Source: `mlx5_ib_query_device` in ib/main.c.
const STAMP_MASK: u64 = u64::MAX >> 1;

/// The limits in force, as sysfs and verbs show them.
pub(crate) struct Limits {
    pub(crate) max_qp: u32,
    pub(crate) max_qp_wr: u32,
    /// Blocks of a send queue, and receives of a queue.
    pub(crate) most_wr: u32,
    pub(crate) max_cq: u32,
    pub(crate) max_cqe: u32,
    pub(crate) max_send_sge: u32,
    /// What a send has room for that has nothing but scatter entries.
    pub(crate) most_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_msg_size: u32,
    pub(crate) max_srq: u32,
    pub(crate) max_srq_wr: u32,
    pub(crate) max_srq_sge: u32,
}

impl Limits {
    /// From the validated capabilities.
    fn of(caps: &Caps) -> Self {
        let send_wqe = u32::from(caps.max_send_wqe).min(SEND_WQE_LIMIT);
        Self {
            max_qp: 1 << caps.log_max_qp,
            max_qp_wr: (1 << caps.log_max_qp_size) / SEND_BLOCKS,
            most_wr: 1 << caps.log_max_qp_size,
            max_cq: 1 << caps.log_max_cq,
            max_cqe: (1 << caps.log_max_cq_size) - 1,
            max_send_sge: send_wqe.saturating_sub(SEND_HEAD) / DATA_SEGMENT,
            most_send_sge: u32::from(caps.max_send_wqe).saturating_sub(SEND_HEAD) / DATA_SEGMENT,
            max_recv_sge: u32::from(caps.max_receive_wqe) / DATA_SEGMENT,
            max_msg_size: 1 << caps.log_max_message,
            max_srq: caps.max_srq(),
            // One stays free, so that an empty queue can be told from a full one.
            max_srq_wr: (1u32 << caps.log_max_srq_size).saturating_sub(1),
            max_srq_sge: u32::from(caps.max_receive_wqe).saturating_sub(SRQ_HEAD) / DATA_SEGMENT,
        }
    }
}

fn cap_flags(caps: &Caps) -> u64 {
    let mut flags = CAP_FLAGS | CAP_REGISTRATION;
    if caps.memory_windows {
        flags |= WINDOWS;
    }
    if caps.xrc {
        flags |= XRC;
    }
    flags
}

/// What the callbacks work on.
pub(crate) struct Data {
    device: Arc<Device>,
    channels: Arc<Channels>,
    identity: Identity,
    netdev: Option<DeviceRef>,
    gids: Arc<Gids>,
    /// Who is told of events of users' objects.
    events: Arc<Events>,
    /// Takes doorbell pages away after a reset.
    revoker: Arc<Revoker>,
    /// Changes keys in place.
    umr: Umr,
    /// What the queues of extended reliable connections hang on.
    anchors: Anchors,
    /// What the kernel has beyond a generation, and whether the present one is over.
    lives: Arc<Lives>,
    /// What is shown of the port and of the device.
    port_counters: Counters,
    device_counters: Counters,
    /// Where frames come in, for rules of users.
    entrance: Arc<Entrance>,
    /// Lines about what users may not have.
    complaints: Limit,
}

impl Data {
    /// Says in a line, if there were not many lately, what a user may not have.
    fn complain(&self, what: Arguments<'_>) {
        if self.complaints.allows() {
            dev_warn!(self.device.pdev, "{}\n", what);
        }
    }

    fn limits(&self) -> Result<Limits> {
        Ok(Limits::of(&self.device.caps()?))
    }

    /// Most bytes that a scatter entry may map: what it can say, and what the DMA layer allows.
    fn max_dma_size(&self) -> Result<u64> {
        let pdev = &self.device.pdev;
        Ok(u64::from(self.limits()?.max_msg_size)
            .min(DATA_SEGMENT_BYTES)
            .min(pdev.max_segment().into())
            // CAST: `usize` has 64 bits here.
            .min(pdev.max_mapping() as u64))
    }
}

/// The driver of the RDMA device.
pub(crate) struct Verbs;

/// A protection domain of a user or of the kernel.
pub(crate) struct Domain {
    home: Home,
    pd: Option<Pd>,
    /// What stands for it in later generations; `None` for a user's.
    successor: Option<Arc<Successor>>,
    lives: Arc<Lives>,
}

impl Domain {
    /// Where it is on the device. `EIO` when it is of an earlier generation and has no successor.
    fn place(&self) -> Result<Place> {
        match &self.successor {
            Some(successor) if !self.home.is_current() => successor.place(),
            _ => {
                self.home.alive()?;
                Ok(Place {
                    home: self.home.clone(),
                    pd: self.pd.as_ref().ok_or(EIO)?.number(),
                    key: None,
                })
            }
        }
    }

    /// Its number on the device. Errors as for [`Domain::place`].
    fn number(&self) -> Result<u32> {
        Ok(self.place()?.pd)
    }

    /// What stands for it in later generations; `None` for a user's.
    fn successor(&self) -> Option<&Arc<Successor>> {
        self.successor.as_ref()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if let Some(successor) = self.successor.take() {
            self.lives.remove_domain(&successor);
        }
        if let Some(pd) = self.pd.take() {
            // A domain of an earlier generation is gone already.
            if self.home.is_current() {
                pd.dealloc(self.home.cmd());
            }
        }
    }
}

impl Driver for Verbs {
    type Module = crate::LocalModule;
    type Data = Data;
    type Context = UserContext;
    type Pd = Domain;
    type Page = AskedPage;

    const DRIVER_ID: DriverId = DriverId::Mlx5;
    // Source: `MLX5_IB_UVERBS_ABI_VERSION` in include/uapi/rdma/mlx5-abi.h.
    const UVERBS_ABI: u32 = 1;
    const PORT_COUNTERS: Option<&'static CounterSet<Data>> = Some(&counters::PORT);
    const DEVICE_COUNTERS: Option<&'static CounterSet<Data>> = Some(&counters::DEVICE);
    const GROUP: Option<&'static Group<DataOf<Self>>> = Some(&knobs::GROUP);
    const NAMED_GROUPS: Groups<DataOf<Self>> = &[Some(&knobs::RESOURCE), None];

    fn query_device(data: &Data, udata: Option<Udata<'_>>) -> Result<DeviceAttributes> {
        if let Some(udata) = udata {
            // There is nothing to ask for.
            let _: [u8; 0] = udata.request(0)?;
        }
        let caps = data.device.caps()?;
        let limits = Limits::of(&caps);
        let rev = data.device.iseg.fw_rev();
        Ok(DeviceAttributes {
            fw_ver: u64::from(rev.major) << 32 | u64::from(rev.minor) << 16 | u64::from(rev.sub),
            sys_image_guid: data.identity.system_guid.to_be_bytes(),
            max_mr_size: u64::MAX,
            page_size_cap: !0xfff,
            vendor_id: VENDOR,
            vendor_part_id: data.device.pdev.device_id().into(),
            hw_ver: data.device.pdev.revision_id().into(),
            max_qp: limits.max_qp,
            max_qp_wr: limits.max_qp_wr,
            max_send_sge: limits.max_send_sge,
            max_recv_sge: limits.max_recv_sge,
            max_sge_rd: limits.max_send_sge,
            max_cq: limits.max_cq,
            max_cqe: limits.max_cqe,
            max_cq_moderation: if caps.cq_moderation {
                (u16::MAX, cq::MAX_PERIOD)
            } else {
                (0, 0)
            },
            max_mr: 1 << caps.log_max_mkey,
            max_pd: 1 << caps.log_max_pd,
            max_qp_rd_atom: 1 << caps.log_max_responder_depth,
            max_qp_init_rd_atom: 1 << caps.log_max_initiator_depth,
            max_res_rd_atom: limits
                .max_qp
                .saturating_mul(1 << caps.log_max_responder_depth),
            atomic: caps.atomic && caps.atomic_host_order,
            device_cap_flags: cap_flags(&caps),
            max_receive_wqs: if caps.ethernet {
                1 << caps.log_max_rqs
            } else {
                0
            },
            max_wq_tables: if caps.ethernet {
                (1 << caps.log_max_rqts, 1 << caps.log_max_rqt)
            } else {
                (0, 0)
            },
            max_fast_reg_page_list_len: kverbs::mr::MOST_PAGES,
            max_srq: limits.max_srq,
            max_srq_wr: limits.max_srq_wr,
            max_srq_sge: limits.max_srq_sge,
            // CAST, below: a number that user space takes for signed.
            max_ah: i32::MAX as u32,
            max_mw: if caps.memory_windows {
                1 << caps.log_max_mkey
            } else {
                0
            },
            max_mcast_grp: 1 << caps.log_max_multicast,
            max_mcast_qp_attach: caps.max_multicast_qps,
            max_total_mcast_qp_attach: caps
                .max_multicast_qps
                .saturating_mul(1 << caps.log_max_multicast)
                .min(i32::MAX as u32),
            max_pkeys: 1,
            hca_core_clock: caps.clock_khz.into(),
            timestamp_mask: match caps.clock_khz {
                0 => 0,
                _ => STAMP_MASK,
            },
            ..DeviceAttributes::default()
        })
    }

    fn query_port(data: &Data, _port: u32) -> Result<PortAttributes> {
        let caps = data.device.caps()?;
        // Between two generations there is nobody to ask.
        let speed = Port::speed(&data.device.cmd).unwrap_or(Speed::UNKNOWN);
        let (state, active_mtu) = match &data.netdev {
            Some(netdev) if netdev.is_running() && netdev.has_carrier() => {
                (PortState::Active, path_mtu(netdev.mtu()))
            }
            Some(netdev) => (PortState::Down, path_mtu(netdev.mtu())),
            None => (PortState::Down, data.identity.path_mtu()),
        };
        Ok(PortAttributes {
            state,
            max_mtu: Mtu::Bytes4096,
            active_mtu: mtu(active_mtu),
            gid_table_len: caps.gid_table_len(),
            max_message: data.limits()?.max_msg_size,
            width: width(speed),
            speed: lane(speed),
        })
    }

    fn firmware(data: &Data, to: &mut dyn fmt::Write) -> fmt::Result {
        let rev = data.device.iseg.fw_rev();
        write!(to, "{}.{}.{:04}", rev.major, rev.minor, rev.sub)
    }

    fn add_gid(data: &Data, gid: &Gid<'_>) -> Result {
        data.gids.add(&data.device, gid)
    }

    fn delete_gid(data: &Data, gid: &Gid<'_>) -> Result {
        data.gids.delete(&data.device, gid)
    }

    fn create_context(data: &Data, udata: Udata<'_>) -> impl PinInit<UserContext, Error> {
        UserContext::open(data, udata)
    }

    fn mmap(data: &Data, vma: Vma<'_, Verbs>) -> Result {
        context::map(data, vma)
    }

    fn create_pd(
        data: &Data,
        user: Option<(Context<'_, UserContext>, Udata<'_>)>,
    ) -> impl PinInit<Domain, Error> {
        let home = match &user {
            Some((context, _)) => context.payload().home()?.clone(),
            None => Home::now(&data.device),
        };
        let pd = Pd::alloc(home.cmd())?;
        let number = pd.number();
        // From here on an error gives the domain back.
        let mut domain = Domain {
            home,
            pd: Some(pd),
            successor: None,
            lives: data.lives.clone(),
        };
        match user {
            Some((_, mut udata)) => abi::answer_number(number, &mut udata)?,
            None => {
                let successor = domain.successor.insert(Successor::new()?).clone();
                data.lives.add_domain(&domain.home, successor)?;
            }
        }
        Ok::<_, Error>(domain)
    }
}

fn width(speed: Speed) -> PortWidth {
    match speed.lanes {
        8.. => PortWidth::X8,
        4.. => PortWidth::X4,
        2.. => PortWidth::X2,
        _ => PortWidth::X1,
    }
}

fn lane(speed: Speed) -> PortSpeed {
    match speed.lane {
        Lane::Sdr => PortSpeed::Sdr,
        Lane::Ddr => PortSpeed::Ddr,
        Lane::Qdr => PortSpeed::Qdr,
        Lane::Fdr => PortSpeed::Fdr,
        Lane::Edr => PortSpeed::Edr,
        Lane::Hdr => PortSpeed::Hdr,
        Lane::Ndr => PortSpeed::Ndr,
        Lane::Xdr => PortSpeed::Xdr,
    }
}

fn mtu(bytes: u32) -> Mtu {
    match bytes {
        4096.. => Mtu::Bytes4096,
        2048.. => Mtu::Bytes2048,
        1024.. => Mtu::Bytes1024,
        512.. => Mtu::Bytes512,
        _ => Mtu::Bytes256,
    }
}

/// The registered device as a part of the card.
pub(crate) struct Face {
    /// Owns the registration.
    revoker: Arc<Revoker>,
    gids: Arc<Gids>,
    /// There is an interface whose addresses fill the table.
    has_netdev: bool,
    device: Arc<Device>,
    events: Arc<Events>,
    lives: Arc<Lives>,
}

impl Face {
    /// Registers the RDMA device, on the network interface if there is one, and hangs it on the card
    /// behind it. Sleeps.
    pub(crate) fn attach(
        device: &Arc<Device>,
        identity: Identity,
        channels: &Arc<Channels>,
        netdev: Option<DeviceRef>,
        entrance: &Arc<Entrance>,
    ) -> Result {
        let caps = device.caps()?;
        let vectors = device.eqs().map_or(1, |eqs| eqs.completions().len());
        let config = Config {
            node_guid: identity.node_guid.to_be_bytes(),
            ports: PORT,
            gid_table_len: caps.gid_table_len(),
            gid_kinds: GidKinds {
                v1: caps.roce_v1() && crate::roce_v1(),
                v2: true,
            },
            // CAST: at most 2048.
            completion_vectors: vectors as u32,
        };
        let gids = Arc::pin_init(Gids::new(caps.gid_table_len())?, GFP_KERNEL)?;
        let events = Arc::pin_init(Events::new(), GFP_KERNEL)?;
        device.events.listen(events.clone())?;
        let revoker = Revoker::new()?;
        let lives = Lives::new()?;
        let data = Data {
            device: device.clone(),
            channels: channels.clone(),
            identity,
            netdev: netdev.clone(),
            gids: gids.clone(),
            events: events.clone(),
            revoker: revoker.clone(),
            umr: Umr::new()?,
            anchors: Anchors::new()?,
            lives: lives.clone(),
            port_counters: Counters::of_port(&caps)?,
            device_counters: Counters::of_device()?,
            entrance: entrance.clone(),
            complaints: Limit::default(),
        };
        // The core fills the table while it registers the device; the card hears of it when this joins.
        let registration = Registration::new(
            &device.pdev,
            c"mlx5_%d",
            &config,
            netdev.as_deref(),
            Ok::<_, Error>(data),
        )?;
        dev_info!(
            device.pdev,
            "RDMA device {}\n",
            registration.name().as_str()
        );
        revoker.open(Arc::new(registration, GFP_KERNEL)?);
        let face = Arc::new(
            Self {
                revoker: revoker.clone(),
                gids,
                has_netdev: netdev.is_some(),
                device: device.clone(),
                events,
                lives,
            },
            GFP_KERNEL,
        )
        .inspect_err(|_| drop(revoker.close()))?;
        device
            .recovery
            .join(face.clone())
            .inspect_err(|_| face.close())
    }
}

impl Participant for Face {
    fn name(&self) -> &'static str {
        "RDMA device"
    }

    fn stop(&self) {
        self.gids.lost();
        // It stays registered. What users have on it is void: they are told, and close it.
        self.events.forget_all();
        self.lives.end();
        if let Some(registration) = self.revoker.registration() {
            registration.dispatch(1, PortEvent::DeviceFatal);
        }
        self.revoker.schedule();
    }

    fn start(&self) -> Result {
        self.lives.begin(&self.device, &self.events);
        match self.has_netdev {
            true => self.gids.begin(&self.device),
            false => Ok(()),
        }
    }

    /// What could not be done meanwhile has told its caller so.
    fn resume(&self) {}

    fn close(&self) {
        let registration = self.revoker.close();
        // Waits for everybody who is in a callback or an attribute.
        drop(registration);
        self.gids.end(&self.device);
    }
}
