// SPDX-License-Identifier: GPL-2.0
//! Verbs of the kernel: for the connection manager, NVMe over RDMA and others. Their queues are the
//! driver's, in memory of its own.
//!
//! | file | what |
//! |---|---|
//! | [`cq`] | CQs: polling, arming, whose completions they hold |
//! | [`completion`] | from a CQE to a completion |
//! | [`queues`] | queues of a QP: posting, what is done, what is flushed |
//! | [`send`], [`wqe`] | from a request to the bytes the device reads |
//! | [`make`] | making CQs and QPs |
//! | [`mr`] | keys of all memory, and regions that requests fill |
//! | [`ah`] | address handles |
//! | [`life`] | the end of a device generation, and what lives on in the next one |
//! | [`domain`], [`gsi`] | protection domains and QP 1 beyond their generation |

mod ah;
mod completion;
mod cq;
mod domain;
mod gsi;
mod life;
mod make;
pub(super) mod mr;
mod queues;
mod send;
mod wqe;

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::rdma::{
    kverbs::{
        Arm,
        Completions as Room,
        Receives,
        Sends, //
    },
    Access,
    AddressVector,
    Cq,
    KernelVerbs,
    Mr,
    NewCq,
    NewQp,
    Pd,
    Qp,
    QpChange, //
};

pub(super) use self::{
    cq::Core,
    domain::{
        Place,
        Successor, //
    },
    life::Lives,
    queues::Queues, //
};
use super::{
    cq::Completions,
    mr::Region,
    qp::{
        modify,
        Pair, //
    },
    Data,
    Domain,
    Verbs, //
};

/// The queues of a QP of the kernel. `EOPNOTSUPP` for a user's: the kernel does not post for users.
fn queues(qp: &Pair) -> Result<&Arc<Queues>> {
    qp.queues().ok_or(EOPNOTSUPP)
}

/// The part of a CQ of the kernel that is polled. `EOPNOTSUPP` for a user's.
fn core(cq: &Completions) -> Result<&Arc<Core>> {
    cq.core().ok_or(EOPNOTSUPP)
}

impl KernelVerbs for Verbs {
    type Ah = ah::Vector;

    fn create_kernel_cq(data: &Data, new: &mut NewCq<'_, Self>) -> Result<Completions> {
        make::cq(data, new)
    }

    fn poll(cq: Cq<'_, Completions>, to: &mut Room<'_>) -> Result {
        core(&cq.payload())?.poll(to)
    }

    fn arm(cq: Cq<'_, Completions>, arm: Arm) -> Result<bool> {
        core(&cq.payload())?.arm(arm)
    }

    fn create_kernel_qp(data: &Data, new: &mut NewQp<'_, Self>) -> Result<Pair> {
        make::qp(data, new)
    }

    fn modify_kernel_qp(data: &Data, qp: Qp<'_, Pair>, change: &QpChange<'_>) -> Result {
        modify::modify(data, qp, change)
    }

    fn send(qp: Qp<'_, Pair>, list: &mut Sends<'_, Self>) -> Result {
        queues(&qp.payload())?.post_sends(list)
    }

    fn receive(qp: Qp<'_, Pair>, list: &mut Receives<'_>) -> Result {
        queues(&qp.payload())?.post_receives(list)
    }

    fn register_all(data: &Data, pd: Pd<'_, Domain>, access: Access) -> Result<(Region, u32)> {
        mr::all(data, pd, access)
    }

    fn allocate_mr(data: &Data, pd: Pd<'_, Domain>, pages: u32) -> Result<(Region, u32)> {
        mr::allocate(data, pd, pages)
    }

    fn clear_pages(mr: Mr<'_, Region>) -> Result {
        mr.payload().page_list().ok_or(EINVAL)?.clear();
        Ok(())
    }

    fn add_page(mr: Mr<'_, Region>, address: u64) -> Result {
        mr.payload().page_list().ok_or(EINVAL)?.add(address)
    }

    fn create_kernel_ah(data: &Data, path: &AddressVector<'_>) -> Result<ah::Vector> {
        ah::Vector::new(data, path)
    }
}
