// SPDX-License-Identifier: GPL-2.0
//! The driver's private part of a verb: what its user space library sends and gets back.

use core::marker::PhantomData;

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// Request and response of one call.
///
/// # Invariants
///
/// The pointer is valid for `'a`, the duration of the call.
pub struct Udata<'a>(*mut bindings::ib_udata, PhantomData<&'a mut ()>);

impl Udata<'_> {
    /// # Safety
    ///
    /// `raw` must be null or valid for the lifetime of the result.
    pub(super) unsafe fn from_raw(raw: *mut bindings::ib_udata) -> Option<Self> {
        // INVARIANT: By the safety requirements.
        (!raw.is_null()).then_some(Self(raw, PhantomData))
    }

    pub(super) fn as_raw(&self) -> *mut bindings::ib_udata {
        self.0
    }

    /// Bytes that user space sent.
    pub fn request_len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.0).inlen }
    }

    /// Bytes that user space has room for.
    pub fn response_len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.0).outlen }
    }

    /// Reads a request that has at least `minimum` bytes, the length of its first version. What a
    /// shorter one lacks reads as zero.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is shorter than `minimum`, `EOPNOTSUPP` when it is longer than `T` and the
    /// rest is not zero, `EFAULT`.
    pub fn request<T: FromZeros + IntoBytes + zerocopy::FromBytes>(
        &self,
        minimum: usize,
    ) -> Result<T> {
        let mut request = T::new_zeroed();
        // SAFETY: By the type invariant; `request` takes any bytes and has the length given.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.0,
                (&raw mut request).cast(),
                size_of::<T>(),
                minimum,
            )
        })?;
        Ok(request)
    }

    /// Sends a response: user space gets as much as it has room for, and zeros beyond it.
    ///
    /// # Errors
    ///
    /// `EFAULT` when its memory is not there.
    pub fn respond<T: IntoBytes + Immutable>(&mut self, response: &T) -> Result {
        self.respond_bytes(response.as_bytes())
    }

    /// [`Udata::respond`] with bytes.
    pub fn respond_bytes(&mut self, response: &[u8]) -> Result {
        // SAFETY: By the type invariant; the function reads the bytes only.
        to_result(unsafe {
            bindings::_ib_respond_udata(self.0, response.as_ptr().cast(), response.len())
        })
    }
}
