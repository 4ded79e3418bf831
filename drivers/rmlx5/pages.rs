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

use kernel::{
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        Arc,
        Mutex,
        SpinLockIrq, //
    },
    time::Delta, //
};
use kernel_ext::{
    dma::DevicePage,
    numa::Node,
    pci::BoundDevice,
    time::Deadline, //
};
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
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
        CmdError,
        Command, //
    },
    limit::Limit, //
};

/// Pages the firmware may hold at most: 2 GiB. A ConnectX-6 Dx takes some tens of MiB.
const BUDGET: usize = 512 * 1024;
/// The unit of the interface is the page of this machine.
const _: () = assert!(DevicePage::SIZE == crate::buf::PAGE);
/// How long the device may take to return what it holds at teardown (`MLX5_TO_RECLAIM_PAGES_MS`).
const RECLAIM_TIMEOUT: Delta = Delta::from_secs(5);
/// Pages of one request event at most, as in the C driver (`MAX_RECLAIM_NPAGES`).
const REQUEST_MAX: i64 = 50_000;

/// When the device wants pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Right after ENABLE_HCA.
    Boot,
    /// Before INIT_HCA.
    Init,
}

/// QUERY_PAGES: how many pages the device wants for a stage.
struct QueryPages(Stage);

impl Command for QueryPages {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_PAGES;
    type In = ifc::query_pages_in;
    type Out = ifc::query_pages_out;
    type Output = i32;

    fn op_mod(&self) -> u16 {
        match self.0 {
            Stage::Boot => 1,
            Stage::Init => 2,
        }
    }

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<i32> {
        // CAST: the count is signed.
        Some(output.get32(field!(query_pages_out, num_pages)) as i32)
    }
}

/// MANAGE_PAGES, give.
struct GivePages<'a>(&'a [u64]);

impl Command for GivePages<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MANAGE_PAGES;
    const PAGES: bool = true;
    type In = ifc::manage_pages_in;
    type Out = ifc::manage_pages_out;
    type Output = ();

    fn op_mod(&self) -> u16 {
        1
    }

    fn in_tail(&self) -> usize {
        self.0.len() * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        // CAST: at most `PAGES_PER_COMMAND`.
        input.set(
            field!(manage_pages_in, input_num_entries),
            self.0.len() as u64,
        );
        let list = input.raw(span!(manage_pages_in, pas));
        for (slot, address) in list.chunks_exact_mut(8).zip(self.0) {
            slot.copy_from_slice(&address.to_be_bytes());
        }
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// MANAGE_PAGES, take: the addresses that the device returns.
struct TakePages(usize);

impl Command for TakePages {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MANAGE_PAGES;
    const PAGES: bool = true;
    type In = ifc::manage_pages_in;
    type Out = ifc::manage_pages_out;
    type Output = KVVec<u64>;

    fn op_mod(&self) -> u16 {
        2
    }

    fn out_tail(&self) -> usize {
        self.0 * 8
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        // CAST: at most `PAGES_PER_COMMAND`.
        input.set(field!(manage_pages_in, input_num_entries), self.0 as u64);
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<KVVec<u64>> {
        // CAST: `usize` has 64 bits here.
        let count = output.get(field!(manage_pages_out, output_num_entries)) as usize;
        if count > self.0 {
            return None;
        }
        let list = output.raw(span!(manage_pages_out, pas));
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL).ok()?;
        for bytes in list.chunks_exact(8).take(count) {
            let mut address = [0u8; 8];
            address.copy_from_slice(bytes);
            pages
                .push_within_capacity(u64::from_be_bytes(address))
                .ok()?;
        }
        Some(pages)
    }
}

/// MANAGE_PAGES, cannot give.
struct CannotGive;

impl Command for CannotGive {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MANAGE_PAGES;
    const PAGES: bool = true;
    type In = ifc::manage_pages_in;
    type Out = ifc::manage_pages_out;
    type Output = ();

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// What the device asked for at run time, not yet done.
#[pin_data]
pub(crate) struct Requests {
    #[pin]
    wanted: SpinLockIrq<Wanted>,
    /// Somebody to wake when there is something to do.
    wake: Arc<dyn Wake>,
    /// Requests that were refused at the edge.
    pub(crate) refused: Counter,
}

/// Starts the work that answers requests. Hard interrupt context.
pub(crate) trait Wake: Send + Sync {
    /// Called for each request.
    fn wake(&self);
}

#[derive(Clone, Copy, Default)]
struct Wanted {
    give: i64,
    take: i64,
}

impl Requests {
    /// No request yet.
    pub(crate) fn new(wake: Arc<dyn Wake>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                wanted <- new_spinlock_irq!(Wanted::default()),
                wake,
                refused: Counter::default(),
            }),
            GFP_KERNEL,
        )
    }

    /// The device asked. Hard interrupt context.
    ///
    /// Requests for other functions, and "release all", which the driver never switches on, are
    /// refused (`false`). Counts are clamped; the sum is bounded by the budget.
    pub(crate) fn note(&self, flags: u16, function: u16, pages: i32) -> bool {
        if flags != 0 || function != 0 || pages == 0 {
            self.refused.inc();
            return false;
        }
        let pages = i64::from(pages).clamp(-REQUEST_MAX, REQUEST_MAX);
        {
            let mut wanted = self.wanted.lock();
            // CAST: the budget is far below i64.
            if pages > 0 {
                wanted.give = (wanted.give + pages).min(BUDGET as i64);
            } else {
                wanted.take = (wanted.take - pages).min(BUDGET as i64);
            }
        }
        self.wake.wake();
        true
    }

    /// Forgets everything: the device was reset.
    fn clear(&self) {
        *self.wanted.lock() = Wanted::default();
    }

    fn fetch(&self) -> Wanted {
        core::mem::take(&mut *self.wanted.lock())
    }
}

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
