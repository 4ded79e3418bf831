// SPDX-License-Identifier: GPL-2.0
//! The page by which processes convert time stamps of the device to nanoseconds.
//!
//! C header: [`include/uapi/rdma/ib_user_verbs.h`](srctree/include/uapi/rdma/ib_user_verbs.h), `struct
//! ib_uverbs_clock_info`

use core::ptr::NonNull;

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            ordering::{Relaxed, Release},
            Atomic,
        },
        barrier::{smp_mb, Write},
    },
    time::Delta,
};
use rmlx5_bindings as bindings;

use crate::time::jiffies_of;

/// What a process converts with: `nsec + ((stamp - cycles & mask) * mult + frac >> shift)` nanoseconds, where the
/// product must fit 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct ClockInfo {
    /// Nanoseconds at a reading of the clock.
    pub nsec: u64,
    /// That reading.
    pub cycles: u64,
    /// Fraction of a nanosecond at that reading, in units of two to the power of minus `shift`.
    pub frac: u64,
    /// Nanoseconds of a cycle, in the same units.
    pub mult: u32,
    /// See `frac`.
    pub shift: u32,
    /// Bits of a reading that count.
    pub mask: u64,
    /// How often the page is written anew.
    pub period: Delta,
}

/// Memory that the kernel writes and processes read. It stays where it is for those who have mapped it, also when this is
/// dropped.
///
/// # Invariants
///
/// The pointer is that of a page of the kernel which holds the structure and zeros. Only this writes to it.
pub struct ClockPage(NonNull<bindings::ib_uverbs_clock_info>);

// SAFETY: It is memory, which belongs to no thread.
unsafe impl Send for ClockPage {}
// SAFETY: It is written through `&mut` only.
unsafe impl Sync for ClockPage {}

impl ClockPage {
    /// A page of zeros. Sleeps. `ENOMEM`.
    pub fn new() -> Result<Self> {
        const { assert!(size_of::<bindings::ib_uverbs_clock_info>() <= PAGE_SIZE) };
        // SAFETY: Always safe to call where one may sleep.
        let page = unsafe { bindings::user_page() };
        // INVARIANT: A new page of zeros.
        Ok(Self(NonNull::new(page.cast()).ok_or(ENOMEM)?))
    }

    /// The page, for mappings.
    pub(super) fn as_raw(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }

    /// Tells processes. Who reads meanwhile sees that `sign` is odd or changes, and reads again.
    pub fn publish(&mut self, info: &ClockInfo) {
        let page = self.0.as_ptr();
        // SAFETY: By the type invariant all members are in memory that nobody else in the kernel accesses; they are
        // aligned. What processes read is ordered by the barriers.
        unsafe {
            let sign = Atomic::from_ptr(&raw mut (*page).sign);
            let before = sign.load(Relaxed);
            sign.store(before | 1, Relaxed);
            smp_mb(Write);
            let word = |at: *mut u64, value| Atomic::from_ptr(at).store(value, Relaxed);
            word((&raw mut (*page).nsec).cast(), info.nsec);
            word((&raw mut (*page).cycles).cast(), info.cycles);
            word((&raw mut (*page).frac).cast(), info.frac);
            word((&raw mut (*page).mask).cast(), info.mask);
            // CAST: never negative.
            let period = jiffies_of(info.period) as u64;
            word((&raw mut (*page).overflow_period).cast(), period);
            Atomic::from_ptr(&raw mut (*page).mult).store(info.mult, Relaxed);
            Atomic::from_ptr(&raw mut (*page).shift).store(info.shift, Relaxed);
            sign.store(before.wrapping_add(2), Release);
        }
    }
}

impl Drop for ClockPage {
    fn drop(&mut self) {
        // CAST: an address.
        // SAFETY: By the type invariant; mappings have references of their own.
        unsafe { bindings::free_pages(self.0.as_ptr() as usize, 0) };
    }
}
