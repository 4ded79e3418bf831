// SPDX-License-Identifier: GPL-2.0
//! What a driver tells of an object beyond what the core knows: `rdma resource show ... -dd`.

use core::marker::PhantomData;

use kernel::{
    error::{from_result, to_result},
    prelude::*,
    str::CStrExt,
};
use rmlx5_bindings as bindings;

use super::{device::Shell, object::Ref, verbs::UserVerbs};

/// A message that is being written, for the duration of the call.
///
/// # Invariants
///
/// The pointer is a message with an open nest of driver attributes, valid for `'a`.
pub struct Details<'a>(*mut bindings::sk_buff, PhantomData<&'a mut ()>);

impl Details<'_> {
    /// Adds a number.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` when the message is full: return it, and the core asks again with a new message.
    pub fn number(&mut self, name: &CStr, value: u32) -> Result {
        // SAFETY: By the type invariant; the name is copied.
        to_result(unsafe { bindings::rdma_nl_put_driver_u32(self.0, name.as_char_ptr(), value) })
    }

    /// Adds a text. Errors as for [`Details::number`].
    pub fn text(&mut self, name: &CStr, value: &CStr) -> Result {
        // SAFETY: By the type invariant; both are copied.
        to_result(unsafe {
            bindings::rdma_nl_put_driver_string(self.0, name.as_char_ptr(), value.as_char_ptr())
        })
    }
}

/// Functions for driver `D`.
pub(super) struct DetailOps<D>(PhantomData<D>);

impl<D: UserVerbs> DetailOps<D> {
    pub(super) fn fill(ops: &mut bindings::ib_device_ops) {
        ops.fill_res_cq_entry = Some(Self::cq);
        ops.fill_res_qp_entry = Some(Self::qp);
        ops.fill_res_mr_entry = Some(Self::mr);
    }

    /// Opens the nest, lets `write` fill it and closes it; on failure it is taken out again.
    ///
    /// # Safety
    ///
    /// `message` must be one that the core is writing.
    unsafe fn nest(
        message: *mut bindings::sk_buff,
        write: impl FnOnce(&mut Details<'_>) -> Result,
    ) -> c_int {
        // CAST: a small number.
        const NEST: c_int = bindings::rdma_nldev_attr_RDMA_NLDEV_ATTR_DRIVER as c_int;

        from_result(|| {
            // SAFETY: By the safety requirements.
            let nest = unsafe { bindings::nla_nest_start(message, NEST) };
            if nest.is_null() {
                return Err(EMSGSIZE);
            }
            // INVARIANT: Opened above.
            let written = write(&mut Details(message, PhantomData));
            // SAFETY: The nest was opened in this message, and everything behind it is in it.
            unsafe {
                match written {
                    Ok(()) => bindings::nla_nest_end(message, nest),
                    Err(_) => bindings::nla_nest_cancel(message, nest),
                }
            }
            written.map(|()| 0)
        })
    }

    extern "C" fn cq(message: *mut bindings::sk_buff, cq: *mut bindings::ib_cq) -> c_int {
        // SAFETY: The core passes a message, and a CQ of this driver that it destroys later.
        unsafe {
            let data = Shell::<D>::data((*cq).device);
            Self::nest(message, |to| D::describe_cq(data, Ref::from_raw(cq), to))
        }
    }

    extern "C" fn qp(message: *mut bindings::sk_buff, qp: *mut bindings::ib_qp) -> c_int {
        // SAFETY: As in `cq`.
        unsafe {
            let data = Shell::<D>::data((*qp).device);
            Self::nest(message, |to| D::describe_qp(data, Ref::from_raw(qp), to))
        }
    }

    extern "C" fn mr(message: *mut bindings::sk_buff, mr: *mut bindings::ib_mr) -> c_int {
        // SAFETY: As in `cq`.
        unsafe {
            let data = Shell::<D>::data((*mr).device);
            Self::nest(message, |to| D::describe_mr(data, Ref::from_raw(mr), to))
        }
    }
}
