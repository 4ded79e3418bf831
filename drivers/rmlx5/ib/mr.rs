// SPDX-License-Identifier: GPL-2.0
//! Memory regions of users.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    }, //
};
use kernel_ext::rdma::{
    Access,
    Mr,
    NewMr,
    Reregister,
    Umem, //
};

use super::{
    context,
    kverbs::mr::PageList,
    Data,
    Verbs, //
};
use crate::{
    home::Home,
    mr,
    umr::Change, //
};

/// Page sizes that a key can have: 4 KiB to 2 GiB.
const PAGE_SIZES: usize = 0xffff_f000;
/// What a region can allow. Addresses may count from anywhere; that pages are huge is seen without being told.
const KNOWN: Access = Access::LOCAL_WRITE
    .or(Access::REMOTE_WRITE)
    .or(Access::REMOTE_READ)
    .or(Access::REMOTE_ATOMIC)
    .or(Access::WINDOW_BIND)
    .or(Access::ZERO_BASED)
    .or(Access::HUGE_PAGES);

/// The free byte of the next key: keys of regions that are gone stay invalid for long.
static NEXT_BYTE: Atomic<u32> = Atomic::new(0);

/// The free byte of a new key.
pub(super) fn next_byte() -> u8 {
    // CAST: the low byte.
    NEXT_BYTE.fetch_add(1, Relaxed) as u8
}

/// The driver's part of a user's region.
pub(crate) struct Region {
    home: Home,
    /// [`Access::bits`]; what a change in place changes.
    access: Atomic<u32>,
    key: Option<mr::Mr>,
    /// Unpinned when no key needs it any more.
    memory: Option<Arc<Memory>>,
    /// Pages that the kernel has added.
    list: Option<PageList>,
}

/// Pinned memory, and the size of its pages for the address that it is known by.
struct Memory {
    umem: Umem,
    page: usize,
}

impl Region {
    /// What it allows.
    pub(super) fn access(&self) -> Access {
        Access::from_bits(self.access.load(Relaxed))
    }

    /// Of the kernel.
    pub(super) fn of_kernel(
        home: &Home,
        access: Access,
        key: mr::Mr,
        list: Option<PageList>,
    ) -> Self {
        Self {
            home: home.clone(),
            access: Atomic::new(access.bits()),
            key: Some(key),
            memory: None,
            list,
        }
    }

    /// The pages that the kernel adds, of a region that has such.
    pub(super) fn page_list(&self) -> Option<&PageList> {
        self.list.as_ref()
    }

    /// Bus address of their list, and how many there are.
    pub(super) fn list(&self) -> Option<(u64, u32)> {
        self.list.as_ref()?.describe()
    }

    /// Number and bytes of its pages.
    pub(super) fn pages(&self) -> Option<(usize, usize)> {
        let memory = self.memory.as_ref()?;
        Some((memory.umem.count(memory.page), memory.page))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // A key of an earlier generation is gone already.
        if !self.home.is_current() {
            return;
        }
        let destroyed = self.key.take().map(|key| key.destroy(self.home.cmd()));
        if let Some(Err(error)) = destroyed {
            if error.keeps_object() {
                // The device may still use the memory: it stays pinned for ever.
                core::mem::forget((self.memory.take(), self.list.take()));
            }
        }
    }
}

/// The core has refused what the device does not say that it can do: paging on demand, flushes. Source:
/// `ib_check_mr_access` in include/rdma/ib_verbs.h.
fn check(data: &Data, access: Access) -> Result {
    if !access.is_within(KNOWN) {
        data.complain(fmt!("MR: unknown access flags {:#x}", access.bits()));
        return Err(EINVAL);
    }
    Ok(())
}

/// As commands have it.
pub(super) fn permissions(access: Access) -> mr::Access {
    mr::Access {
        local_write: access.local_write(),
        remote_write: access.remote_write(),
        remote_read: access.remote_read(),
        remote_atomic: access.remote_atomic(),
    }
}

/// Makes a key for `memory`.
fn make(data: &Data, new: &mut NewMr<'_, Verbs>, memory: Arc<Memory>) -> Result<Region> {
    let home = new.context().payload().home()?.clone();
    let pages = memory.umem.count(memory.page);
    if pages > mr::MOST_PAGES {
        data.complain(fmt!(
            "MR: {pages} pages of {} bytes, the limit is {}",
            memory.page,
            mr::MOST_PAGES
        ));
        return Err(ENOMEM);
    }
    let key = mr::Mr::register(
        home.cmd(),
        new.pd().payload().number()?,
        (&memory.umem, memory.page),
        new.virt,
        permissions(new.access),
        next_byte(),
    );
    let key = match key {
        Ok(key) => key,
        Err(error) => {
            if error.in_doubt() {
                core::mem::forget(memory);
            }
            return Err(error.into());
        }
    };
    new.set_keys(key.key(), key.key());
    Ok(Region {
        home,
        access: Atomic::new(new.access.bits()),
        key: Some(key),
        memory: Some(memory),
        list: None,
    })
}

/// Registers memory.
pub(super) fn register(data: &Data, new: &mut NewMr<'_, Verbs>) -> Result<Region> {
    new.context().payload().home()?;
    check(data, new.access)?;
    let length = usize::try_from(new.length).map_err(|_| EINVAL)?;
    let umem = Umem::pin(new.context(), new.start, length, new.access);
    let mut umem = context::mapped(new.context(), umem)?;
    // A region whose first byte lies elsewhere in its page than the address says has none.
    let page = umem.best_page_size(PAGE_SIZES, new.virt).ok_or(EINVAL)?;
    let memory = Arc::new(Memory { umem, page }, GFP_KERNEL)?;
    make(data, new, memory)
}

/// What a request can change at a key.
const CHANGEABLE: Access = Access::LOCAL_WRITE
    .or(Access::REMOTE_WRITE)
    .or(Access::REMOTE_READ)
    .or(Access::REMOTE_ATOMIC);

/// Makes the region that takes the place of `old`, or changes `old` in place, which then keeps its key:
/// that works as long as the memory is the same. Source: `mlx5_ib_rereg_user_mr` in ib/mr.c.
pub(super) fn reregister(
    data: &Data,
    old: Mr<'_, Region>,
    new: &mut NewMr<'_, Verbs>,
    what: Reregister,
) -> Result<Option<Region>> {
    if let Reregister::Other = what {
        return register(data, new).map(Some);
    }
    check(data, new.access)?;
    let old = old.payload();
    old.home.alive()?;
    let memory = old.memory.as_ref().ok_or(EINVAL)?;
    memory.umem.check_access(new.access)?;
    let key = old.key.as_ref().ok_or(EIO)?.key();
    let changed = old.access().differs(new.access);
    let atomic = data.device.caps()?.umr_atomic;
    if !changed.is_within(CHANGEABLE) || changed.remote_atomic() && !atomic {
        return make(data, new, memory.clone()).map(Some);
    }
    let change = Change {
        key,
        pd: new.pd().payload().number()?,
        access: permissions(new.access),
        atomic,
    };
    data.umr.change(&old.home, &change)?;
    old.access.store(new.access.bits(), Relaxed);
    Ok(None)
}
