// SPDX-License-Identifier: GPL-2.0
//! Network devices and their drivers.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{error::to_result, prelude::*, time::Delta, types::Opaque};
use pin_init::PinInit;
use rmlx5_bindings as bindings;

use super::{
    dcb::Bridge,
    ethtool::{self, Tools},
    ops::Table,
    queue::TxLocked,
    queue_stats::{self, QueueCounters},
    SkBuff,
};
use crate::{devlink, pci::BoundDevice, time::jiffies_of};

/// A network device, as the core knows it.
///
/// # Invariants
///
/// A reference is to a device that has been allocated and not freed.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: The core's functions used here have their own locks.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// # Safety
    ///
    /// `raw` must be a device that is not freed during `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(raw: *mut bindings::net_device) -> &'a Self {
        // SAFETY: By the safety requirements; the type is transparent.
        unsafe { &*raw.cast() }
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Its name now, at most 15 bytes; a person may change it.
    pub fn name(&self) -> Name {
        let mut name = Name([0; Name::LEN]);
        // SAFETY: By the type invariant.
        let source: *const u8 = unsafe { (&raw const (*self.as_raw()).name).cast() };
        for (index, byte) in name.0.iter_mut().enumerate() {
            // A rename may happen meanwhile; then the copy is a mix of both names.
            // SAFETY: The core's name has the same length.
            *byte = unsafe { source.add(index).read_volatile() };
        }
        name
    }

    /// Bytes of the largest packet without Ethernet header.
    pub fn mtu(&self) -> u32 {
        // SAFETY: By the type invariant; the core reads it without a lock too.
        unsafe { (&raw const (*self.as_raw()).mtu).read_volatile() }
    }

    /// The address. Under the RTNL, or it may be in the middle of a change.
    pub fn address(&self) -> [u8; 6] {
        let mut address = [0; 6];
        // SAFETY: By the type invariant; an Ethernet device has an address of six bytes.
        unsafe {
            core::ptr::copy_nonoverlapping((*self.as_raw()).dev_addr, address.as_mut_ptr(), 6)
        };
        address
    }

    /// Features that are on.
    #[inline]
    pub fn features(&self) -> Features {
        // SAFETY: By the type invariant; the core reads it without a lock too.
        Features(unsafe { (&raw const (*self.as_raw()).features).read_volatile() })
    }

    /// How many transmit queues the device was made with.
    #[inline]
    pub fn max_tx_queues(&self) -> u32 {
        // SAFETY: By the type invariant; it never changes.
        unsafe { (*self.as_raw()).num_tx_queues }
    }

    /// Whether the interface is up, or being opened or closed. Stable under the RTNL.
    pub fn is_running(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::netif_running(self.as_raw()) }
    }

    /// Whether the hardware is there; see [`NetDevice::detach`].
    pub fn is_present(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::netif_device_present(self.as_raw()) }
    }

    /// The hardware is gone for a while: queues stop, and users get `ENODEV`. The interface stays up
    /// for its addresses and routes.
    pub fn detach(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netif_device_detach(self.as_raw()) }
    }

    /// Ends [`NetDevice::detach`].
    pub fn attach(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netif_device_attach(self.as_raw()) }
    }

    /// Whether there is a link.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::netif_carrier_ok(self.as_raw()) }
    }

    /// Says whether there is a link; whether that is new.
    pub fn set_carrier(&self, up: bool) -> bool {
        let new = self.has_carrier() != up;
        // SAFETY: By the type invariant.
        unsafe {
            if up {
                bindings::netif_carrier_on(self.as_raw());
            } else {
                bindings::netif_carrier_off(self.as_raw());
            }
        }
        new
    }

    /// How many of the queues are in use from now on. Under the RTNL.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none or more than there are, `ENOMEM`.
    pub fn set_queues(&self, tx: u32, rx: u32) -> Result {
        // SAFETY: By the type invariant.
        to_result(unsafe { bindings::netif_set_real_num_queues(self.as_raw(), tx, rx) })
    }

    /// Lets the core hand over packets. At the end of [`Driver::open`].
    pub fn start_queues(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netif_tx_start_all_queues(self.as_raw()) }
    }

    /// No [`Driver::transmit`] runs any more when this returns, nor is one begun. Process context.
    pub fn stop_queues(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::netif_tx_disable(self.as_raw()) }
    }

    /// A counted reference; unregistering waits for it.
    pub fn hold(&self) -> DeviceRef {
        // SAFETY: By the type invariant.
        unsafe { bindings::dev_hold(self.as_raw()) };
        // INVARIANT: Counted above.
        DeviceRef(NonNull::from(self))
    }
}

