// SPDX-License-Identifier: GPL-2.0
//! Queue buffers and doorbell records in the memory of a process.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use kernel_ext::rdma::Umem;

use super::PAGE;
use crate::census::{
    Counted,
    Kind, //
};

/// Unit of the offset in the first page: contexts have six bits for it.
const QUANTUM: u64 = 64;

/// The buffer of a queue, which the process and the device share. The driver never looks into it.
///
/// The owner must know that the device has let go of the memory before it drops this.
pub(crate) struct UserBuf {
    umem: Umem,
    _counted: Counted,
}

impl UserBuf {
    /// Takes pinned memory. `EINVAL` unless it begins at a multiple of 64 bytes.
    pub(crate) fn new(umem: Umem) -> Result<Self> {
        if umem.address() % QUANTUM != 0 {
            return Err(EINVAL);
        }
        Ok(Self {
            umem,
            _counted: Counted::new(Kind::Buffer),
        })
    }

    pub(super) fn pages(&self) -> usize {
        self.umem.count(PAGE)
    }

    pub(super) fn offset(&self) -> u64 {
        // CAST: a page is 4 KiB.
        self.umem.address() % PAGE as u64 / QUANTUM
    }

    pub(super) fn write_pas(&self, pas: &mut [u8]) -> Result {
        self.umem.write_blocks(PAGE, 0, pas).map(|_| ())
    }
}

/// Bytes of a doorbell record: two words.
const RECORD: u64 = 8;

/// A pinned page of a process with doorbell records in it, and how many of them are in use.
struct RecordPage {
    umem: Umem,
    users: usize,
    /// Tells it from others: the same memory may be mapped twice.
    id: u64,
}

impl RecordPage {
    /// Whether it is the page at `base` of the calling process.
    fn is_at(&self, base: u64) -> bool {
        self.umem.address() == base && self.umem.is_current()
    }
}

/// The pages with doorbell records of a context: records of one page share its pin. It is unpinned with
/// the last of them, since the process may then put another page at the same address.
#[pin_data]
pub(crate) struct RecordPages {
    #[pin]
    table: Mutex<Table>,
}

struct Table {
    pages: KVec<RecordPage>,
    /// Id of the next page.
    next: u64,
}

impl RecordPages {
    /// None yet.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(Table {
                    pages: KVec::new(),
                    next: 0,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// The record at `address` of the calling process; `pin` pins the page of which it gets the address.
    /// Sleeps. `EINVAL` unless the record is a multiple of 8 bytes, as the device wants it; it lies in
    /// one page then.
    pub(crate) fn record(
        self: &Arc<Self>,
        address: u64,
        pin: impl FnOnce(u64) -> Result<Umem>,
    ) -> Result<UserRecord> {
        if address % RECORD != 0 {
            return Err(EINVAL);
        }
        // CAST, below: a page is 4 KiB.
        let base = address & !(PAGE as u64 - 1);
        let mut guard = self.table.lock();
        let table = &mut *guard;
        let (page, bus) = match table.pages.iter_mut().find(|page| page.is_at(base)) {
            Some(page) => {
                page.users = page.users.saturating_add(1);
                (page.id, page.umem.start())
            }
            None => {
                let umem = pin(base)?;
                let (id, bus) = (table.next, umem.start());
                let page = RecordPage { umem, users: 1, id };
                table.pages.push(page, GFP_KERNEL)?;
                table.next = id.wrapping_add(1);
                (id, bus)
            }
        };
        Ok(UserRecord {
            pages: self.clone(),
            page,
            bus: bus.wrapping_add(address % PAGE as u64),
        })
    }

    /// A record of page `id` is not used any more.
    fn give_back(&self, id: u64) {
        let mut table = self.table.lock();
        let Some(at) = table.pages.iter().position(|page| page.id == id) else {
            return;
        };
        let unused = table.pages.get_mut(at).is_some_and(|page| {
            page.users = page.users.saturating_sub(1);
            page.users == 0
        });
        if unused {
            let last = table.pages.remove(at);
            // Unpinning needs no lock.
            drop(table);
            drop(last);
        }
    }
}

/// A doorbell record in a page, until drop.
///
/// The owner must know that the device has let go of it before it drops this.
pub(crate) struct UserRecord {
    pages: Arc<RecordPages>,
    page: u64,
    bus: u64,
}

impl UserRecord {
    /// Its bus address.
    pub(crate) fn address(&self) -> u64 {
        self.bus
    }
}

impl Drop for UserRecord {
    fn drop(&mut self) {
        self.pages.give_back(self.page);
    }
}
