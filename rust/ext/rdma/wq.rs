// SPDX-License-Identifier: GPL-2.0
//! Work queues of users that are not part of a QP, and tables of them that a hash picks from.

use kernel::{prelude::*, sync::Arc};
use rmlx5_bindings as bindings;

use super::{
    cq::Cq,
    notify::{Watched, WqNotifier},
    object::{Context, Pd, Ref},
    verbs::UserVerbs,
};

/// A work queue.
pub type Wq<'a, T> = Ref<'a, bindings::ib_wq, Watched<bindings::ib_wq, T>>;

/// A table of work queues.
pub type WqTable<'a, T> = Ref<'a, bindings::ib_rwq_ind_table, T>;

/// State of a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WqState {
    /// Nothing is processed.
    Reset = bindings::ib_wq_state_IB_WQS_RESET,
    /// Ready.
    Ready = bindings::ib_wq_state_IB_WQS_RDY,
    /// Everything is flushed.
    Error = bindings::ib_wq_state_IB_WQS_ERR,
}

impl WqState {
    fn from_raw(state: bindings::ib_wq_state) -> Result<Self> {
        [Self::Reset, Self::Ready, Self::Error]
            .into_iter()
            .find(|known| *known as u32 == state)
            .ok_or(EINVAL)
    }
}

/// A work queue that is being created, for the duration of the call.
///
/// # Invariants
///
/// The pointers are those of a create function, valid for `'a`, and so are the objects they name.
pub struct NewWq<'a, D: UserVerbs> {
    wq: *mut bindings::ib_wq,
    attr: *mut bindings::ib_wq_init_attr,
    context: Context<'a, D::Context>,
    pd: Pd<'a, D::Pd>,
    notifier: Arc<WqNotifier>,
}

impl<'a, D: UserVerbs> NewWq<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(
        wq: *mut bindings::ib_wq,
        attr: *mut bindings::ib_wq_init_attr,
        context: Context<'a, D::Context>,
        pd: Pd<'a, D::Pd>,
        notifier: Arc<WqNotifier>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            wq,
            attr,
            context,
            pd,
            notifier,
        }
    }

    fn get(&self) -> &bindings::ib_wq_init_attr {
        // SAFETY: By the type invariant.
        unsafe { &*self.attr }
    }

    /// The user.
    pub fn context(&self) -> Context<'a, D::Context> {
        self.context
    }

    /// The domain.
    pub fn pd(&self) -> Pd<'a, D::Pd> {
        self.pd
    }

    /// Who is told of events. Nobody is before the create function has returned.
    pub fn notifier(&self) -> Arc<WqNotifier> {
        self.notifier.clone()
    }

    /// Whether it is to receive: there is no other kind.
    pub fn receives(&self) -> bool {
        self.get().wq_type == bindings::ib_wq_type_IB_WQT_RQ
    }

    /// Where its completions go.
    pub fn cq(&self) -> Result<Cq<'a, D::Cq>> {
        let cq = self.get().cq;
        if cq.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant this is a CQ of the driver.
        Ok(unsafe { Ref::from_raw(cq) })
    }

    /// Requests that the user wants to post; not checked.
    pub fn max_wr(&self) -> u32 {
        self.get().max_wr
    }

    /// `IB_WQ_FLAGS_*`.
    pub fn create_flags(&self) -> u32 {
        self.get().create_flags
    }

    /// The number of the queue, 24 bits. It is in RESET.
    pub fn set_number(&mut self, number: u32) {
        // SAFETY: By the type invariant.
        unsafe {
            (*self.wq).wq_num = number;
            (*self.wq).state = WqState::Reset as u32;
        }
    }
}

/// What a user wants changed at a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WqChange {
    /// The state that the user takes it to be in.
    pub from: WqState,
    /// The state that it is to go to.
    pub to: WqState,
    /// Which of `IB_WQ_FLAGS_*` are to change.
    pub flags: u32,
}

impl WqChange {
    /// `EINVAL` for a number that is no state.
    pub(super) fn from_raw(attr: &bindings::ib_wq_attr, mask: u32) -> Result<Self> {
        Ok(Self {
            from: WqState::from_raw(attr.curr_wq_state)?,
            to: WqState::from_raw(attr.wq_state)?,
            flags: match mask & bindings::ib_wq_attr_mask_IB_WQ_FLAGS {
                0 => 0,
                _ => attr.flags_mask,
            },
        })
    }
}

/// A table that is being created, for the duration of the call.
///
/// # Invariants
///
/// The pointers are those of a create function, valid for `'a`: there are as many queues of the driver as
/// the size says.
pub struct NewWqTable<'a, D: UserVerbs> {
    table: *mut bindings::ib_rwq_ind_table,
    attr: *const bindings::ib_rwq_ind_table_init_attr,
    context: Context<'a, D::Context>,
}

impl<'a, D: UserVerbs> NewWqTable<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(
        table: *mut bindings::ib_rwq_ind_table,
        attr: *const bindings::ib_rwq_ind_table_init_attr,
        context: Context<'a, D::Context>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            table,
            attr,
            context,
        }
    }

    /// The user.
    pub fn context(&self) -> Context<'a, D::Context> {
        self.context
    }

    /// log2 of the number of queues.
    pub fn log_size(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.attr).log_ind_tbl_size }
    }

    /// Its queues.
    pub fn queues(&self) -> impl Iterator<Item = Wq<'a, D::Wq>> + 'a {
        // SAFETY: By the type invariant.
        let list = unsafe { (*self.attr).ind_tbl };
        let count = 1usize.checked_shl(self.log_size()).unwrap_or(0);
        // SAFETY: By the type invariant there are as many, and each is a queue of the driver.
        (0..count).map(move |at| unsafe { Ref::from_raw(*list.add(at)) })
    }

    /// The number of the table.
    pub fn set_number(&mut self, number: u32) {
        // SAFETY: By the type invariant.
        unsafe { (*self.table).ind_tbl_num = number };
    }
}

impl<T> Wq<'_, T> {
    /// The number of the queue.
    pub fn number(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).wq_num }
    }
}

impl<T> WqTable<'_, T> {
    /// log2 of the number of queues.
    pub fn log_size(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).log_ind_tbl_size }
    }
}
