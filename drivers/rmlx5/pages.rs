// SPDX-License-Identifier: GPL-2.0
//! Pages that the firmware borrows from the host.
//!
//! The device asks for pages at boot, before INIT_HCA and at run time (an event), and gives them
//! back on request; it must return exactly the addresses it got. What it asks is checked against a
//! budget, what it returns is looked up by address. After a reset it has forgotten all of them:
//! they stay allocated and are given again.
//!
//! Lock order: 1. [`Pages`] (sleeping; held over commands, so that answers and books agree),
//! 2. [`Requests`] (hard interrupts).

mod commands;
mod requests;

use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::Mutex,
    time::Delta, //
};
use kernel_ext::{
    dma::DevicePage,
    numa::Node,
    pci::BoundDevice,
    time::Deadline, //
};

use self::commands::{
    CannotGive,
    GivePages,
    QueryPages,
    TakePages, //
};
pub(crate) use self::{
    commands::Stage,
    requests::{
        Requests,
        Wake, //
    },
};
use crate::{
    census::{
        Counted,
        Kind, //
    },
    cmd::{
        queue::{
            Counter,
            PAGES_PER_COMMAND, //
        },
        Cause,
        Cmd,
        CmdError, //
    },
    limit::Limit, //
};

/// Pages the firmware may hold at most: 2 GiB. A ConnectX-6 Dx takes some tens of MiB.
const BUDGET: usize = 512 * 1024;
/// The unit of the interface is the page of this machine.
const _: () = assert!(DevicePage::SIZE == crate::buf::PAGE);
/// How long the device may take to return what it holds at teardown (`MLX5_TO_RECLAIM_PAGES_MS`).
const RECLAIM_TIMEOUT: Delta = Delta::from_secs(5);

struct Page {
    memory: DevicePage,
    /// The device has it.
    given: bool,
    _counted: Counted,
}

struct Books {
    pages: RBTree<u64, Page>,
    count: usize,
    given: usize,
}

/// All pages of a device, by address.
#[pin_data]
pub(crate) struct Pages {
    pdev: BoundDevice,
    #[pin]
    books: Mutex<Books>,
    /// Addresses returned that were never given.
    pub(crate) strangers: Counter,
    /// Pages given so far.
    pub(crate) gave: Counter,
    /// Pages taken back so far.
    pub(crate) took: Counter,
    limit: Limit,
}

impl Pages {
    /// An initialiser without pages.
    pub(crate) fn new(pdev: BoundDevice) -> impl PinInit<Self> {
        pin_init!(Self {
            pdev,
            books <- new_mutex!(Books {
                pages: RBTree::new(),
                count: 0,
                given: 0,
            }),
            strangers: Counter::default(),
            gave: Counter::default(),
            took: Counter::default(),
            limit: Limit::default(),
        })
    }

    /// Pages the device has now.
    pub(crate) fn given(&self) -> usize {
        self.books.lock().given
    }

    /// Pages that are allocated now, given or spare.
    pub(crate) fn allocated(&self) -> usize {
        self.books.lock().count
    }

    /// Gives what the device wants for `stage`. Sleeps.
    pub(crate) fn supply(&self, cmd: &Cmd, stage: Stage) -> Result<usize> {
        let wanted = cmd.exec(&QueryPages(stage))?;
        let wanted = usize::try_from(wanted).map_err(|_| {
            dev_err!(self.pdev, "device wants {} pages, refused\n", wanted);
            EPROTO
        })?;
        self.give(cmd, wanted)?;
        Ok(wanted)
    }

    /// Answers the requests that came at run time. Process context.
    pub(crate) fn answer(&self, cmd: &Cmd, requests: &Requests) {
        let wanted = requests.fetch();
        // CAST: both are positive and within the budget.
        if wanted.give > 0 && self.give(cmd, wanted.give as usize).is_err() {
            // The firmware decides what it does without them.
            let _ = cmd.exec(&CannotGive);
        }
        if wanted.take > 0 {
            let _ = self.take(cmd, wanted.take as usize);
        }
    }

