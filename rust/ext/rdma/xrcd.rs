// SPDX-License-Identifier: GPL-2.0
//! XRC domains: what ties the QPs that receive for several processes to their SRQs. The core shares
//! one between processes by a file.

use rmlx5_bindings as bindings;

use super::object::Ref;

/// An XRC domain.
pub type Xrcd<'a, T> = Ref<'a, bindings::ib_xrcd, T>;
