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
    driver::Rmlx5,
    pci::Link, //
};

type Owner = BoundTo<Rmlx5>;

static LINK: Attribute<Owner> = Attribute::ro(c"link", |data, out| {
    writeln!(out, "{}", Link::of(&data.device.pdev))?;
    Ok(())
});

static MPS: Attribute<Owner> = Attribute::ro(c"mps", |data, out| {
    writeln!(out, "{}", data.device.pdev.mps())?;
    Ok(())
});

static MRRS: Attribute<Owner> = Attribute::ro(c"mrrs", |data, out| {
    writeln!(out, "{}", data.device.pdev.mrrs())?;
    Ok(())
});

static STATE: Attribute<Owner> = Attribute::ro(c"state", |data, out| {
    writeln!(out, "{}", data.device.recovery.state().name())?;
    Ok(())
});

static HEALTH: Attribute<Owner> = Attribute::ro(c"health", |data, out| {
    writeln!(out, "{}", data.device.health.verdict())?;
    Ok(())
});

static RESETS: Attribute<Owner> = Attribute::ro(c"resets", |data, out| {
    writeln!(out, "{}", data.device.recovery.resets.get())?;
    Ok(())
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
pub(crate) const GROUPS: Groups<Owner> = Groups::new(&[Some(&GROUP), None]);