    /// Gives `wanted` pages, all or, after an error, as many as were accepted.
    fn give(&self, cmd: &Cmd, wanted: usize) -> Result {
        let mut books = self.books.lock();
        if books.given.saturating_add(wanted) > BUDGET {
            dev_err!(
                self.pdev,
                "device has {} pages and wants {} more, the budget is {}\n",
                books.given,
                wanted,
                BUDGET
            );
            return Err(E2BIG);
        }
        let mut left = wanted;
        while left > 0 {
            let batch = books.batch(&self.pdev, left.min(PAGES_PER_COMMAND))?;
            let result = cmd.exec(&GivePages(&batch));
            // Pages of a command in doubt count as given: they must not be freed before a reset.
            let given = match &result {
                Ok(()) => true,
                Err(error) => error.in_doubt(),
            };
            if given {
                books.mark(&batch);
                // CAST: at most `PAGES_PER_COMMAND`.
                self.gave.add(batch.len() as u64);
            }
            result?;
            left -= batch.len();
        }
        Ok(())
    }

    /// Takes up to `wanted` pages back and frees them; the number of pages the device returned.
    fn take(&self, cmd: &Cmd, wanted: usize) -> Result<usize, CmdError> {
        let mut books = self.books.lock();
        let mut total = 0;
        while total < wanted {
            let ask = (wanted - total).min(PAGES_PER_COMMAND);
            let returned = cmd.exec(&TakePages(ask))?;
            if returned.is_empty() {
                break;
            }
            for address in returned.iter() {
                if books.remove(*address) {
                    self.took.inc();
                } else {
                    self.stranger(*address);
                }
            }
            total = total.saturating_add(returned.len());
        }
        Ok(total)
    }

    /// The device returned something that it never got: counted, said, ignored.
    fn stranger(&self, address: u64) {
        self.strangers.inc();
        if self.limit.allows() {
            dev_err!(
                self.pdev,
                "DMA error: device returned page {:#x} that it never got\n",
                address
            );
        }
    }

    /// Teardown: takes back everything while the device cooperates, for a bounded time.
    ///
    /// What it keeps is freed by [`Pages::free`] when it cannot reach memory any more.
    pub(crate) fn reclaim(&self, cmd: &Cmd) {
        let deadline = Deadline::after(RECLAIM_TIMEOUT);
        loop {
            let given = self.given();
            if given == 0 {
                return;
            }
            match self.take(cmd, given) {
                Ok(0) => kernel::time::delay::fsleep(Delta::from_millis(20)),
                Ok(_) => {}
                Err(error) if error.cause == Cause::Dead => return,
                Err(_) => break,
            }
            if deadline.is_over() {
                break;
            }
        }
        let left = self.given();
        if left != 0 {
            dev_warn!(self.pdev, "device kept {} pages at teardown\n", left);
        }
    }

    /// The device was reset: it has no page any more, all are spare.
    pub(crate) fn forget(&self, requests: &Requests) {
        requests.clear();
        let mut books = self.books.lock();
        for page in books.pages.values_mut() {
            page.given = false;
        }
        books.given = 0;
    }

    /// Frees all pages. The caller has made sure that the device cannot reach memory.
    pub(crate) fn free(&self) {
        let mut books = self.books.lock();
        books.pages = RBTree::new();
        books.count = 0;
        books.given = 0;
    }
}

impl Books {
    /// Addresses of `wanted` spare pages; allocates what is missing.
    fn batch(&mut self, pdev: &BoundDevice, wanted: usize) -> Result<KVVec<u64>> {
        let mut batch = KVVec::with_capacity(wanted, GFP_KERNEL)?;
        if self.count > self.given {
            for (address, page) in self.pages.iter() {
                if batch.len() == wanted {
                    break;
                }
                if !page.given {
                    batch.push_within_capacity(*address).map_err(|_| ENOMEM)?;
                }
            }
        }
        while batch.len() < wanted {
            let memory = DevicePage::new(pdev, Node::of_device(pdev.device()))?;
            let address = memory.address();
            let page = Page {
                memory,
                given: false,
                _counted: Counted::new(Kind::Page),
            };
            let node = RBTreeNode::new(address, page, GFP_KERNEL)?;
            self.pages.insert(node);
            self.count += 1;
            batch.push_within_capacity(address).map_err(|_| ENOMEM)?;
        }
        Ok(batch)
    }

    /// The device has these now.
    fn mark(&mut self, batch: &[u64]) {
        for address in batch {
            if let Some(page) = self.pages.get_mut(address) {
                if !page.given {
                    page.given = true;
                    self.given += 1;
                }
            }
        }
    }

    /// Frees a page that the device returned; whether it had it.
    fn remove(&mut self, address: u64) -> bool {
        if !self.pages.get(&address).is_some_and(|page| page.given) {
            return false;
        }
        if let Some(page) = self.pages.remove(&address) {
            drop(page.memory);
            self.count -= 1;
            self.given -= 1;
        }
        true
    }
}
