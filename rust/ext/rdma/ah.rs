// SPDX-License-Identifier: GPL-2.0
//! The way to another node.

use core::marker::PhantomData;

use rmlx5_bindings as bindings;

use super::gid::GidKind;

/// An address vector that the core has checked and resolved, for the duration of a call.
///
/// # Invariants
///
/// The pointer is valid for `'a`, and so is the GID entry that it names.
#[derive(Clone, Copy)]
pub struct AddressVector<'a>(*const bindings::rdma_ah_attr, PhantomData<&'a ()>);

impl AddressVector<'_> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn from_raw(raw: *const bindings::rdma_ah_attr) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw, PhantomData)
    }

    fn get(&self) -> &bindings::rdma_ah_attr {
        // SAFETY: By the type invariant.
        unsafe { &*self.0 }
    }

    /// Whether there is a global route; RoCE always needs one.
    pub fn is_global(&self) -> bool {
        u32::from(self.get().ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0
    }

    /// Port, counted from 1.
    pub fn port(&self) -> u32 {
        self.get().port_num
    }

    /// Service level; RoCE has 0 to 7.
    pub fn service_level(&self) -> u8 {
        self.get().sl
    }

    /// Code of the static rate (`enum ib_rate`); 0 is the port's.
    pub fn static_rate(&self) -> u8 {
        self.get().static_rate
    }

    /// GID of the other end, in the order of the wire.
    pub fn destination(&self) -> [u8; 16] {
        // SAFETY: All views of the union are 16 bytes.
        unsafe { self.get().grh.dgid.raw }
    }

    /// Index of this end's GID.
    pub fn source_index(&self) -> u8 {
        self.get().grh.sgid_index
    }

    /// How packets are wrapped, as the GID says.
    pub fn kind(&self) -> GidKind {
        let gid = self.get().grh.sgid_attr;
        if gid.is_null() {
            return GidKind::RoceV1;
        }
        // SAFETY: By the type invariant.
        GidKind::from_raw(unsafe { (*gid).gid_type })
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.get().grh.flow_label
    }

    /// Hops of a packet.
    pub fn hop_limit(&self) -> u8 {
        self.get().grh.hop_limit
    }

    /// Traffic class.
    pub fn traffic_class(&self) -> u8 {
        self.get().grh.traffic_class
    }

    /// Ethernet address of the next hop.
    pub fn mac(&self) -> [u8; 6] {
        // SAFETY: The union holds this view for RoCE, and any bytes are an address.
        unsafe { self.get().__bindgen_anon_1.roce.dmac }
    }
}

/// The path as a device reports it.
#[derive(Clone, Copy, Default)]
pub struct PathReport {
    /// GID of the other end, in the order of the wire.
    pub destination: [u8; 16],
    /// Ethernet address of the next hop.
    pub mac: [u8; 6],
    /// Index of this end's GID.
    pub source_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hops of a packet.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub service_level: u8,
    /// Code of the static rate.
    pub static_rate: u8,
    /// Port, counted from 1.
    pub port: u32,
}

impl PathReport {
    /// Writes to the core's structure, which is zeroed.
    pub(super) fn store(&self, to: &mut bindings::rdma_ah_attr) {
        to.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        // CAST: 1.
        to.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        to.sl = self.service_level;
        to.static_rate = self.static_rate;
        to.port_num = self.port;
        to.grh.dgid.raw = self.destination;
        to.grh.sgid_index = self.source_index;
        to.grh.flow_label = self.flow_label;
        to.grh.hop_limit = self.hop_limit;
        to.grh.traffic_class = self.traffic_class;
        to.__bindgen_anon_1.roce =
            core::mem::ManuallyDrop::new(bindings::roce_ah_attr { dmac: self.mac });
    }
}

/// UDP source port of a connection, by the convention that all RoCE v2 devices follow: from the flow
/// label, or from both QP numbers when that is 0.
pub fn source_port(flow_label: u32, local_qpn: u32, remote_qpn: u32) -> u16 {
    // SAFETY: Pure arithmetic.
    unsafe { bindings::rdma_get_udp_sport(flow_label, local_qpn, remote_qpn) }
}
