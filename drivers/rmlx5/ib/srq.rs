// SPDX-License-Identifier: GPL-2.0
//! SRQs of users.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use kernel_ext::rdma::{
    NewSrq,
    Srq,
    SrqAttributes,
    SrqChange,
    SrqKind,
    Udata, //
};

use super::{
    abi,
    context,
    events::Events,
    qp::user_index,
    Data,
    Verbs, //
};
use crate::{
    home::Home,
    srq::{
        Config,
        UserSrq,
        Xrc, //
    }, //
};

/// Bytes before the scatter entries of a receive, and of one entry. Source: `mlx5_wqe_srq_next_seg`
/// and `mlx5_wqe_data_seg` in include/linux/mlx5/qp.h.
const HEAD: u32 = 16;
const ENTRY: u32 = 16;
/// Bytes of the smallest receive.
const SMALLEST: u32 = 32;

/// The driver's part of a user's SRQ.
pub(crate) struct Shared {
    home: Home,
    events: Arc<Events>,
    number: u32,
    attributes: SrqAttributes,
    /// Held while a command for it is under way; `None` at the end only.
    queue: Pin<KBox<Mutex<Option<UserSrq>>>>,
}

impl Shared {
    /// The number the device gave it.
    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(queue) = self.queue.lock().take() else {
            return;
        };
        // An SRQ of an earlier generation is gone already, and its number may be another's.
        if self.home.is_current() {
            self.events.forget_srq(self.number);
            queue.destroy(self.home.cmd());
        }
    }
}

/// Makes an SRQ.
pub(super) fn create(
    data: &Data,
    new: &mut NewSrq<'_, Verbs>,
    udata: &mut Udata<'_>,
) -> Result<Shared> {
    let user = new.context();
    let home = user.payload().home()?.clone();
    let xrc = match new.kind() {
        SrqKind::Basic => None,
        SrqKind::Xrc { xrcd, cq } => Some((xrcd.payload().number()?, cq.payload().number())),
        SrqKind::Other(kind) => {
            data.complain(fmt!("SRQ: type {kind} is not supported"));
            return Err(EOPNOTSUPP);
        }
    };
    let limits = data.limits()?;
    if limits.max_srq == 0 {
        return Err(EOPNOTSUPP);
    }
    let wanted = new.attributes();
    if wanted.max_wr > limits.max_srq_wr || wanted.max_sge > limits.max_srq_sge {
        data.complain(fmt!(
            "SRQ: {} receives of {} entries, the limits are {} and {}",
            wanted.max_wr,
            wanted.max_sge,
            limits.max_srq_wr,
            limits.max_srq_sge
        ));
        return Err(EINVAL);
    }
    // One receive stays free.
    let receives = wanted.max_wr.saturating_add(1).next_power_of_two();
    let stride = HEAD
        .saturating_add(wanted.max_sge.saturating_mul(ENTRY))
        .max(SMALLEST)
        .next_power_of_two();
    let (buffers, index) = abi::parse_create_srq(udata)?;
    let xrc = match xrc {
        Some((xrcdn, cqn)) => Some(Xrc {
            xrcdn,
            cqn,
            user_index: user_index(data, &user.payload(), index)?,
        }),
        None => None,
    };
    // CAST: the limits keep this below 32 MiB.
    let bytes = (receives as usize).saturating_mul(stride as usize);
    let config = Config {
        pd: new.pd().payload().number()?,
        // CAST, below: at most 31.
        log_entries: receives.trailing_zeros() as u8,
        log_stride: stride.trailing_zeros() as u8,
        xrc,
    };
    let buf = context::buffer(user, buffers.queue, bytes)?;
    let record = context::record(user, buffers.record)?;
    let slot: Pin<KBox<Mutex<Option<UserSrq>>>> = KBox::pin_init(new_mutex!(None), GFP_KERNEL)?;
    let queue = UserSrq::create(home.cmd(), &config, buf, record)?;
    let number = queue.number();
    *slot.lock() = Some(queue);
    let attributes = SrqAttributes {
        max_wr: receives.saturating_sub(1),
        max_sge: wanted.max_sge,
        limit: 0,
    };
    // From here on an error destroys it.
    let shared = Shared {
        home,
        events: data.events.clone(),
        number,
        attributes,
        queue: slot,
    };
    data.events.remember_srq(number, new.notifier())?;
    abi::answer_number(number, udata)?;
    if xrc.is_some() {
        new.set_number(number);
    }
    new.set_attributes(attributes);
    Ok(shared)
}

/// Arms the limit event. `EINVAL` for another size: SRQs do not change it.
pub(super) fn modify(data: &Data, srq: Srq<'_, Shared>, change: SrqChange) -> Result {
    let this = srq.payload();
    this.home.alive()?;
    if change.max_wr.is_some() {
        data.complain(fmt!("SRQ {:#x}: cannot be resized", this.number));
        return Err(EINVAL);
    }
    let Some(limit) = change.limit else {
        return Ok(());
    };
    if limit > this.attributes.max_wr {
        data.complain(fmt!(
            "SRQ {:#x}: limit {limit} of {} receives",
            this.number,
            this.attributes.max_wr
        ));
        return Err(EINVAL);
    }
    let limit = u16::try_from(limit).map_err(|_| EINVAL)?;
    let slot = this.queue.lock();
    slot.as_ref().ok_or(EIO)?.arm(this.home.cmd(), limit)?;
    Ok(())
}

/// Asks the device for the limit.
pub(super) fn query(srq: Srq<'_, Shared>) -> Result<SrqAttributes> {
    let this = srq.payload();
    this.home.alive()?;
    let slot = this.queue.lock();
    let limit = slot.as_ref().ok_or(EIO)?.limit(this.home.cmd())?;
    Ok(SrqAttributes {
        limit: limit.into(),
        ..this.attributes
    })
}
