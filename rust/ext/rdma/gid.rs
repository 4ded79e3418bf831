// SPDX-License-Identifier: GPL-2.0
//! Entries of the GID table of a port.

use core::marker::PhantomData;

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;

/// How packets of a GID are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// RoCE version 1: a GRH after an Ethernet header.
    RoceV1,
    /// RoCE version 2: UDP over IPv4 or IPv6.
    RoceV2,
}

/// Which kinds of GIDs a device has; the core makes one of each kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidKinds {
    /// [`GidKind::RoceV1`].
    pub v1: bool,
    /// [`GidKind::RoceV2`].
    pub v2: bool,
}

impl GidKinds {
    /// Flags of a port for the core.
    pub(super) const fn flags(self) -> u32 {
        let v1 = if self.v1 {
            bindings::RDMA_CORE_PORT_IBA_ROCE
        } else {
            0
        };
        let v2 = if self.v2 {
            bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP
        } else {
            0
        };
        v1 | v2
    }
}

impl GidKind {
    pub(super) fn from_raw(kind: bindings::ib_gid_type) -> Self {
        match kind {
            bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP => Self::RoceV2,
            _ => Self::RoceV1,
        }
    }
}

/// An entry that is being added or deleted, for the duration of the call.
///
/// # Invariants
///
/// The pointer is valid for `'a`.
pub struct Gid<'a>(*const bindings::ib_gid_attr, PhantomData<&'a ()>);

impl Gid<'_> {
    /// # Safety
    ///
    /// `raw` must be valid for the lifetime of the result.
    pub(super) unsafe fn from_raw(raw: *const bindings::ib_gid_attr) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw, PhantomData)
    }

    /// Port, counted from 1.
    pub fn port(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.0).port_num }
    }

    /// Place in the table.
    pub fn index(&self) -> u16 {
        // SAFETY: By the type invariant.
        unsafe { (*self.0).index }
    }

    /// The GID, in the order of the wire.
    pub fn raw(&self) -> [u8; 16] {
        // SAFETY: By the type invariant; all views of the union are 16 bytes.
        unsafe { (*self.0).gid.raw }
    }

    /// How its packets are wrapped.
    pub fn kind(&self) -> GidKind {
        // SAFETY: By the type invariant.
        GidKind::from_raw(unsafe { (*self.0).gid_type })
    }

    /// MAC address and VLAN id of the network interface behind the GID.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the interface is gone.
    pub fn l2(&self) -> Result<([u8; 6], Option<u16>)> {
        let mut vlan = 0;
        let mut mac = [0; 6];
        // SAFETY: By the type invariant; the function stores 6 bytes and a VLAN id.
        to_result(unsafe {
            bindings::rdma_read_gid_l2_fields(self.0, &mut vlan, mac.as_mut_ptr())
        })?;
        Ok((mac, (vlan < 4096).then_some(vlan)))
    }
}
