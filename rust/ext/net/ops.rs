// SPDX-License-Identifier: GPL-2.0
//! The table of functions that the core calls.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{error::from_result, prelude::*};
use rmlx5_bindings as bindings;

use super::{
    device::{Driver, Features, NetDevice, RxMode, Shell, Stats, Transmit},
    queue::TxLocked,
    SkBuff,
};

/// Functions for driver `D`.
pub(super) struct Table<D>(PhantomData<D>);

impl<D: Driver> Table<D> {
    pub(super) const OPS: &'static bindings::net_device_ops = &bindings::net_device_ops {
        ndo_open: Some(Self::open),
        ndo_stop: Some(Self::stop),
        ndo_start_xmit: Some(Self::start_xmit),
        ndo_tx_timeout: Some(Self::tx_timeout),
        ndo_get_stats64: Some(Self::get_stats64),
        ndo_set_rx_mode_async: Some(Self::set_rx_mode),
        ndo_set_mac_address: Some(Self::set_mac_address),
        ndo_validate_addr: Some(bindings::eth_validate_addr),
        ndo_change_mtu: Some(Self::change_mtu),
        ndo_vlan_rx_add_vid: Some(Self::vlan_rx_add_vid),
        ndo_vlan_rx_kill_vid: Some(Self::vlan_rx_kill_vid),
        ndo_fix_features: Some(Self::fix_features),
        ndo_set_features: Some(Self::set_features),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `raw` must be a registered device of this driver for `'a`.
    unsafe fn parts<'a>(raw: *mut bindings::net_device) -> (&'a NetDevice, &'a D::Data) {
        // SAFETY: By the safety requirements.
        unsafe { (NetDevice::from_raw(raw), Shell::<D>::data(raw)) }
    }

    extern "C" fn open(raw: *mut bindings::net_device) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        from_result(|| D::open(device, data).map(|()| 0))
    }

    extern "C" fn stop(raw: *mut bindings::net_device) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        D::stop(device, data);
        0
    }

    extern "C" fn start_xmit(
        skb: *mut bindings::sk_buff,
        raw: *mut bindings::net_device,
    ) -> bindings::netdev_tx_t {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        let Some(skb) = NonNull::new(skb) else {
            return bindings::netdev_tx_NETDEV_TX_OK;
        };
        // SAFETY: The core passes a packet that is the driver's now.
        let skb = unsafe { SkBuff::from_raw(skb) };
        // SAFETY: By the type invariant.
        let queue = unsafe { (*skb.as_raw()).queue_mapping };
        let Some(queue) = device.queue(queue) else {
            return bindings::netdev_tx_NETDEV_TX_OK;
        };
        // SAFETY: The core calls with the transmit lock of the queue held, since no device of ours has `lltx`; this is the
        // only value made of it.
        let mut queue = unsafe { TxLocked::lent(queue) };
        match D::transmit(device, data, skb, &mut queue) {
            Transmit::Taken => bindings::netdev_tx_NETDEV_TX_OK,
            Transmit::Busy(skb) => {
                // The core keeps it.
                let _ = skb.into_raw();
                bindings::netdev_tx_NETDEV_TX_BUSY
            }
        }
    }

    extern "C" fn tx_timeout(raw: *mut bindings::net_device, queue: c_uint) {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        // CAST: there are at most 2^16 queues.
        D::timeout(device, data, queue as u16);
    }

    extern "C" fn get_stats64(
        raw: *mut bindings::net_device,
        to: *mut bindings::rtnl_link_stats64,
    ) {
        // SAFETY: The core passes a device of this driver.
        let (_, data) = unsafe { Self::parts(raw) };
        let mut stats = Stats::default();
        D::stats(data, &mut stats);
        // SAFETY: The core passes a structure that it has zeroed.
        stats.store(unsafe { &mut *to });
    }

    extern "C" fn set_rx_mode(
        raw: *mut bindings::net_device,
        unicast: *mut bindings::netdev_hw_addr_list,
        multicast: *mut bindings::netdev_hw_addr_list,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        // SAFETY: The lists are copies that the core made for this call.
        let mode = unsafe { RxMode::from_raw(device, unicast, multicast) };
        from_result(|| D::rx_mode(device, data, &mode).map(|()| 0))
    }

    extern "C" fn set_mac_address(raw: *mut bindings::net_device, to: *mut c_void) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        // SAFETY: The core passes a `struct sockaddr` with at least the six bytes of an Ethernet address.
        let bytes = unsafe { &raw const (*to.cast::<bindings::sockaddr>()).sa_data };
        let mut address = [0u8; 6];
        // SAFETY: As above.
        unsafe { core::ptr::copy_nonoverlapping(bytes.cast(), address.as_mut_ptr(), 6) };
        if address == [0; 6] || address[0] & 1 != 0 {
            return EADDRNOTAVAIL.to_errno();
        }
        from_result(|| {
            D::set_address(device, data, address)?;
            // SAFETY: The device is valid, and the core holds the RTNL.
            unsafe { bindings::eth_hw_addr_set(raw, address.as_ptr()) };
            Ok(0)
        })
    }

    extern "C" fn change_mtu(raw: *mut bindings::net_device, mtu: c_int) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        from_result(|| {
            let mtu = u32::try_from(mtu).map_err(|_| EINVAL)?;
            D::change_mtu(device, data, mtu)?;
            // SAFETY: The device is valid, and the core holds the RTNL; readers take it in one access.
            unsafe {
                (&raw mut (*raw).mtu).write_volatile(mtu);
            }
            Ok(0)
        })
    }

    extern "C" fn vlan_rx_add_vid(
        raw: *mut bindings::net_device,
        _protocol: bindings::__be16,
        id: u16,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        // Service tags are never asked for: no device of ours has that feature.
        from_result(|| D::add_vlan(device, data, id).map(|()| 0))
    }

    extern "C" fn vlan_rx_kill_vid(
        raw: *mut bindings::net_device,
        _protocol: bindings::__be16,
        id: u16,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        from_result(|| D::remove_vlan(device, data, id).map(|()| 0))
    }

    extern "C" fn fix_features(
        raw: *mut bindings::net_device,
        wanted: bindings::netdev_features_t,
    ) -> bindings::netdev_features_t {
        // SAFETY: The core passes a device of this driver.
        let (_, data) = unsafe { Self::parts(raw) };
        D::fix_features(data, Features(wanted)).0
    }

    extern "C" fn set_features(
        raw: *mut bindings::net_device,
        features: bindings::netdev_features_t,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (device, data) = unsafe { Self::parts(raw) };
        from_result(|| D::set_features(device, data, Features(features)).map(|()| 0))
    }
}
