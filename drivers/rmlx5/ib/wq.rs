// SPDX-License-Identifier: GPL-2.0
//! Receive work queues of users, and tables of them.
//!
//! Source: `mlx5_ib_create_wq`, `mlx5_ib_modify_wq` and `mlx5_ib_create_rwq_ind_table` in ib/qp.c.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::rdma::{
    NewWq,
    NewWqTable,
    Udata,
    Wq,
    WqChange,
    WqState, //
};

use super::{
    abi,
    context,
    events::Events,
    queue::{
        Config,
        Lot,
        Queue, //
    },
    Data,
    Verbs, //
};
use crate::{
    home::Home,
    net::rqt::Rqt,
    queue_state::State, //
};

/// log2 of the bytes of a scatter entry, the smallest WQE, and of the largest one.
const LOG_ENTRY: u32 = 4;
const LOG_LARGEST: u32 = 15;

/// The driver's part of a work queue.
pub(crate) struct Receiver {
    queue: Queue,
    events: Arc<Events>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The number of one of an earlier generation may be another's.
        if self.queue.home().is_current() {
            self.events.forget_wq(self.queue.number());
        }
    }
}

/// The driver's part of a table.
pub(crate) struct Table {
    rqt: Rqt,
    home: Home,
}

impl Table {
    /// Its number. `EIO` when it belongs to an earlier generation.
    pub(super) fn number(&self) -> Result<u32> {
        self.home.alive()?;
        Ok(self.rqt.number())
    }
}

impl From<WqState> for State {
    fn from(state: WqState) -> Self {
        match state {
            WqState::Reset => Self::Reset,
            WqState::Ready => Self::Ready,
            WqState::Error => Self::Error,
        }
    }
}

/// Makes a work queue.
pub(super) fn create(
    data: &Data,
    new: &mut NewWq<'_, Verbs>,
    udata: &mut Udata<'_>,
) -> Result<Receiver> {
    let context = new.context();
    let home = context.payload().home()?.clone();
    let caps = data.device.caps()?;
    if !caps.ethernet {
        return Err(EOPNOTSUPP);
    }
    abi::check_length_answer(udata)?;
    if !new.receives() {
        return Err(EINVAL);
    }
    if new.create_flags() != 0 {
        data.complain(fmt!(
            "WQ: create flags {:#x} are not supported",
            new.create_flags()
        ));
        return Err(EOPNOTSUPP);
    }
    let request = abi::CreateWq::parse(udata)?;
    let most = 1u32 << caps.log_max_wq;
    let count = request.count;
    if new.max_wr() > most || count > most || !count.is_power_of_two() {
        data.complain(fmt!(
            "WQ: {} receives, {count} WQEs are no power of two up to {most}",
            new.max_wr()
        ));
        return Err(EINVAL);
    }
    if !(LOG_ENTRY..=LOG_LARGEST).contains(&request.shift) {
        data.complain(fmt!("WQ: receives of 1 << {} bytes", request.shift));
        return Err(EINVAL);
    }
    // CAST, twice: at most 13 and 15.
    let (log, shift) = (count.trailing_zeros() as u8, request.shift as u8);
    let config = Config {
        pd: new.pd().payload().number()?,
        cqn: new.cq()?.payload().number(),
        user_index: request.user_index & super::qp::NO_USER_INDEX,
    };
    let lot = Lot {
        buf: context::buffer(context, request.buffers.queue, 1usize << (log + shift))?,
        record: context::record(context, request.buffers.record)?,
    };
    let counter = data.device.counter_set();
    // From here on an error destroys it.
    let receiver = Receiver {
        queue: Queue::receive(&home, config, lot, (log, shift), counter)?,
        events: data.events.clone(),
    };
    let number = receiver.queue.number();
    data.events.remember_wq(number, new.notifier())?;
    abi::answer_length(udata)?;
    new.set_number(number);
    Ok(receiver)
}

/// Moves a work queue to another state.
pub(super) fn modify(
    data: &Data,
    wq: Wq<'_, Receiver>,
    change: WqChange,
    udata: &mut Udata<'_>,
) -> Result {
    let receiver = wq.payload();
    receiver.queue.home().alive()?;
    abi::parse_modify_wq(udata)?;
    if change.flags != 0 {
        data.complain(fmt!(
            "WQ {:#x}: changing flags {:#x} is not supported",
            wq.number(),
            change.flags
        ));
        return Err(EOPNOTSUPP);
    }
    receiver.queue.step(change.from.into(), change.to.into())
}

/// Makes a table.
pub(super) fn create_table(
    data: &Data,
    new: &mut NewWqTable<'_, Verbs>,
    udata: &mut Udata<'_>,
) -> Result<Table> {
    let home = new.context().payload().home()?.clone();
    abi::parse_nothing(udata)?;
    let most = data.device.caps()?.log_max_rqt;
    if new.log_size() > most.into() {
        data.complain(fmt!(
            "table of WQs: 1 << {} places, the limit is 1 << {most}",
            new.log_size()
        ));
        return Err(EINVAL);
    }
    abi::check_length_answer(udata)?;
    let mut numbers = KVVec::with_capacity(1 << new.log_size(), GFP_KERNEL)?;
    for wq in new.queues() {
        wq.payload().queue.home().alive()?;
        numbers.push(wq.number(), GFP_KERNEL)?;
    }
    // CAST: at most 13.
    let rqt = Rqt::with(&home, new.log_size() as u8, &numbers)?;
    // From here on an error destroys it.
    let table = Table { rqt, home };
    abi::answer_length(udata)?;
    new.set_number(table.rqt.number());
    Ok(table)
}
