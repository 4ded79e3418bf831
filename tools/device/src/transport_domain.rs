// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transport domains: TISes and TIRs that belong together.

crate::bare_object! {
    /// One domain. TISes and TIRs hold it.
    TransportDomain in transport_domains, 32 bytes,
    AllocTransportDomain: MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN(alloc_transport_domain_in, alloc_transport_domain_out),
    DeallocTransportDomain: MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN(dealloc_transport_domain_in, dealloc_transport_domain_out),
    transport_domain
}
