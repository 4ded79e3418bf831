// SPDX-License-Identifier: GPL-2.0
//! The GID table of the port: what the RDMA core put into it, and what the card knows of that.
//!
//! Entry for entry the table is the card's table of RoCE addresses, without its last entry, which is the
//! driver's own. The core tells of an entry once; a reset makes the card forget all of them. So they are
//! kept here too, and written again before the new generation is in use.

use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};
use kernel_ext::rdma::{
    Gid,
    GidKind, //
};

use crate::{
    cmd::queue::Verdict,
    device::Device,
    port::roce::{
        Address,
        Roce,
        Version, //
    },
};

struct Table {
    entries: KVec<Option<Address>>,
    /// The generation whose card has the entries, while it lasts.
    card: Option<u32>,
}

/// The table.
#[pin_data]
pub(super) struct Gids {
    #[pin]
    table: Mutex<Table>,
}

impl Gids {
    /// An empty table of `len` entries. The card is not told before [`Gids::begin`].
    pub(super) fn new(len: u16) -> Result<impl PinInit<Self, Error>> {
        let entries = KVec::from_elem(None, len.into(), GFP_KERNEL)?;
        Ok(try_pin_init!(Self {
            table <- new_mutex!(Table { entries, card: None }),
        }? Error))
    }

    /// The core fills an entry. While there is no card to be told the entry waits. Sleeps.
    pub(super) fn add(&self, device: &Device, gid: &Gid<'_>) -> Result {
        let (mac, vlan) = gid.l2()?;
        let address = Address {
            gid: gid.raw(),
            mac,
            vlan,
            version: match gid.kind() {
                GidKind::RoceV1 => Version::V1,
                GidKind::RoceV2 => Version::V2,
            },
        };
        let index = index(gid)?;
        let mut guard = self.table.lock();
        let table = &mut *guard;
        let entry = table.entries.get_mut(usize::from(index)).ok_or(EINVAL)?;
        if table.card.is_some() {
            told(device, Roce::set_address(&device.cmd, index, &address)).inspect_err(|error| {
                dev_err!(
                    device.pdev,
                    "GID {}: the card does not take it, error {}\n",
                    index,
                    error.to_errno()
                );
            })?;
        }
        *entry = Some(address);
        Ok(())
    }

    /// The core empties an entry. The card does not get it again, whatever it answers. Sleeps.
    pub(super) fn delete(&self, device: &Device, gid: &Gid<'_>) -> Result {
        let index = index(gid)?;
        let mut guard = self.table.lock();
        let table = &mut *guard;
        let entry = table.entries.get_mut(usize::from(index)).ok_or(EINVAL)?;
        if entry.take().is_some() && table.card.is_some() {
            told(device, Roce::clear_address(&device.cmd, index))?;
        }
        Ok(())
    }

    /// A generation is up: the card gets RoCE and all entries. Sleeps.
    pub(super) fn begin(&self, device: &Device) -> Result {
        let generation = device.cmd.generation();
        let mut table = self.table.lock();
        device.roce.enable(&device.cmd, generation)?;
        table.card = Some(generation);
        for (index, entry) in (0u8..).zip(table.entries.iter()) {
            if let Some(address) = entry {
                Roce::set_address(&device.cmd, index, address)?;
            }
        }
        Ok(())
    }

    /// The generation is over; the card has forgotten, or will.
    pub(super) fn lost(&self) {
        self.table.lock().card = None;
    }

    /// Nobody needs the entries any more. Sleeps.
    pub(super) fn end(&self, device: &Device) {
        if let Some(generation) = self.table.lock().card.take() {
            device.roce.disable(&device.cmd, generation);
        }
    }
}

/// Index in the card's table.
fn index(gid: &Gid<'_>) -> Result<u8> {
    gid.index().try_into().map_err(|_| EINVAL)
}

/// A card that was lost meanwhile is told with the next generation.
fn told(device: &Device, answer: Result) -> Result {
    match device.cmd.verdict() {
        Verdict::Alive => answer,
        _ => Ok(()),
    }
}
