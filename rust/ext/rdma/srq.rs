// SPDX-License-Identifier: GPL-2.0
//! Shared receive queues of users.

use kernel::sync::Arc;
use rmlx5_bindings as bindings;

use super::{
    notify::{SrqNotifier, Watched},
    object::{Context, Pd, Ref},
    verbs::UserVerbs,
};

/// A shared receive queue.
pub type Srq<'a, T> = Ref<'a, bindings::ib_srq, Watched<bindings::ib_srq, T>>;

/// Size and limit of an SRQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttributes {
    /// Receives that can be posted.
    pub max_wr: u32,
    /// Scatter entries of a receive.
    pub max_sge: u32,
    /// The event comes when fewer are left; 0: none is armed.
    pub limit: u32,
}

impl SrqAttributes {
    pub(super) fn from_raw(raw: &bindings::ib_srq_attr) -> Self {
        Self {
            max_wr: raw.max_wr,
            max_sge: raw.max_sge,
            limit: raw.srq_limit,
        }
    }

    pub(super) fn store(&self, to: &mut bindings::ib_srq_attr) {
        to.max_wr = self.max_wr;
        to.max_sge = self.max_sge;
        to.srq_limit = self.limit;
    }
}

/// A shared receive queue that is being created, for the duration of the call.
///
/// # Invariants
///
/// The pointer is that of a create function, valid for `'a`.
pub struct NewSrq<'a, D: UserVerbs> {
    attr: *mut bindings::ib_srq_init_attr,
    context: Context<'a, D::Context>,
    pd: Pd<'a, D::Pd>,
    notifier: Arc<SrqNotifier>,
}

impl<'a, D: UserVerbs> NewSrq<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(
        attr: *mut bindings::ib_srq_init_attr,
        context: Context<'a, D::Context>,
        pd: Pd<'a, D::Pd>,
        notifier: Arc<SrqNotifier>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            attr,
            context,
            pd,
            notifier,
        }
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
    pub fn notifier(&self) -> Arc<SrqNotifier> {
        self.notifier.clone()
    }

    /// Whether it is a plain one: neither XRC nor tag matching.
    pub fn is_basic(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { (*self.attr).srq_type == bindings::ib_srq_type_IB_SRQT_BASIC }
    }

    /// What the user wants; not checked.
    pub fn attributes(&self) -> SrqAttributes {
        // SAFETY: By the type invariant.
        SrqAttributes::from_raw(unsafe { &(*self.attr).attr })
    }

    /// What the user gets.
    pub fn set_attributes(&mut self, attributes: SrqAttributes) {
        // SAFETY: By the type invariant.
        attributes.store(unsafe { &mut (*self.attr).attr });
    }
}

/// What a user wants changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqChange {
    /// Another size.
    pub max_wr: Option<u32>,
    /// Arm the limit event.
    pub limit: Option<u32>,
}
