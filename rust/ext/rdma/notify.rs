// SPDX-License-Identifier: GPL-2.0
//! How the driver tells the user of an object what happened to it.

use core::{ops::Deref, ptr::NonNull};

use kernel::{new_spinlock_irq, prelude::*, sync::Arc, sync::SpinLockIrq};
use rmlx5_bindings as bindings;

struct Target<C>(NonNull<C>);

// SAFETY: The core's objects may be used by any thread; it has its own locks.
unsafe impl<C> Send for Target<C> {}

/// Calls the handlers that the user of an object `C` gave the core. It may outlive the object: when
/// the object is destroyed the calls do nothing any more.
///
/// The functions may be called in any context, hard interrupts included. The handlers run under a
/// lock of the notifier with interrupts off.
///
/// # Invariants
///
/// The target, if there is one, is an object that is not destroyed before [`Notifier::close`].
#[pin_data]
pub struct Notifier<C> {
    #[pin]
    target: SpinLockIrq<Option<Target<C>>>,
}

impl<C> Notifier<C> {
    /// # Safety
    ///
    /// `object` must be alive until [`Notifier::close`], or no function must be called before.
    pub(super) unsafe fn new(object: *mut C) -> Result<Arc<Self>> {
        // INVARIANT: By the safety requirements.
        let target = NonNull::new(object).map(Target);
        Arc::pin_init(
            pin_init!(Self { target <- new_spinlock_irq!(target) }),
            GFP_KERNEL,
        )
    }

    /// Nobody is told any more, and no handler runs when this returns.
    pub(super) fn close(&self) {
        *self.target.lock() = None;
    }

    /// Calls `tell` with the object if it is there.
    fn with(&self, tell: impl FnOnce(*mut C)) {
        if let Some(target) = self.target.lock().as_ref() {
            tell(target.0.as_ptr());
        }
    }
}

/// Tells the user of a CQ.
pub type CqNotifier = Notifier<bindings::ib_cq>;
/// Tells the user of a QP.
pub type QpNotifier = Notifier<bindings::ib_qp>;
/// Tells the user of an SRQ.
pub type SrqNotifier = Notifier<bindings::ib_srq>;
/// Tells the user of a work queue.
pub type WqNotifier = Notifier<bindings::ib_wq>;

impl CqNotifier {
    /// The CQ was armed and has something.
    pub fn completion(&self) {
        self.with(|cq| {
            // SAFETY: By the type invariant the object is there; its members do not change after
            // its creation.
            unsafe {
                if let Some(handler) = (*cq).comp_handler {
                    handler(cq, (*cq).cq_context);
                }
            }
        });
    }

    /// The CQ does not work any more.
    pub fn error(&self) {
        self.with(|cq| {
            // SAFETY: As in `completion`.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*cq).device,
                    element: bindings::ib_event__bindgen_ty_1 { cq },
                    event: bindings::ib_event_type_IB_EVENT_CQ_ERR,
                };
                if let Some(handler) = (*cq).event_handler {
                    handler(&mut event, (*cq).cq_context);
                }
            }
        });
    }
}

/// What happened to a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpEvent {
    /// It does not work any more.
    Fatal = bindings::ib_event_type_IB_EVENT_QP_FATAL,
    /// The other end sent a request that makes no sense.
    RequestError = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// The other end wanted what it may not have.
    AccessError = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet came before the QP was ready to send.
    Established = bindings::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue has been drained.
    SqDrained = bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// It uses the other path now.
    PathMigrated = bindings::ib_event_type_IB_EVENT_PATH_MIG,
    /// It could not change to the other path.
    PathMigrationFailed = bindings::ib_event_type_IB_EVENT_PATH_MIG_ERR,
    /// It has taken its last request from its SRQ.
    LastWqe = bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
}

impl QpNotifier {
    /// Something happened to the QP.
    pub fn event(&self, what: QpEvent) {
        self.with(|qp| {
            // SAFETY: By the type invariant the object is there; its members do not change after
            // its creation.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*qp).device,
                    element: bindings::ib_event__bindgen_ty_1 { qp },
                    event: what as u32,
                };
                if let Some(handler) = (*qp).event_handler {
                    handler(&mut event, (*qp).qp_context);
                }
            }
        });
    }
}

/// What happened to an SRQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SrqEvent {
    /// It does not work any more.
    Error = bindings::ib_event_type_IB_EVENT_SRQ_ERR,
    /// Fewer requests are left than the limit that was armed.
    LimitReached = bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
}

impl SrqNotifier {
    /// Something happened to the SRQ.
    pub fn event(&self, what: SrqEvent) {
        self.with(|srq| {
            // SAFETY: By the type invariant the object is there; its members do not change after
            // its creation.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*srq).device,
                    element: bindings::ib_event__bindgen_ty_1 { srq },
                    event: what as u32,
                };
                if let Some(handler) = (*srq).event_handler {
                    handler(&mut event, (*srq).srq_context);
                }
            }
        });
    }
}

impl WqNotifier {
    /// The queue does not work any more.
    pub fn fatal(&self) {
        self.with(|wq| {
            // SAFETY: By the type invariant the object is there; its members do not change after
            // its creation.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*wq).device,
                    element: bindings::ib_event__bindgen_ty_1 { wq },
                    event: bindings::ib_event_type_IB_EVENT_WQ_FATAL,
                };
                if let Some(handler) = (*wq).event_handler {
                    handler(&mut event, (*wq).wq_context);
                }
            }
        });
    }
}

/// The driver's part of an object that has a notifier.
pub struct Watched<C, T> {
    notifier: Arc<Notifier<C>>,
    payload: T,
}

impl<C, T> Watched<C, T> {
    pub(super) fn new(notifier: Arc<Notifier<C>>, payload: T) -> Self {
        Self { notifier, payload }
    }

    pub(super) fn close(&self) {
        self.notifier.close();
    }
}

impl<C, T> Deref for Watched<C, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}
