// SPDX-License-Identifier: GPL-2.0
//! Files on the PCI device: `rmlx5/{link,mps,mrrs,state,health,resets}`.
//!
//! See Documentation/ABI/testing/sysfs-bus-pci-drivers-rmlx5 for what they promise.

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::{
    pci::driver::BoundTo,
    sysfs::{
        Attribute,
        Group,
        Groups, //
    },
};

use crate::{
    bound::{
        Data,
        Rmlx5, //
    },
    pci::Link, //
};

type Owner = BoundTo<Rmlx5>;

static LINK: Attribute<Owner> = Attribute::ro(c"link", |data: Pin<&Data>, out| {
    Ok(out.write_fmt(fmt!("{}\n", Link::of(&data.device.pdev)))?)
});

static MPS: Attribute<Owner> = Attribute::ro(c"mps", |data: Pin<&Data>, out| {
    Ok(out.write_fmt(fmt!("{}\n", data.device.pdev.mps()))?)
});

static MRRS: Attribute<Owner> = Attribute::ro(c"mrrs", |data: Pin<&Data>, out| {
    Ok(out.write_fmt(fmt!("{}\n", data.device.pdev.mrrs()))?)
});

static STATE: Attribute<Owner> = Attribute::ro(c"state", |data: Pin<&Data>, out| {
    Ok(out.write_fmt(fmt!("{}\n", data.device.recovery.state().name()))?)
});

static HEALTH: Attribute<Owner> = Attribute::ro(c"health", |data: Pin<&Data>, out| {
    Ok(out.write_fmt(fmt!("{}\n", data.device.health.sign()))?)
});

static RESETS: Attribute<Owner> = Attribute::ro(c"resets", |data: Pin<&Data>, out| {
    Ok(out.write_fmt(fmt!("{}\n", data.device.recovery.resets.get()))?)
});

static GROUP: Group<Owner> = Group::new(
    Some(c"rmlx5"),
    &[
        Some(&LINK),
        Some(&MPS),
        Some(&MRRS),
        Some(&STATE),
        Some(&HEALTH),
        Some(&RESETS),
        None,
    ],
);

/// What the driver core adds to the device while it is bound.
pub(crate) const GROUPS: Groups<Owner> = &[Some(&GROUP), None];
