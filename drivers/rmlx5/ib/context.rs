// SPDX-License-Identifier: GPL-2.0
//! Contexts of users: doorbell pages, their registers, pages with doorbell records.
//!
//! A context belongs to the device generation that it was opened in. When that is over every verb of
//! it is `EIO`; a new context works.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use kernel_ext::rdma::{
    Access,
    Cache,
    Context,
    Udata,
    Umem,
    Vma, //
};

use super::{
    abi::{
        self,
        Mapping, //
    },
    Data, //
};
use crate::{
    buf::{
        user::{
            RecordPages,
            UserBuf,
            UserRecord, //
        },
        PAGE, //
    },
    home::Home,
    net::base::TransportDomain,
    uar::UserUar, //
};

/// The driver's part of a user context.
pub(crate) struct UserContext {
    home: Home,
    cqe_version: u8,
    /// Given back when everything that rings them is gone.
    uars: Uars,
    registers: Arc<Registers>,
    /// Pages with doorbell records.
    records: Arc<RecordPages>,
    /// Of its QPs for Ethernet frames, from the first one on.
    domain: Pin<KBox<Mutex<Option<Arc<TransportDomain>>>>>,
}

impl UserContext {
    /// Opens a context and answers the library.
    pub(super) fn open(data: &Data, mut udata: Udata<'_>) -> Result<Self> {
        let device = &data.device;
        let request = abi::OpenContext::parse(&udata)?;
        let caps = device.caps()?;
        let blue_flame = device.blue_flame();
        let home = Home::now(device);
        let pages = request.registers / abi::REGISTERS_PER_PAGE;
        // CAST, below: `usize` has 64 bits here.
        let mut uars = Uars {
            home: home.clone(),
            list: KVec::with_capacity(pages as usize, GFP_KERNEL)?,
        };
        for _ in 0..pages {
            uars.list
                .push(UserUar::alloc(&device.cmd)?, GFP_KERNEL)
                .map_err(|_| ENOMEM)?;
        }
        let registers = Registers::new(request.registers as usize, request.exclusive as usize)?;
        // Pages of an earlier generation may have the same numbers.
        data.revoker.wait();
        request.answer(&caps, blue_flame, &mut udata)?;
        Ok(Self {
            home,
            cqe_version: request.cqe_version.min(caps.cqe_version),
            uars,
            registers,
            records: RecordPages::new()?,
            domain: KBox::pin_init(new_mutex!(None), GFP_KERNEL)?,
        })
    }

    /// The generation that the context belongs to. `EIO` when that is over.
    pub(super) fn home(&self) -> Result<&Home> {
        self.home.alive()?;
        Ok(&self.home)
    }

    /// Version of CQEs that the library knows.
    pub(super) fn cqe_version(&self) -> u8 {
        self.cqe_version
    }

    /// The UAR page for a CQ: the first one, or one that the library names by its number.
    pub(super) fn uar_for_cq(&self, named: Option<u32>) -> Result<u32> {
        match named {
            None => self.uars.list.first().map(UserUar::index).ok_or(EINVAL),
            Some(index) => self.own_uar(index),
        }
    }

    /// A page that is this context's: nobody rings in others' name.
    pub(super) fn own_uar(&self, index: u32) -> Result<u32> {
        self.uars
            .list
            .iter()
            .any(|uar| uar.index() == index)
            .then_some(index)
            .ok_or(EINVAL)
    }

    /// Its transport domain: TIRs of it do not take what its own send queues send. Sleeps.
    pub(super) fn transport_domain(&self) -> Result<Arc<TransportDomain>> {
        let mut domain = self.domain.lock();
        if let Some(domain) = domain.as_ref() {
            return Ok(domain.clone());
        }
        let made = Arc::new(TransportDomain::new(&self.home)?, GFP_KERNEL)?;
        *domain = Some(made.clone());
        Ok(made)
    }

    /// Its doorbell registers.
    pub(super) fn registers(&self) -> &Arc<Registers> {
        &self.registers
    }

    /// The UAR page of a register.
    pub(super) fn uar_of_register(&self, register: u32) -> Result<u32> {
        self.uars
            .list
            .get((register / abi::REGISTERS_PER_PAGE) as usize)
            .map(UserUar::index)
            .ok_or(EINVAL)
    }
}

/// Which QPs ring which doorbell registers of a context. The first register is for everybody, without
/// BlueFlame; the last ones serve one QP each; the library locks those between. Source:
/// `need_uuar_lock` of libmlx5.
#[pin_data]
pub(super) struct Registers {
    /// QPs of each register.
    #[pin]
    users: Mutex<KVec<u32>>,
    exclusive: usize,
}

impl Registers {
    fn new(count: usize, exclusive: usize) -> Result<Arc<Self>> {
        let users = KVec::from_elem(0u32, count, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                users <- new_mutex!(users),
                exclusive,
            }),
            GFP_KERNEL,
        )
    }

    /// Takes a register for a QP: one for itself while there are some, then the one with the fewest
    /// QPs.
    pub(super) fn take(&self) -> Result<u32> {
        let mut users = self.users.lock();
        let first_exclusive = users.len().saturating_sub(self.exclusive).max(1);
        let own = (first_exclusive..users.len()).find(|at| users.get(*at) == Some(&0));
        let at = own
            .or_else(|| (1..first_exclusive).min_by_key(|at| users.get(*at).copied()))
            .unwrap_or(0);
        let count = users.get_mut(at).ok_or(EINVAL)?;
        *count = count.wrapping_add(1);
        // CAST: at most 512.
        Ok(at as u32)
    }

    /// A QP does not use a register any more.
    pub(super) fn give_back(&self, register: u32) {
        if let Some(count) = self.users.lock().get_mut(register as usize) {
            *count = count.saturating_sub(1);
        }
    }
}

/// UAR pages that go back to the device when dropped.
struct Uars {
    home: Home,
    list: KVec<UserUar>,
}

impl Drop for Uars {
    fn drop(&mut self) {
        for uar in self.list.drain_all() {
            // Pages of an earlier generation are gone already.
            if self.home.is_current() {
                uar.dealloc(self.home.cmd());
            }
        }
    }
}

/// The doorbell record at `address`; its page is pinned once for all that are in it.
pub(super) fn record(context: Context<'_, UserContext>, address: u64) -> Result<UserRecord> {
    let records = &context.payload().records;
    records.record(address, |page| Umem::pin(context, page, PAGE, Access::NONE))
}

/// A queue buffer that the device only reads.
pub(super) fn buffer(
    context: Context<'_, UserContext>,
    address: u64,
    bytes: usize,
) -> Result<UserBuf> {
    UserBuf::new(Umem::pin(context, address, bytes, Access::NONE)?)
}

/// Maps a doorbell page.
pub(super) fn map(data: &Data, vma: Vma<'_, UserContext>) -> Result {
    let context = vma.context().payload();
    context.home()?;
    let Mapping::Uar(index, combining) = Mapping::parse(vma.page_offset())?;
    let offset = context.uars.list.get(index).ok_or(EINVAL)?.offset();
    let cache = if combining {
        Cache::WriteCombining
    } else {
        Cache::Uncached
    };
    vma.map_page(&data.device.bar, offset, cache)
}
