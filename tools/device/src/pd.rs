// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protection domains: keys and queues of different domains do not see each other.

crate::bare_object! {
    /// One domain. QPs, SRQs and keys hold it.
    Pd in pds, 32 bytes,
    AllocPd: MLX5_CMD_OP_ALLOC_PD(alloc_pd_in, alloc_pd_out),
    DeallocPd: MLX5_CMD_OP_DEALLOC_PD(dealloc_pd_in, dealloc_pd_out),
    pd
}