/// A counted reference to a device.
///
/// # Invariants
///
/// The device is counted for this value.
pub struct DeviceRef(NonNull<NetDevice>);

// SAFETY: References may be dropped by any thread.
unsafe impl Send for DeviceRef {}
// SAFETY: It gives a shared reference only.
unsafe impl Sync for DeviceRef {}

impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        self.hold()
    }
}

impl core::ops::Deref for DeviceRef {
    type Target = NetDevice;

    #[inline]
    fn deref(&self) -> &NetDevice {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for DeviceRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::dev_put(self.as_raw()) }
    }
}

/// A copy of the name of a device.
#[derive(Clone, Copy)]
pub struct Name([u8; Self::LEN]);

impl Name {
    // CAST: A small constant.
    const LEN: usize = bindings::IFNAMSIZ as usize;

    /// The name; empty if it is not UTF-8.
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or(&[]);
        core::str::from_utf8(text).unwrap_or("")
    }
}

impl kernel::fmt::Display for Name {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of `NETIF_F_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub(super) u64);

impl Features {
    /// None.
    pub const NONE: Self = Self(0);
    /// Fragments.
    pub const SG: Self = Self::bit(bindings::NETIF_F_SG_BIT);
    /// Checksums of TCP and UDP over IPv4 are computed.
    pub const IP_CSUM: Self = Self::bit(bindings::NETIF_F_IP_CSUM_BIT);
    /// The same over IPv6.
    pub const IPV6_CSUM: Self = Self::bit(bindings::NETIF_F_IPV6_CSUM_BIT);
    /// Checksums of received packets are verified.
    pub const RXCSUM: Self = Self::bit(bindings::NETIF_F_RXCSUM_BIT);
    /// Received packets have a hash.
    pub const RXHASH: Self = Self::bit(bindings::NETIF_F_RXHASH_BIT);
    /// TCP over IPv4 is cut into segments.
    pub const TSO: Self = Self::bit(bindings::NETIF_F_TSO_BIT);
    /// The same over IPv6.
    pub const TSO6: Self = Self::bit(bindings::NETIF_F_TSO6_BIT);
    /// Headers are the same in all segments but for what TCP counts and the card adds; the core makes
    /// them so.
    pub const GSO_PARTIAL: Self = Self::bit(bindings::NETIF_F_GSO_PARTIAL_BIT);
    /// UDP payload is cut into packets.
    pub const GSO_UDP_L4: Self = Self::bit(bindings::NETIF_F_GSO_UDP_L4_BIT);
    /// Customer tags are inserted.
    pub const CTAG_TX: Self = Self::bit(bindings::NETIF_F_HW_VLAN_CTAG_TX_BIT);
    /// Customer tags are stripped.
    pub const CTAG_RX: Self = Self::bit(bindings::NETIF_F_HW_VLAN_CTAG_RX_BIT);
    /// Customer tags are filtered: [`Driver::add_vlan`] says what passes.
    pub const CTAG_FILTER: Self = Self::bit(bindings::NETIF_F_HW_VLAN_CTAG_FILTER_BIT);
    /// Service tags are inserted.
    pub const STAG_TX: Self = Self::bit(bindings::NETIF_F_HW_VLAN_STAG_TX_BIT);
    /// High memory can be sent.
    pub const HIGHDMA: Self = Self::bit(bindings::NETIF_F_HIGHDMA_BIT);

    const fn bit(bit: u32) -> Self {
        Self(1 << bit)
    }

    /// Those in either set.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those in `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are in it.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What an interface counts (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets received well.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets given to the hardware.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Bad packets received, of all kinds.
    pub rx_errors: u64,
    /// Packets that could not be sent, of all kinds.
    pub tx_errors: u64,
    /// Good packets dropped for want of memory in the host.
    pub rx_dropped: u64,
    /// The same of packets to be sent.
    pub tx_dropped: u64,
    /// Packets to groups.
    pub multicast: u64,
    /// Packets whose length was wrong.
    pub rx_length_errors: u64,
    /// Packets for which the hardware found no buffer.
    pub rx_missed_errors: u64,
}

impl Stats {
    pub(super) fn store(&self, to: &mut bindings::rtnl_link_stats64) {
        to.rx_packets = self.rx_packets;
        to.rx_bytes = self.rx_bytes;
        to.tx_packets = self.tx_packets;
        to.tx_bytes = self.tx_bytes;
        to.rx_errors = self.rx_errors;
        to.tx_errors = self.tx_errors;
        to.rx_dropped = self.rx_dropped;
        to.tx_dropped = self.tx_dropped;
        to.multicast = self.multicast;
        to.rx_length_errors = self.rx_length_errors;
        to.rx_missed_errors = self.rx_missed_errors;
    }
}

/// Which packets to receive, for the duration of the call.
pub struct RxMode<'a> {
    /// Everything.
    pub promiscuous: bool,
    /// All groups.
    pub all_multicast: bool,
    unicast: *mut bindings::netdev_hw_addr_list,
    multicast: *mut bindings::netdev_hw_addr_list,
    _call: PhantomData<&'a ()>,
}

