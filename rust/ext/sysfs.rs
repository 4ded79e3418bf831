// SPDX-License-Identifier: GPL-2.0
//! Typed sysfs attributes on devices.
//!
//! An [`Attribute`] is a static table entry with a `show` and perhaps a `store` function that work
//! on the data of an [`Owner`]; a [`Group`] lists attributes, [`Groups`] lists groups. All are plain
//! tables:
//!
//! ```ignore
//! static LINK: Attribute<BoundTo<MyDriver>> = Attribute::ro(c"link", |data, out| {
//!     writeln!(out, "{}", data.link)?;
//!     Ok(())
//! });
//! static GROUP: Group<BoundTo<MyDriver>> = Group::new(Some(c"my"), &[Some(&LINK), None]);
//! const GROUPS: Groups<BoundTo<MyDriver>> = &[Some(&GROUP), None];
//! ```
//!
//! # Locking and lifetime
//!
//! Functions run in process context, several at a time, without any lock of the driver. Removing
//! a group waits until its running functions have returned, so a function must not wait for
//! anything that removes the group.
//!
//! C header: [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h),
//! [`include/linux/device.h`](srctree/include/linux/device.h)

use core::{fmt, marker::PhantomData, mem, ptr::NonNull};

use kernel::prelude::*;
use rmlx5_bindings as bindings;

/// Finds the data that attributes of a kind of device work on.
///
/// # Safety
///
/// `data` must return data that stays valid while an attribute function runs.
pub unsafe trait Owner: 'static {
    /// What the attribute functions get.
    type Data: Sync;

    /// The data of `device`, or [`None`] when it is gone: the access then fails with `ENODEV`.
    ///
    /// # Safety
    ///
    /// `device` must carry an attribute of this owner, and `'a` not outlast the attribute function.
    unsafe fn data<'a>(device: *mut bindings::device) -> Option<Pin<&'a Self::Data>>;
}

/// Where a `show` function writes: a page of text less one byte, [`fmt::Write`]. What does not fit is
/// an error.
pub struct Output<'a> {
    page: &'a mut [u8],
    used: usize,
}

impl fmt::Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.used.checked_add(text.len()).ok_or(fmt::Error)?;
        self.page
            .get_mut(self.used..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.used = end;
        Ok(())
    }
}

/// A file in sysfs.
///
/// # Invariants
///
/// The callbacks in the C structure were made for an owner `O`.
#[repr(transparent)]
pub struct Attribute<O>(bindings::device_attribute, PhantomData<fn() -> O>);

// SAFETY: The C structure is only read.
unsafe impl<O> Sync for Attribute<O> {}

const _: () = assert!(mem::offset_of!(bindings::device_attribute, attr) == 0);

