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
    doorbell::{
        AskedPage,
        Doorbell,
        Page,
        Pages,
        Registers, //
    },
    Data,
    Verbs, //
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
    iseg::Iseg,
    net::base::TransportDomain, //
};

/// The driver's part of a user context.
pub(crate) struct UserContext {
    home: Home,
    cqe_version: u8,
    pages: Arc<Pages>,
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
        let home = Home::now(device);
        // CAST, below: `usize` has 64 bits here.
        let context = Self {
            cqe_version: request.cqe_version.min(device.caps()?.cqe_version),
            pages: Pages::new(&home, request.registers / abi::REGISTERS_PER_PAGE)?,
            registers: Registers::new(request.registers as usize, request.exclusive as usize)?,
            records: RecordPages::new()?,
            domain: KBox::pin_init(new_mutex!(None), GFP_KERNEL)?,
            home,
        };
        // Pages of an earlier generation may have the same numbers.
        data.revoker.wait();
        let room = udata.response_len();
        let answer = context.answer(data, room)?;
        udata.respond_bytes(answer.get(..room.min(answer.len())).ok_or(EINVAL)?)?;
        Ok(context)
    }

    /// What a library with `room` for an answer is told about it.
    pub(super) fn answer(&self, data: &Data, room: usize) -> Result<abi::ContextAnswer> {
        let registers = self.pages.fixed() * abi::REGISTERS_PER_PAGE;
        let caps = data.device.caps()?;
        abi::answer_context(
            &caps,
            data.device.blue_flame(),
            registers,
            self.cqe_version,
            room,
        )
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

    /// The UAR page for a CQ: the first one that came with the context, or one that the library names by its number.
    pub(super) fn page_for_cq(&self, named: Option<u32>) -> Result<Arc<Page>> {
        match named {
            None => self.pages.at(0).cloned(),
            Some(index) => self.pages.own(index),
        }
    }

    /// What a QP is rung by: a page that the library names by its number, or what the driver chooses.
    pub(super) fn doorbell(&self, named: Option<u32>) -> Result<Doorbell> {
        match named {
            None => Doorbell::of_register(&self.pages, &self.registers),
            Some(index) => Ok(Doorbell::of_page(self.pages.own(index)?)),
        }
    }

    /// Another page. Sleeps. `EIO` when the generation is over, `ENOMEM` when there are no more.
    pub(super) fn ask_for_page(&self, cache: Cache) -> Result<AskedPage> {
        AskedPage::new(self.home()?, &self.pages, cache)
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
}

/// Counts memory that could not be mapped for the card. The DMA layer says `EIO` then, and whatever comes before the mapping
/// does not; where an IOMMU has no addresses left it says `ENOMEM`, which cannot be told from memory that is lacking.
/// Source: `__dma_map_sg_attrs` in kernel/dma/mapping.c, `__ib_umem_get_va` in drivers/infiniband/core/umem.c.
pub(super) fn mapped(context: Context<'_, UserContext>, pinned: Result<Umem>) -> Result<Umem> {
    if matches!(pinned, Err(EIO)) {
        let user = context.payload();
        user.home.device().counters.mapping_errors.inc();
    }
    pinned
}

/// The doorbell record at `address`; its page is pinned once for all that are in it.
pub(super) fn record(context: Context<'_, UserContext>, address: u64) -> Result<UserRecord> {
    let records = &context.payload().records;
    records.record(address, |page| {
        mapped(context, Umem::pin(context, page, PAGE, Access::NONE))
    })
}

/// A queue buffer that the device only reads.
pub(super) fn buffer(
    context: Context<'_, UserContext>,
    address: u64,
    bytes: usize,
) -> Result<UserBuf> {
    let umem = Umem::pin(context, address, bytes, Access::NONE);
    UserBuf::new(mapped(context, umem)?)
}

/// Maps a doorbell page: one that the process has asked for, by the offset that it was told, or one that came with the
/// context. Or the clock, to be read.
pub(super) fn map(data: &Data, vma: Vma<'_, Verbs>) -> Result {
    let context = vma.context().payload();
    context.home()?;
    let bar = &data.device.bar;
    if let Some(asked) = vma.page() {
        return vma.map_page(bar, asked.page().offset(), asked.cache(), Some(asked));
    }
    let (place, combining) = match Mapping::parse(vma.page_offset())? {
        Mapping::Uar(place, combining) => (place, combining),
        Mapping::CoreClock | Mapping::ClockInfo if data.device.caps()?.clock_khz == 0 => {
            return Err(EOPNOTSUPP)
        }
        Mapping::CoreClock => return vma.map_page_to_read(bar, Iseg::TIMER_PAGE),
        Mapping::ClockInfo => return data.device.clock.map(vma),
    };
    let offset = context.pages.at(place)?.offset();
    let cache = if combining {
        Cache::WriteCombining
    } else {
        Cache::Uncached
    };
    vma.map_page(bar, offset, cache, None)
}
