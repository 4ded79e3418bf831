// SPDX-License-Identifier: GPL-2.0
//! CQs of users.

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
    Context,
    Cq,
    NewCq,
    Udata,
    Umem, //
};

use super::{
    abi,
    context::{
        self,
        UserContext, //
    },
    doorbell::Page,
    kverbs::{
        Core,
        Lives, //
    },
    Data,
    Verbs, //
};
use crate::{
    buf::{
        user::UserBuf,
        PAGE, //
    },
    cq::{
        self,
        query::{
            QueryCq,
            Snapshot, //
        },
        user::{
            Config,
            UserCq, //
        },
        Moderation, //
    },
    home::Home, //
};

/// Longest moderation period, in microseconds: 12 bits. Source: `MLX5_MAX_CQ_PERIOD` in ib/cq.c.
pub(super) const MAX_PERIOD: u16 = 0xfff;

/// The driver's part of a user's CQ.
pub(crate) struct Completions {
    home: Home,
    number: u32,
    vector: usize,
    /// Held while a command for it is under way; `None` at the end, and for one of the kernel.
    queue: Pin<KBox<Mutex<Option<UserCq>>>>,
    /// What the kernel polls.
    core: Option<Arc<Core>>,
    lives: Arc<Lives>,
    /// Where a user's is armed: given back after it.
    _page: Option<Arc<Page>>,
}

impl Completions {
    /// The number the device gave a user's.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Of the kernel, without a CQ on the device yet.
    pub(super) fn of_kernel(
        data: &Data,
        home: Home,
        vector: usize,
        core: Arc<Core>,
    ) -> Result<Self> {
        Ok(Self {
            home,
            number: 0,
            vector,
            queue: KBox::pin_init(new_mutex!(None), GFP_KERNEL)?,
            core: Some(core),
            lives: data.lives.clone(),
            _page: None,
        })
    }

    /// The CQ of the kernel is there.
    pub(super) fn install(&self, cq: cq::Cq) {
        if let Some(core) = &self.core {
            core.install(cq);
        }
    }

    /// What the kernel polls; `None` for a user's CQ.
    pub(super) fn core(&self) -> Option<&Arc<Core>> {
        self.core.as_ref()
    }

    /// The completion vector that its events go to.
    pub(super) fn vector(&self) -> u32 {
        // CAST: at most 2048.
        self.vector as u32
    }

    /// Asks the device; `None` when it does not answer or the CQ is of an earlier generation. Sleeps.
    pub(super) fn look(&self) -> Option<Snapshot> {
        let (home, number) = match &self.core {
            Some(core) => {
                let now = Home::now(self.home.device());
                let number = core.number_on(&now).ok()?;
                (now, number)
            }
            None => (self.home.clone(), self.number),
        };
        home.cmd().exec(&QueryCq { number }).ok()
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            self.drop_core(&core);
            return;
        }
        let Some(queue) = self.queue.lock().take() else {
            return;
        };
        // A CQ of an earlier generation is gone already, and its number may be another's.
        if self.home.is_current() {
            if let Some(eq) = self.home.device().comp_eq(self.vector) {
                drop(eq.unsubscribe(self.number));
            }
            queue.destroy(self.home.cmd());
        }
    }
}

impl Completions {
    /// A CQ of the kernel goes.
    fn drop_core(&self, core: &Arc<Core>) {
        self.lives.remove(core);
        core.destroy();
    }
}

/// log2 of the entries of a CQ for `wanted` completions: one entry stays free. `EINVAL` beyond the
/// limit of the device, with a line.
pub(super) fn log_entries(data: &Data, wanted: u32) -> Result<u8> {
    let caps = data.device.caps()?;
    let most = (1u32 << caps.log_max_cq_size).saturating_sub(1);
    if wanted == 0 || wanted > most {
        data.complain(fmt!("CQ: {wanted} entries, the limit is {most}"));
        return Err(EINVAL);
    }
    // CAST: at most 22.
    Ok(wanted
        .saturating_add(1)
        .next_power_of_two()
        .trailing_zeros() as u8)
}

/// The buffer of a CQ. `EINVAL` unless it begins with a page. Source: `create_cq_user` in ib/cq.c, which
/// leaves no offset either.
fn buffer(umem: Umem) -> Result<UserBuf> {
    // CAST: a page is 4 KiB.
    if umem.start() % PAGE as u64 != 0 {
        return Err(EINVAL);
    }
    UserBuf::new(umem)
}