impl RxMode<'_> {
    /// # Safety
    ///
    /// Both lists must be valid and unchanged for the lifetime of the result.
    #[inline]
    pub(super) unsafe fn from_raw(
        device: &NetDevice,
        unicast: *mut bindings::netdev_hw_addr_list,
        multicast: *mut bindings::netdev_hw_addr_list,
    ) -> Self {
        // SAFETY: By the type invariant.
        let flags = unsafe { (*device.as_raw()).flags };
        Self {
            promiscuous: flags & bindings::net_device_flags_IFF_PROMISC != 0,
            all_multicast: flags & bindings::net_device_flags_IFF_ALLMULTI != 0,
            unicast,
            multicast,
            _call: PhantomData,
        }
    }

    /// Addresses besides the device's own. Sleeps. Fails with `ENOMEM`.
    pub fn unicast(&self) -> Result<KVVec<[u8; 6]>> {
        Self::copy(self.unicast)
    }

    /// Groups. Sleeps. Fails with `ENOMEM`.
    pub fn multicast(&self) -> Result<KVVec<[u8; 6]>> {
        Self::copy(self.multicast)
    }

    fn copy(list: *mut bindings::netdev_hw_addr_list) -> Result<KVVec<[u8; 6]>> {
        // SAFETY: By construction the list is valid and does not change.
        let count = unsafe { bindings::hw_addr_list(list, core::ptr::null_mut(), 0) };
        // CAST: `usize` has 64 bits here.
        let mut addresses = KVVec::<[u8; 6]>::zeroed(count as usize, GFP_KERNEL)?;
        // SAFETY: As above, and there is room for `count` addresses of six bytes.
        unsafe { bindings::hw_addr_list(list, addresses.as_mut_ptr().cast(), count) };
        Ok(addresses)
    }
}

/// What became of a packet.
pub enum Transmit {
    /// The driver has it, or has dropped it.
    Taken,
    /// The queue has no room; it comes again. A driver that stops its queues in time never says so.
    Busy(SkBuff),
}

