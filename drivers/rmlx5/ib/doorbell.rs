// SPDX-License-Identifier: GPL-2.0
//! Doorbells of users: UAR pages of a context, and who rings which register of them.
//!
//! A page stays the process's while anything may ring it: an object or a mapping of the process, a CQ or a QP that has
//! its number. The device then has it back, and gives it to others.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use kernel_ext::rdma::Cache;

use super::abi;
use crate::{
    home::Home,
    uar::UserUar, //
};

/// A UAR page of a process.
pub(super) struct Page {
    home: Home,
    uar: UserUar,
}

impl Page {
    /// Gets a page from the device. Sleeps. `ENOMEM` when there are no more.
    fn alloc(home: &Home) -> Result<Arc<Self>> {
        let uar = UserUar::alloc(home.cmd())?;
        // An error gives it back.
        let page = Self {
            home: home.clone(),
            uar,
        };
        Ok(Arc::new(page, GFP_KERNEL)?)
    }

    /// The number, for queue contexts.
    pub(super) fn index(&self) -> u32 {
        self.uar.index()
    }

    /// Where it is in BAR0.
    pub(super) fn offset(&self) -> u64 {
        self.uar.offset()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Pages of an earlier generation are gone already.
        if self.home.is_current() {
            self.uar.dealloc(self.home.cmd());
        }
    }
}

/// The pages of a context.
#[pin_data]
pub(super) struct Pages {
    /// Those that came with it.
    fixed: KVec<Arc<Page>>,
    /// Those that the process has asked for since.
    #[pin]
    asked: Mutex<KVec<Arc<Page>>>,
}

impl Pages {
    /// `count` pages that come with a context. Sleeps. `ENOMEM` when there are not so many.
    pub(super) fn new(home: &Home, count: u32) -> Result<Arc<Self>> {
        // CAST: `usize` has 64 bits here.
        let mut fixed = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        for _ in 0..count {
            fixed.push(Page::alloc(home)?, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                fixed,
                asked <- new_mutex!(KVec::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// How many came with the context.
    pub(super) fn fixed(&self) -> u32 {
        // CAST: at most 256.
        self.fixed.len() as u32
    }

    /// One of those that came with the context. `EINVAL` when it has not so many.
    pub(super) fn at(&self, place: usize) -> Result<&Arc<Page>> {
        self.fixed.get(place).ok_or(EINVAL)
    }

    /// The page of a number. `EINVAL` unless it is the context's: nobody rings in others' name.
    pub(super) fn own(&self, index: u32) -> Result<Arc<Page>> {
        let find = |pages: &[Arc<Page>]| pages.iter().find(|page| page.index() == index).cloned();
        find(&self.fixed)
            .or_else(|| find(&self.asked.lock()))
            .ok_or(EINVAL)
    }
}

/// A page that a process has asked for, by its object and its mappings.
pub(crate) struct AskedPage {
    page: Arc<Page>,
    of: Arc<Pages>,
    cache: Cache,
}

impl AskedPage {
    /// Gets another page for a context. Sleeps. `ENOMEM` when there are no more.
    pub(super) fn new(home: &Home, of: &Arc<Pages>, cache: Cache) -> Result<Self> {
        let page = Page::alloc(home)?;
        of.asked.lock().push(page.clone(), GFP_KERNEL)?;
        Ok(Self {
            page,
            of: of.clone(),
            cache,
        })
    }

    /// The page.
    pub(super) fn page(&self) -> &Page {
        &self.page
    }

    /// How it is mapped.
    pub(super) fn cache(&self) -> Cache {
        self.cache
    }
}

impl Drop for AskedPage {
    fn drop(&mut self) {
        self.of
            .asked
            .lock()
            .retain(|page| page.index() != self.page.index());
    }
}

/// Which QPs ring which doorbell registers of the pages that came with a context. The first register is for everybody,
/// without BlueFlame; the last ones serve one QP each; the library locks those between. Source: `need_uuar_lock` of
/// libmlx5.
#[pin_data]
pub(super) struct Registers {
    /// QPs of each register.
    #[pin]
    users: Mutex<KVec<u32>>,
    exclusive: usize,
}

impl Registers {
    /// `count` registers; `exclusive` of them serve one QP each.
    pub(super) fn new(count: usize, exclusive: usize) -> Result<Arc<Self>> {
        let users = KVec::<u32>::zeroed(count, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                users <- new_mutex!(users),
                exclusive,
            }),
            GFP_KERNEL,
        )
    }

    /// Takes a register for a QP: one for itself while there are some, then the one with the fewest
    /// QPs. `EINVAL` when there are none at all.
    fn take(&self) -> Result<u32> {
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
    fn give_back(&self, register: u32) {
        if let Some(count) = self.users.lock().get_mut(register as usize) {
            *count = count.saturating_sub(1);
        }
    }
}

/// A register that a QP has taken.
struct Register {
    number: u32,
    users: Arc<Registers>,
}

impl Drop for Register {
    fn drop(&mut self) {
        self.users.give_back(self.number);
    }
}

/// What a QP is rung by.
pub(super) struct Doorbell {
    page: Arc<Page>,
    /// Unless the library chose the page.
    register: Option<Register>,
}

impl Doorbell {
    /// A page that the library has chosen.
    pub(super) fn of_page(page: Arc<Page>) -> Self {
        Self {
            page,
            register: None,
        }
    }

    /// A register that the driver chooses. `EINVAL` when the context came without.
    pub(super) fn of_register(pages: &Pages, users: &Arc<Registers>) -> Result<Self> {
        let register = Register {
            number: users.take()?,
            users: users.clone(),
        };
        Ok(Self {
            // CAST: at most 512.
            page: pages
                .at((register.number / abi::REGISTERS_PER_PAGE) as usize)?
                .clone(),
            register: Some(register),
        })
    }

    /// The number of the page.
    pub(super) fn uar(&self) -> u32 {
        self.page.index()
    }

    /// The register, if the driver chose it.
    pub(super) fn register(&self) -> Option<u32> {
        self.register.as_ref().map(|register| register.number)
    }
}
