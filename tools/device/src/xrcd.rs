// SPDX-License-Identifier: Apache-2.0 OR MIT
//! XRC domains: which XRC QPs may use which XRC SRQs.

crate::bare_object! {
    /// One domain. XRC QPs and SRQs hold it.
    Xrcd in xrcds, 32 bytes,
    AllocXrcd: MLX5_CMD_OP_ALLOC_XRCD(alloc_xrcd_in, alloc_xrcd_out),
    DeallocXrcd: MLX5_CMD_OP_DEALLOC_XRCD(dealloc_xrcd_in, dealloc_xrcd_out),
    xrcd
}