/// Makes a CQ.
pub(super) fn create(
    data: &Data,
    new: &mut NewCq<'_, Verbs>,
    udata: &mut Udata<'_>,
) -> Result<Completions> {
    let user = new.context()?;
    let home = user.payload().home()?.clone();
    let log = log_entries(data, new.entries())?;
    if new.has_unknown_flags() {
        data.complain(fmt!("CQ: flags {:#x} are not supported", new.flags()));
        return Err(EOPNOTSUPP);
    }
    let request = abi::CreateCq::parse(udata)?;
    let vector = new.vector() as usize;
    let eq = data.device.comp_eq(vector).ok_or(EINVAL)?;
    let page = user.payload().page_for_cq(request.uar)?;
    let config = Config {
        uar: page.index(),
        eqn: eq.eq.number().ok_or(EIO)?,
        long: request.long,
        // Source: `mlx5_ib_create_user_cq`, which does not ask for the capability either.
        ignore_overrun: new.ignores_overrun(),
    };
    // CAST: `usize` has 64 bits here.
    let bytes = (if request.long { 128usize } else { 64 }) << log;
    let umem = Umem::pin_cq(user, udata, request.buffers.queue, bytes);
    let buf = buffer(context::mapped(user, umem)?)?;
    let record = context::record(user, request.buffers.record)?;
    let queue = UserCq::create(home.cmd(), &config, log, buf, record)?;
    let number = queue.number();
    let slot = KBox::pin_init(new_mutex!(None), GFP_KERNEL);
    let slot: Pin<KBox<Mutex<Option<UserCq>>>> = match slot {
        Ok(slot) => slot,
        Err(error) => {
            queue.destroy(home.cmd());
            return Err(error);
        }
    };
    *slot.lock() = Some(queue);
    // From here on an error destroys it.
    let completions = Completions {
        home,
        number,
        vector,
        queue: slot,
        core: None,
        lives: data.lives.clone(),
        _page: Some(page),
    };
    eq.subscribe(number, new.notifier())?;
    abi::answer_number(number, udata)?;
    new.set_entries((1u32 << log).saturating_sub(1));
    Ok(completions)
}

/// Gives a CQ another size.
pub(super) fn resize(
    data: &Data,
    user: Context<'_, UserContext>,
    cq: Cq<'_, Completions>,
    entries: u32,
    udata: &mut Udata<'_>,
) -> Result {
    let this = cq.payload();
    this.home.alive()?;
    if !data.device.caps()?.cq_resize {
        return Err(EOPNOTSUPP);
    }
    let log = log_entries(data, entries)?;
    let (address, long) = abi::parse_resize_cq(udata)?;
    let mut slot = this.queue.lock();
    let queue = Option::as_mut(&mut *slot).ok_or(EIO)?;
    if cq.entries() == (1u32 << log).saturating_sub(1) {
        return Ok(());
    }
    if long != (queue.entry_bytes() == 128) {
        return Err(EINVAL);
    }
    let bytes = queue.entry_bytes() << log;
    let umem = Umem::pin(user, address, bytes, Access::LOCAL_WRITE);
    let buf = buffer(context::mapped(user, umem)?)?;
    queue.resize(this.home.cmd(), log, buf)?;
    cq.set_entries((1u32 << log).saturating_sub(1));
    Ok(())
}

/// Sets when the event of a CQ is raised.
pub(super) fn moderate(data: &Data, cq: Cq<'_, Completions>, count: u16, period_us: u16) -> Result {
    let this = cq.payload();
    if this.core.is_some() || !data.device.caps()?.cq_moderation {
        return Err(EOPNOTSUPP);
    }
    this.home.alive()?;
    if period_us > MAX_PERIOD {
        data.complain(fmt!(
            "CQ {:#x}: moderation of {period_us} us, the limit is {MAX_PERIOD}",
            this.number
        ));
        return Err(EINVAL);
    }
    let slot = this.queue.lock();
    let queue = slot.as_ref().ok_or(EIO)?;
    queue.moderate(this.home.cmd(), Moderation { period_us, count })?;
    Ok(())
}