impl<O: Owner> Attribute<O> {
    /// A file everybody may read. `show` must be a function or a closure that captures nothing,
    /// which is checked when the constant is evaluated.
    ///
    /// # Errors of `show`
    ///
    /// They go to the reader. The kernel makes `EINVAL` of a [`fmt::Error`], such as a text that is
    /// too long.
    pub const fn ro<S>(name: &'static CStr, show: S) -> Self
    where
        S: Fn(Pin<&O::Data>, &mut Output<'_>) -> Result + Copy + 'static,
    {
        let _ = show;
        const { assert!(mem::size_of::<S>() == 0, "show must not capture anything") };
        // INVARIANT: The callback is for `O`.
        Self::build(name, 0o444, Some(Self::show::<S>), None)
    }

    /// A file everybody may read and root may write. Both functions as in [`Attribute::ro`].
    ///
    /// `store` gets the text without surrounding white space; text that is not UTF-8 is refused
    /// with `EINVAL` before it. An error goes to the writer.
    pub const fn rw<S, W>(name: &'static CStr, show: S, store: W) -> Self
    where
        S: Fn(Pin<&O::Data>, &mut Output<'_>) -> Result + Copy + 'static,
        W: Fn(Pin<&O::Data>, &str) -> Result + Copy + 'static,
    {
        let _ = (show, store);
        const { assert!(mem::size_of::<S>() == 0, "show must not capture anything") };
        const { assert!(mem::size_of::<W>() == 0, "store must not capture anything") };
        // INVARIANT: The callbacks are for `O`.
        Self::build(name, 0o644, Some(Self::show::<S>), Some(Self::store::<W>))
    }

    /// A file only root may write. `store` as in [`Attribute::rw`].
    pub const fn wo<W>(name: &'static CStr, store: W) -> Self
    where
        W: Fn(Pin<&O::Data>, &str) -> Result + Copy + 'static,
    {
        let _ = store;
        const { assert!(mem::size_of::<W>() == 0, "store must not capture anything") };
        // INVARIANT: The callback is for `O`.
        Self::build(name, 0o200, None, Some(Self::store::<W>))
    }

    const fn build(
        name: &'static CStr,
        mode: u16,
        show: Option<
            unsafe extern "C" fn(
                *mut bindings::device,
                *mut bindings::device_attribute,
                *mut c_char,
            ) -> isize,
        >,
        store: Option<
            unsafe extern "C" fn(
                *mut bindings::device,
                *mut bindings::device_attribute,
                *const c_char,
                usize,
            ) -> isize,
        >,
    ) -> Self {
        let mut attribute: bindings::device_attribute = pin_init::zeroed();
        attribute.attr.name = name.to_bytes_with_nul().as_ptr().cast();
        attribute.attr.mode = mode;
        attribute.__bindgen_anon_1 = bindings::device_attribute__bindgen_ty_1 { show };
        attribute.__bindgen_anon_2 = bindings::device_attribute__bindgen_ty_2 { store };
        Self(attribute, PhantomData)
    }

    extern "C" fn show<S>(
        device: *mut bindings::device,
        _attribute: *mut bindings::device_attribute,
        buffer: *mut c_char,
    ) -> isize
    where
        S: Fn(Pin<&O::Data>, &mut Output<'_>) -> Result + Copy + 'static,
    {
        // SAFETY: `S` has no size and a value of it was given to the constructor, so any aligned
        // pointer points to one.
        let show = unsafe { NonNull::<S>::dangling().as_ref() };
        // SAFETY: By the type invariant `device` carries an attribute of `O`.
        let Some(data) = (unsafe { O::data(device) }) else {
            return error(ENODEV);
        };
        let mut output = Output {
            // sysfs complains about a text that fills the page.
            // SAFETY: sysfs gives `show` a zeroed page of its own.
            page: unsafe {
                core::slice::from_raw_parts_mut(buffer.cast(), kernel::page::PAGE_SIZE - 1)
            },
            used: 0,
        };
        match show(data, &mut output) {
            // CAST: At most a page.
            Ok(()) => output.used as isize,
            Err(cause) => error(cause),
        }
    }

    extern "C" fn store<W>(
        device: *mut bindings::device,
        _attribute: *mut bindings::device_attribute,
        buffer: *const c_char,
        count: usize,
    ) -> isize
    where
        W: Fn(Pin<&O::Data>, &str) -> Result + Copy + 'static,
    {
        // SAFETY: `W` has no size and a value of it was given to the constructor, so any aligned
        // pointer points to one.
        let store = unsafe { NonNull::<W>::dangling().as_ref() };
        // SAFETY: By the type invariant `device` carries an attribute of `O`.
        let Some(data) = (unsafe { O::data(device) }) else {
            return error(ENODEV);
        };
        // SAFETY: sysfs gives `store` a buffer of `count` bytes.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        let Ok(text) = core::str::from_utf8(bytes) else {
            return error(EINVAL);
        };
        match store(data, text.trim()) {
            // CAST: sysfs accepts at most a page.
            Ok(()) => count as isize,
            Err(cause) => error(cause),
        }
    }
}

/// An error as sysfs wants it.
fn error(cause: Error) -> isize {
    // CAST: An errno fits any integer.
    cause.to_errno() as isize
}

/// Attributes that appear together, in a directory of their own or beside the device's files.
#[repr(transparent)]
pub struct Group<O>(bindings::attribute_group, PhantomData<fn() -> O>);

// SAFETY: The C structure is only read.
unsafe impl<O> Sync for Group<O> {}

impl<O: Owner> Group<O> {
    /// `name` is the name of the directory; without it the files stand beside the device's own.
    /// `attributes` ends with one [`None`], as C wants it; anything else does not compile when
    /// evaluated in a constant.
    pub const fn new(
        name: Option<&'static CStr>,
        attributes: &'static [Option<&'static Attribute<O>>],
    ) -> Self {
        assert_terminated(attributes);
        let mut group: bindings::attribute_group = pin_init::zeroed();
        if let Some(name) = name {
            group.name = name.to_bytes_with_nul().as_ptr().cast();
        }
        // `Option<&Attribute>` is a nullable pointer, and `attr` is the first member.
        group.__bindgen_anon_2 = bindings::attribute_group__bindgen_ty_2 {
            attrs_const: attributes.as_ptr().cast(),
        };
        Self(group, PhantomData)
    }

    pub(crate) fn as_raw(&self) -> *const bindings::attribute_group {
        &raw const self.0
    }
}

/// A list of groups, ended by its only [`None`], as C wants it.
pub type Groups<O> = &'static [Option<&'static Group<O>>];

/// The list as C wants it. Evaluate it in a constant: a list that is not terminated panics.
pub(crate) const fn groups_as_raw<O: Owner>(
    groups: Groups<O>,
) -> *mut *const bindings::attribute_group {
    assert_terminated(groups);
    // `Option<&Group>` is a nullable pointer to a transparent wrapper.
    groups.as_ptr().cast_mut().cast()
}

/// Panics, at compile time for constants, unless exactly the last entry is `None`.
const fn assert_terminated<T>(list: &[Option<&T>]) {
    let mut rest = list;
    while let [first, tail @ ..] = rest {
        assert!(
            first.is_none() == tail.is_empty(),
            "the list must end with its only None"
        );
        rest = tail;
    }
    assert!(!list.is_empty(), "the list must end with None");
}
