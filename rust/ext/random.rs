// SPDX-License-Identifier: GPL-2.0
//! Random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use rmlx5_bindings as bindings;

/// A number that nobody can foretell once the kernel's generator has been seeded. Any context.
pub fn random_u32() -> u32 {
    // SAFETY: Always safe to call.
    unsafe { bindings::get_random_u32() }
}
