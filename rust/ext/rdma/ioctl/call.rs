// SPDX-License-Identifier: GPL-2.0
//! What user space sends with a call and what it is answered.

use core::{marker::PhantomData, ptr, slice};

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[cfg(doc)]
use super::Attribute;

/// The attributes of one call.
///
/// # Invariants
///
/// The pointer is valid for `'a`, the duration of the call.
pub struct Call<'a>(*mut bindings::uverbs_attr_bundle, PhantomData<&'a mut ()>);

impl Call<'_> {
    /// # Safety
    ///
    /// `raw` must be that of a call that lasts longer than the result.
    pub(in super::super) unsafe fn from_raw(raw: *mut bindings::uverbs_attr_bundle) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw, PhantomData)
    }

    /// The number that user space sent.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that does not fit.
    pub fn number(&self, id: u16) -> Result<u32> {
        let mut number = 0u64;
        // SAFETY: By the type invariant; without a default it must be there.
        to_result(unsafe {
            bindings::_uverbs_get_const_unsigned(
                &raw mut number,
                self.0,
                id.into(),
                u32::MAX.into(),
                ptr::null_mut(),
            )
        })?;
        Ok(u32::try_from(number)?)
    }

    /// Whether user space has given an attribute.
    pub fn has(&self, id: u16) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::uverbs_attr_is_valid(self.0, id) }
    }

    /// The value that user space sent.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such an attribute, `EINVAL` for a longer one, `EFAULT` when the memory is not there.
    pub fn read<T: FromBytes + IntoBytes>(&self, id: u16) -> Result<T> {
        let mut value = T::new_zeroed();
        let bytes = value.as_mut_bytes();
        // SAFETY: By the type invariant; the function writes so many bytes at most.
        to_result(unsafe {
            bindings::uverbs_copy_in(bytes.as_mut_ptr().cast(), self.0, id.into(), bytes.len())
        })?;
        Ok(value)
    }

    /// The bytes that user space sent.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such an attribute. It must be one of [`Attribute::bytes`].
    pub fn bytes(&self, id: u16) -> Result<&[u8]> {
        let length = self.room(id)?;
        // SAFETY: By the type invariant.
        let bytes = unsafe { bindings::uverbs_attr_copied(self.0, id) };
        if bytes.is_null() {
            return Err(ENOENT);
        }
        // SAFETY: The core has copied as many bytes, and keeps them for the call.
        Ok(unsafe { slice::from_raw_parts(bytes.cast(), length) })
    }

    /// The set of bits that user space sent, or none.
    ///
    /// # Errors
    ///
    /// `EINVAL` for bits beside `allowed`, `EFAULT` when the memory is not there.
    pub fn flags(&self, id: u16, allowed: u32) -> Result<u32> {
        let mut flags = 0;
        // SAFETY: By the type invariant.
        to_result(unsafe {
            bindings::uverbs_get_flags32(&raw mut flags, self.0, id.into(), allowed.into())
        })?;
        Ok(flags)
    }

    /// The place of the form that user space has chosen.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such an attribute.
    pub fn choice(&self, id: u16) -> Result<u8> {
        // SAFETY: By the type invariant.
        let choice = unsafe { bindings::uverbs_attr_get_enum_id(self.0, id) };
        to_result(choice.min(0))?;
        Ok(u8::try_from(choice)?)
    }

    /// Sends an answer.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the memory is not there.
    pub fn answer<T: IntoBytes + Immutable>(&mut self, id: u16, answer: &T) -> Result {
        let bytes = answer.as_bytes();
        // SAFETY: By the type invariant; the function reads the bytes only.
        to_result(unsafe {
            bindings::uverbs_copy_to(self.0, id.into(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Bytes that user space has room for.
    ///
    /// # Errors
    ///
    /// `ENOENT` without such an attribute.
    pub fn room(&self, id: u16) -> Result<usize> {
        // SAFETY: By the type invariant.
        let length = unsafe { bindings::uverbs_attr_get_len(self.0, id) };
        to_result(length.min(0))?;
        Ok(usize::try_from(length)?)
    }

    /// Sends as much of an answer as there is room for, and zeros beyond it.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the memory is not there.
    pub fn answer_in_part(&mut self, id: u16, answer: &[u8]) -> Result {
        // SAFETY: By the type invariant; the function reads the bytes only.
        to_result(unsafe {
            bindings::uverbs_copy_to_struct_or_zero(
                self.0,
                id.into(),
                answer.as_ptr().cast(),
                answer.len(),
            )
        })
    }
}
