// SPDX-License-Identifier: GPL-2.0
//! Shared receive queues of users.

use kernel::sync::Arc;
use rmlx5_bindings as bindings;

use super::{
    cq::Cq,
    notify::{SrqNotifier, Watched},
    object::{Context, Pd, Ref},
    verbs::UserVerbs,
    xrcd::Xrcd,
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

/// Who takes receives from an SRQ.
pub enum SrqKind<'a, D: UserVerbs> {
    /// QPs that name it.
    Basic,
    /// QPs of an XRC domain, as senders say.
    Xrc {
        /// The domain.
        xrcd: Xrcd<'a, D::Xrcd>,
        /// Where its completions go.
        cq: Cq<'a, D::Cq>,
    },
    /// Another type, by its number (`enum ib_srq_type`).
    Other(u32),
}

/// A shared receive queue that is being created, for the duration of the call.
///
/// # Invariants
///
/// The pointers are those of a create function, valid for `'a`, and so are the objects they name.
pub struct NewSrq<'a, D: UserVerbs> {
    srq: *mut bindings::ib_srq,
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
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_init_attr,
        context: Context<'a, D::Context>,
        pd: Pd<'a, D::Pd>,
        notifier: Arc<SrqNotifier>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            srq,
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

    /// Who takes from it.
    pub fn kind(&self) -> SrqKind<'a, D> {
        // SAFETY: By the type invariant; an XRC SRQ has a domain and a CQ of the driver, which the
        // core holds.
        unsafe {
            match (*self.attr).srq_type {
                bindings::ib_srq_type_IB_SRQT_BASIC => SrqKind::Basic,
                bindings::ib_srq_type_IB_SRQT_XRC => SrqKind::Xrc {
                    xrcd: Ref::from_raw((*self.attr).ext.__bindgen_anon_1.xrc.xrcd),
                    cq: Ref::from_raw((*self.attr).ext.cq),
                },
                other => SrqKind::Other(other),
            }
        }
    }

    /// The number of an XRC SRQ, by which senders name it.
    pub fn set_number(&mut self, number: u32) {
        // SAFETY: By the type invariant.
        unsafe { (*self.srq).ext.__bindgen_anon_1.xrc.srq_num = number };
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
