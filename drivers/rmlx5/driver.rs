// SPDX-License-Identifier: GPL-2.0
//! The PCI driver: which cards it takes, and what it does with one.

use kernel::prelude::*;
use kernel_ext::{
    pci::{
        driver::{
            BoundTo,
            ChannelState,
            Driver, //
        },
        BoundDevice,
        DeviceId,
        IdTable,
        Recovery,
        Vendor, //
    },
    sysfs::Groups,
};

use crate::{
    aer,
    boot::Caller,
    bound::{
        Data,
        Rmlx5, //
    },
    channel::set::Channels,
    debugfs::Stats,
    device::Device,
    ib,
    net::{
        self,
        entrance::Entrance, //
    },
    pci::{
        self,
        Tuning, //
    },
    port::Port,
    recovery::State,
    sysfs, //
};

/// Virtual functions of the family: known, and not driven. Source: `mlx5_core_pci_table`.
const VIRTUAL: [u16; 8] = [
    0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e, 0xa2d3,
];

kernel::pci_device_table!(
    PCI_TABLE,
    <Rmlx5 as Driver>::IdInfo,
    [
        (DeviceId::from_id(Vendor::MELLANOX, 0x1017), ()), // ConnectX-5
        (DeviceId::from_id(Vendor::MELLANOX, 0x1019), ()), // ConnectX-5 Ex
        (DeviceId::from_id(Vendor::MELLANOX, 0x101b), ()), // ConnectX-6
        (DeviceId::from_id(Vendor::MELLANOX, 0x101d), ()), // ConnectX-6 Dx
        (DeviceId::from_id(Vendor::MELLANOX, 0x101f), ()), // ConnectX-6 Lx
        (DeviceId::from_id(Vendor::MELLANOX, 0x1021), ()), // ConnectX-7
    ]
);

impl Rmlx5 {
    fn bind(pdev: &BoundDevice) -> Result<Data> {
        let id = pdev.device_id();
        if pdev.vendor_id() != Vendor::MELLANOX {
            dev_err!(pdev, "not a card of this family\n");
            return Err(ENODEV);
        }
        if pdev.is_virtfn() || VIRTUAL.contains(&id) {
            dev_err!(pdev, "virtual functions ({:#06x}) are not supported\n", id);
            return Err(ENODEV);
        }
        let device = Device::new(pdev)?;
        let tuning = Tuning::new(pdev);
        let rev = device.iseg.fw_rev();
        dev_info!(
            pdev,
            "firmware {}.{}.{:04}\n",
            rev.major,
            rev.minor,
            rev.sub
        );
        pci::report(pdev, &tuning);
        // From here on an error has to end the generation before the device is dropped.
        let started = device.up(Caller::Probe).and_then(|()| {
            pdev.save_state()?;
            if !device.recovery.go(State::Up) {
                return Err(ENODEV);
            }
            device.health.start(device.clone());
            let channels = Channels::attach(&device, crate::num_qps(), crate::cq_size())?;
            let identity = Port::query(&device.cmd)?;
            let entrance = Entrance::new()?;
            let netdev = net::Face::attach(&device, &identity, &entrance)?;
            ib::Face::attach(&device, identity, &channels, netdev, &entrance)
        });
        if let Err(error) = started {
            device.close();
            return Err(error);
        }
        let stats = match Stats::file(&device) {
            Ok(stats) => stats,
            Err(error) => {
                device.close();
                return Err(error);
            }
        };
        Ok(Data {
            stats,
            device,
            tuning,
        })
    }
}

impl Driver for Rmlx5 {
    type IdInfo = ();
    type Data = Data;
    const ID_TABLE: IdTable<Self::IdInfo> = &PCI_TABLE;
    const GROUPS: Groups<BoundTo<Self>> = sysfs::GROUPS;

    fn probe(
        pdev: &BoundDevice,
        _info: Option<&'static Self::IdInfo>,
    ) -> impl PinInit<Self::Data, Error> {
        Self::bind(pdev)
    }

    fn unbind(_pdev: &BoundDevice, data: Pin<&Self::Data>) {
        data.device.close();
    }

    fn shutdown(_pdev: &BoundDevice, data: Pin<&Self::Data>) {
        data.device.close();
    }

    fn correctable_error(_pdev: &BoundDevice, data: Pin<&Self::Data>) {
        aer::correctable_error(&data.device);
    }

    fn error_detected(
        _pdev: &BoundDevice,
        data: Pin<&Self::Data>,
        state: ChannelState,
    ) -> Recovery {
        aer::error_detected(&data.device, state)
    }

    fn slot_reset(_pdev: &BoundDevice, data: Pin<&Self::Data>) -> Recovery {
        aer::slot_reset(&data.device)
    }

    fn resume(_pdev: &BoundDevice, data: Pin<&Self::Data>) {
        aer::resume(&data.device);
    }

    fn reset_prepare(_pdev: &BoundDevice, data: Pin<&Self::Data>) {
        aer::reset_prepare(&data.device);
    }

    fn reset_done(_pdev: &BoundDevice, data: Pin<&Self::Data>) {
        aer::reset_done(&data.device);
    }
}