/// A driver. See the documentation of [`crate::net`] for contexts and locks.
pub trait Driver: Sized + 'static {
    /// The driver's data of a device.
    type Data: Send + Sync + 'static;

    /// What answers `ethtool`, if anything does.
    const TOOLS: Option<Tools> = None;

    /// What answers `dcb`, where [`Config::bridges`] says that the device does.
    const BRIDGE: Option<Bridge> = None;

    /// What it counts by queue.
    const QUEUE_COUNTERS: Option<QueueCounters> = None;

    /// The interface goes up.
    fn open(device: &NetDevice, data: &Self::Data) -> Result;

    /// The interface goes down; this cannot fail. No [`Driver::transmit`] may run afterwards.
    fn stop(device: &NetDevice, data: &Self::Data);

    /// Sends a packet on `queue`, whose transmit lock is held: what a [`super::queue::TxCell`] holds may be used.
    fn transmit(
        device: &NetDevice,
        data: &Self::Data,
        skb: SkBuff,
        queue: &mut TxLocked<'_>,
    ) -> Transmit;

    /// A queue has made no progress for [`Config::watchdog`].
    fn timeout(device: &NetDevice, data: &Self::Data, queue: u16);

    /// Adds what was counted so far.
    fn stats(data: &Self::Data, stats: &mut Stats);

    /// Which packets to receive. Called when that changes while the interface is up. An error lets the
    /// core try again later.
    fn rx_mode(device: &NetDevice, data: &Self::Data, mode: &RxMode<'_>) -> Result;

    /// Frames of this VLAN (customer tag, 12 bits) are wanted too. Only with [`Features::CTAG_FILTER`].
    fn add_vlan(device: &NetDevice, data: &Self::Data, id: u16) -> Result {
        let _ = (device, data, id);
        Err(EOPNOTSUPP)
    }

    /// Ends [`Driver::add_vlan`].
    fn remove_vlan(device: &NetDevice, data: &Self::Data, id: u16) -> Result {
        let _ = (device, data, id);
        Err(EOPNOTSUPP)
    }

    /// Another address of the device, a valid one. The core has it when this succeeds.
    fn set_address(device: &NetDevice, data: &Self::Data, address: [u8; 6]) -> Result;

    /// Another MTU, in the range of [`Config`]. The core has it when this succeeds.
    fn change_mtu(device: &NetDevice, data: &Self::Data, mtu: u32) -> Result;

    /// Leaves out of `wanted` what does not go together.
    fn fix_features(data: &Self::Data, wanted: Features) -> Features {
        let _ = data;
        wanted
    }

    /// Switches features.
    fn set_features(device: &NetDevice, data: &Self::Data, features: Features) -> Result {
        let _ = (device, data, features);
        Ok(())
    }
}

/// What the core has to know about a device besides the functions.
pub struct Config {
    /// Transmit and receive queues at most.
    pub queues: u32,
    /// Permanent address.
    pub address: [u8; 6],
    /// Smallest MTU.
    pub min_mtu: u32,
    /// Largest MTU.
    pub max_mtu: u32,
    /// Features that can be switched, all on to begin with.
    pub features: Features,
    /// Features that are always on.
    pub fixed: Features,
    /// Those of `features` for which the core has to prepare the headers ([`Features::GSO_PARTIAL`]).
    pub partial: Features,
    /// Features for interfaces of VLANs on it.
    pub vlan_features: Features,
    /// Bytes the hardware cuts into segments at most.
    pub max_gso: u32,
    /// The device has classes of traffic; see [`super::dcb`].
    pub bridges: bool,
    /// How long a queue may be stuck.
    pub watchdog: Delta,
}

/// The key of the Toeplitz hash that this boot of the kernel has chosen.
pub fn hash_key() -> [u8; 40] {
    let mut key = [0; 40];
    // SAFETY: Fills the array.
    unsafe { bindings::netdev_rss_key_fill(key.as_mut_ptr().cast(), key.len()) };
    key
}

/// What stands behind the core's device.
#[repr(C)]
pub(super) struct Shell<D: Driver> {
    data: *const D::Data,
}

impl<D: Driver> Shell<D> {
    /// # Safety
    ///
    /// `raw` must come from [`Registration::new`] for the same driver and not be unregistered for `'a`.
    pub(super) unsafe fn data<'a>(raw: *mut bindings::net_device) -> &'a D::Data {
        // SAFETY: By the safety requirements the private area is a shell whose data lives until the
        // device is unregistered.
        unsafe { &*(*bindings::netdev_priv(raw).cast::<Self>()).data }
    }
}

