// SPDX-License-Identifier: GPL-2.0
//! Driver for ConnectX-class RoCE adapters.
#![deny(unsafe_code)]
#![allow(dead_code)]

use core::fmt::Write;

use kernel::{driver::Registration, prelude::*, InPlaceModule};
use kernel_ext::{
    pci::{self, driver::BoundTo, BoundDevice},
    sysfs::{Attribute, Group, Groups},
};
use mlx5_hw as _;

kernel::pci_device_table!(
    PCI_TABLE,
    (),
    [(pci::DeviceId::from_id(pci::Vendor::MELLANOX, 0x101d), ())]
);

mod buf;
mod caps;
mod cmd;
mod eq;
mod event;
mod iseg;
mod pages;
mod uar;

struct Driver;

static LINK: Attribute<BoundTo<Driver>> = Attribute::ro(c"link", |data: Pin<&Device>, out| {
    let report = data.device.link_report();
    writeln!(out, "{} of {}", report.available, report.capable)?;
    Ok(())
});
static GROUP: Group<BoundTo<Driver>> = Group::new(Some(c"rmlx5"), &[Some(&LINK), None]);

struct Device {
    device: BoundDevice,
    _enabled: pci::Enabled,
}

impl pci::Driver for Driver {
    type IdInfo = ();
    type Data = Device;

    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;
    const GROUPS: Groups<BoundTo<Self>> = &[Some(&GROUP), None];

    fn probe(device: &BoundDevice, _info: Option<&'static ()>) -> impl PinInit<Device, Error> {
        let enabled = pci::Enabled::new(device)?;
        dev_info!(
            device.device(),
            "bound, MPS {} MRRS {}\n",
            device.mps(),
            device.mrrs()
        );
        Ok(Device {
            device: device.clone(),
            _enabled: enabled,
        })
    }
}

#[pin_data]
struct Module {
    #[pin]
    _driver: Registration<pci::Adapter<Driver>>,
}

impl InPlaceModule for Module {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _driver <- Registration::new(<Self as kernel::ModuleMetadata>::NAME, module),
        })
    }
}

module! {
    type: Module,
    name: "rmlx5",
    authors: ["The rmlx5 authors"],
    description: "Driver for ConnectX-class RoCE adapters",
    license: "GPL",
}
