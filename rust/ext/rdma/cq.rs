// SPDX-License-Identifier: GPL-2.0
//! Completion queues of users.

use kernel::{prelude::*, sync::Arc};
use rmlx5_bindings as bindings;

use super::{
    notify::{CqNotifier, Watched},
    object::{Context, Ref},
    verbs::UserVerbs,
};

/// A completion queue.
pub type Cq<'a, T> = Ref<'a, bindings::ib_cq, Watched<bindings::ib_cq, T>>;

impl<T> Cq<'_, T> {
    /// Sets the number of entries that users are told. Not for a queue that somebody else changes at
    /// the same time.
    pub fn set_entries(&self, entries: u32) {
        // SAFETY: By the type invariant; only the driver writes the number, one at a time.
        // CAST: at most a few million.
        unsafe { (*self.as_raw()).cqe = entries as c_int };
    }

    /// The number of entries that users are told.
    pub fn entries(&self) -> u32 {
        // SAFETY: By the type invariant.
        // CAST: never negative.
        unsafe { (*self.as_raw()).cqe as u32 }
    }
}

/// A completion queue that is being created, for the duration of the call.
///
/// # Invariants
///
/// The pointers are those of a create function, valid for `'a`.
pub struct NewCq<'a, D: UserVerbs> {
    cq: *mut bindings::ib_cq,
    attr: *const bindings::ib_cq_init_attr,
    context: Option<Context<'a, D::Context>>,
    notifier: Arc<CqNotifier>,
}

impl<'a, D: UserVerbs> NewCq<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        context: Option<Context<'a, D::Context>>,
        notifier: Arc<CqNotifier>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            cq,
            attr,
            context,
            notifier,
        }
    }

    /// The user.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is the kernel.
    pub fn context(&self) -> Result<Context<'a, D::Context>> {
        self.context.ok_or(EINVAL)
    }

    /// Who is told of completions and errors. Nobody is before the create function has returned.
    pub fn notifier(&self) -> Arc<CqNotifier> {
        self.notifier.clone()
    }

    /// Entries that the user wants at least; not checked.
    pub fn entries(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.attr).cqe }
    }

    /// Entries that the user gets.
    pub fn set_entries(&mut self, entries: u32) {
        // SAFETY: By the type invariant.
        // CAST: at most a few million.
        unsafe { (*self.cq).cqe = entries as c_int };
    }

    /// Completion vector, less than the number that the device was registered with.
    pub fn vector(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.attr).comp_vector }
    }

    /// Whether the user wants time stamps.
    pub fn wants_time_stamps(&self) -> bool {
        self.flags()
            & bindings::ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION
            != 0
    }

    /// Whether the user promises that there is always room.
    pub fn ignores_overrun(&self) -> bool {
        self.flags() & bindings::ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN != 0
    }

    /// Whether there are flags that this interface does not know.
    pub fn has_unknown_flags(&self) -> bool {
        use bindings::{
            ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN as IGNORE_OVERRUN,
            ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION as TIME_STAMPS,
        };
        self.flags() & !(IGNORE_OVERRUN | TIME_STAMPS) != 0
    }

    /// Flags, for those that have no function here and for log lines.
    pub fn flags(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.attr).flags }
    }
}