/// A registered device, until drop.
///
/// # Invariants
///
/// `device` is registered and was made with a `Shell<D>` that points to `data`.
pub struct Registration<D: Driver> {
    device: NonNull<bindings::net_device>,
    data: Pin<KBox<D::Data>>,
    /// After the device, which is behind it.
    _port: Option<devlink::Port>,
    _parent: BoundDevice,
}

// SAFETY: `D::Data` is `Send`, and a device may be unregistered by any thread.
unsafe impl<D: Driver> Send for Registration<D> {}
// SAFETY: `D::Data` is `Sync`, and the core has its own locks.
unsafe impl<D: Driver> Sync for Registration<D> {}

impl<D: Driver> Registration<D> {
    /// Registers an Ethernet device below `parent`, behind `port`, without carrier. Sleeps, takes the RTNL. The driver's
    /// functions may be called before this returns.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` for no queues, and what the core refuses.
    pub fn new(
        parent: &BoundDevice,
        config: &Config,
        port: Option<devlink::Port>,
        data: impl PinInit<D::Data, Error>,
    ) -> Result<Self> {
        let data = KBox::pin_init(data, GFP_KERNEL)?;
        let size = i32::try_from(size_of::<Shell<D>>()).map_err(|_| EINVAL)?;
        let watchdog = i32::try_from(jiffies_of(config.watchdog)).map_err(|_| EINVAL)?;
        // SAFETY: Allocates or fails.
        let raw = unsafe { bindings::alloc_etherdev_mqs(size, config.queues, config.queues) };
        let device = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: The device is ours until it is registered; `data` and the table stay where they are.
        let result = unsafe {
            (*bindings::netdev_priv(raw).cast::<Shell<D>>()).data = &*data;
            bindings::set_netdev_dev(raw, parent.as_raw_device());
            (*raw).netdev_ops = Table::<D>::OPS;
            (*raw).ethtool_ops = ethtool::raw(D::TOOLS);
            (*raw).stat_ops = queue_stats::raw(D::QUEUE_COUNTERS);
            if let (true, Some(bridge)) = (config.bridges, D::BRIDGE) {
                (*raw).dcbnl_ops = bridge.0;
            }
            (*raw).min_mtu = config.min_mtu;
            (*raw).max_mtu = config.max_mtu;
            (*raw).watchdog_timeo = watchdog;
            (*raw).hw_features |= config.features.0;
            (*raw).features |= config.features.0 | config.fixed.0;
            (*raw).gso_partial_features |= config.partial.0;
            (*raw).vlan_features |= config.vlan_features.0;
            bindings::netif_set_tso_max_size(raw, config.max_gso);
            bindings::eth_hw_addr_set(raw, config.address.as_ptr());
            bindings::set_unicast_filter(raw);
            if let Some(port) = &port {
                bindings::set_netdev_devlink_port(raw, port.as_raw());
            }
            bindings::netif_carrier_off(raw);
            to_result(bindings::register_netdev(raw))
        };
        if let Err(error) = result {
            // SAFETY: Allocated above and not registered.
            unsafe { bindings::free_netdev(raw) };
            return Err(error);
        }
        // INVARIANT: Registered above.
        Ok(Self {
            device,
            data,
            _port: port,
            _parent: parent.clone(),
        })
    }

    /// The device.
    pub fn device(&self) -> &NetDevice {
        // SAFETY: By the type invariant.
        unsafe { NetDevice::from_raw(self.device.as_ptr()) }
    }

    /// The driver's data.
    pub fn data(&self) -> Pin<&D::Data> {
        self.data.as_ref()
    }
}

impl<D: Driver> Drop for Registration<D> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. When unregistering has returned nobody calls the driver any
        // more and nobody has a reference; the data is dropped after this.
        unsafe {
            bindings::unregister_netdev(self.device.as_ptr());
            bindings::free_netdev(self.device.as_ptr());
        }
    }
}
