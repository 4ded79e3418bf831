// SPDX-License-Identifier: GPL-2.0
//! Queue buffers and doorbell records in the memory of a process.

use kernel::{
    prelude::*,
    sync::Arc, //
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
        let mut slots = pas.chunks_exact_mut(8);
        for address in self.umem.blocks(PAGE) {
            let slot = slots.next().ok_or(ERANGE)?;
            slot.copy_from_slice(&address.to_be_bytes());
        }
        Ok(())
    }
}

/// A page of a process with doorbell records in it; queues share it.
pub(crate) struct RecordPage {
    umem: Umem,
}

/// Bytes of a record: two words.
const RECORD: u64 = 8;

impl RecordPage {
    /// The address of the page that has to be pinned for a record at `address`. `EINVAL` unless the
    /// record lies in one page and is a multiple of 8 bytes, as the device wants it.
    pub(crate) fn base(address: u64) -> Result<u64> {
        if address % RECORD != 0 {
            return Err(EINVAL);
        }
        // CAST: a page is 4 KiB.
        Ok(address & !(PAGE as u64 - 1))
    }

    /// Takes the pinned page.
    pub(crate) fn new(umem: Umem) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { umem }, GFP_KERNEL)?)
    }

    /// Whether it is the page at `base` of the calling process.
    pub(crate) fn is_at(&self, base: u64) -> bool {
        self.umem.address() == base && self.umem.is_current()
    }
}

/// A doorbell record in a page.
#[derive(Clone)]
pub(crate) struct UserRecord {
    page: Arc<RecordPage>,
    offset: u64,
}

impl UserRecord {
    /// The record at `address`, which is in `page`.
    pub(crate) fn new(page: Arc<RecordPage>, address: u64) -> Self {
        Self {
            page,
            // CAST: a page is 4 KiB.
            offset: address % PAGE as u64,
        }
    }

    /// Its bus address.
    pub(crate) fn address(&self) -> u64 {
        self.page.umem.start().wrapping_add(self.offset)
    }
}
