// SPDX-License-Identifier: GPL-2.0
//! Memory windows: keys that requests of a QP bind to a part of a region.

use rmlx5_bindings as bindings;

use super::{
    object::{Context, Pd, Ref},
    verbs::UserVerbs,
};

/// How a window is bound and given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// By the verb, for every QP of the domain.
    Type1,
    /// By requests of one QP, with a key that the program chooses.
    Type2,
}

/// A memory window that is being made, for the duration of the call.
///
/// # Invariants
///
/// The pointer is that of a create function, valid for `'a`, and so is the domain.
pub struct NewWindow<'a, D: UserVerbs> {
    mw: *mut bindings::ib_mw,
    context: Context<'a, D::Context>,
    pd: Pd<'a, D::Pd>,
}

impl<'a, D: UserVerbs> NewWindow<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(mw: *mut bindings::ib_mw, context: Context<'a, D::Context>) -> Self {
        // SAFETY: By the safety requirements; the core holds the domain.
        let pd = unsafe { Ref::from_raw((*mw).pd) };
        // INVARIANT: By the safety requirements.
        Self { mw, context, pd }
    }

    /// The user.
    pub fn context(&self) -> Context<'a, D::Context> {
        self.context
    }

    /// The domain.
    pub fn pd(&self) -> Pd<'a, D::Pd> {
        self.pd
    }

    /// Its type; `None` for a number that is none.
    pub fn kind(&self) -> Option<WindowKind> {
        // SAFETY: By the type invariant.
        match unsafe { (*self.mw).type_ } {
            bindings::ib_mw_type_IB_MW_TYPE_1 => Some(WindowKind::Type1),
            bindings::ib_mw_type_IB_MW_TYPE_2 => Some(WindowKind::Type2),
            _ => None,
        }
    }

    /// Its key, which nothing is bound to.
    pub fn set_key(&mut self, rkey: u32) {
        // SAFETY: By the type invariant.
        unsafe { (*self.mw).rkey = rkey };
    }
}
