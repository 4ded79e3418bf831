// SPDX-License-Identifier: GPL-2.0
//! Verbs of the kernel: what a driver does for others in the kernel, whose queues are in its hands.

pub mod completion;
pub mod request;

use kernel::prelude::*;

use super::{
    access::Access,
    ah::AddressVector,
    cq::{Cq, NewCq},
    mr::Mr,
    object::{Pd, Ref},
    qp::{NewQp, Qp, QpChange},
    verbs::UserVerbs,
};
pub use completion::{Completion, Completions, Outcome, QpHandle, Status};
pub use request::{Operation, Receive, Receives, Remote, Scatter, Send, Sends};
use rmlx5_bindings as bindings;

/// An address handle of the kernel. One of a user has no part of the driver.
pub type Ah<'a, T> = Ref<'a, bindings::ib_ah, Option<T>>;

/// When a CQ raises its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// At the next completion.
    Next,
    /// At the next one that the other end asks to be heard of, or that is an error.
    Solicited,
}

/// A driver that also posts and polls.
///
/// Objects of the kernel and of users have the same parts of the driver; queries, changes and the end
/// of an object go through [`UserVerbs`] for both. A process may have the kernel post to a user's
/// queue; a driver that does not do that says `EOPNOTSUPP`.
///
/// [`poll`](Self::poll), [`arm`](Self::arm), [`send`](Self::send), [`receive`](Self::receive) and
/// [`set_page`](Self::set_page) come in any context and do not sleep. The others sleep.
pub trait KernelVerbs: UserVerbs {
    /// The driver's part of an address handle.
    type Ah: core::marker::Send + Sync + 'static;

    /// Makes a CQ. The notifier of `new` calls back in any context.
    fn create_kernel_cq(data: &Self::Data, new: &mut NewCq<'_, Self>) -> Result<Self::Cq>;

    /// Takes completions out of a CQ until it is empty or `to` is full.
    fn poll(cq: Cq<'_, Self::Cq>, to: &mut Completions<'_>) -> Result;

    /// Asks for one event. Whether there was something to poll already.
    fn arm(cq: Cq<'_, Self::Cq>, arm: Arm) -> Result<bool>;

    /// Makes a QP in RESET.
    fn create_kernel_qp(data: &Self::Data, new: &mut NewQp<'_, Self>) -> Result<Self::Qp>;

    /// Changes a QP of the kernel.
    fn modify_kernel_qp(data: &Self::Data, qp: Qp<'_, Self::Qp>, change: &QpChange<'_>) -> Result;

    /// Posts sends. On failure those that were taken from the list before the last one are posted.
    fn send(qp: Qp<'_, Self::Qp>, list: &mut Sends<'_, Self>) -> Result;

    /// Posts receives. Failure as for [`KernelVerbs::send`].
    fn receive(qp: Qp<'_, Self::Qp>, list: &mut Receives<'_>) -> Result;

    /// A region whose addresses are bus addresses, of all memory, and its key.
    fn register_all(
        data: &Self::Data,
        pd: Pd<'_, Self::Pd>,
        access: Access,
    ) -> Result<(Self::Mr, u32)>;

    /// A region of up to `pages` pages, to be filled by a request, and its key.
    fn allocate_mr(data: &Self::Data, pd: Pd<'_, Self::Pd>, pages: u32) -> Result<(Self::Mr, u32)>;

    /// Begins to fill the list of pages of such a region anew.
    fn clear_pages(mr: Mr<'_, Self::Mr>) -> Result;

    /// Adds a page. `ENOMEM` when there are as many as were asked for.
    fn add_page(mr: Mr<'_, Self::Mr>, address: u64) -> Result;

    /// Makes an address handle. May be called where it must not sleep.
    fn create_kernel_ah(data: &Self::Data, path: &AddressVector<'_>) -> Result<Self::Ah>;
}
