// SPDX-License-Identifier: GPL-2.0
//! The interface to libmlx5: requests and answers of include/uapi/rdma/mlx5-abi.h, in host order.

use kernel::prelude::*;
use kernel_ext::rdma::Udata;
use mlx5_hw::{
    raw,
    wire,
    wire::Member, //
};

use crate::device::Device;

/// Bytes of the answer to the opening of a context.
const RESPONSE: usize = core::mem::size_of::<raw::mlx5_ib_alloc_ucontext_resp>();
/// Bytes of the request, and of its first version.
const REQUEST: usize = core::mem::size_of::<raw::mlx5_ib_alloc_ucontext_req_v2>();
const REQUEST_V1: usize = core::mem::size_of::<raw::mlx5_ib_alloc_ucontext_req>();
/// Where its flags are.
const FLAGS: usize = wire!(mlx5_ib_alloc_ucontext_req_v2, flags).offset();
/// Flag of the request: the context wants raw access to commands. Source: `MLX5_LIB_CAP...`,
/// `MLX5_IB_ALLOC_UCTX_DEVX` in mlx5-abi.h.
const WANT_DEVX: u32 = 1;
/// Bytes of a cache line, for the layout of queues.
const CACHE_LINE: u32 = 64;

fn put<S>(bytes: &mut [u8], member: Member<S>, value: u32) -> Result {
    let range = member.offset()..member.offset() + member.width();
    let place = bytes.get_mut(range).ok_or(EINVAL)?;
    let value = value.to_ne_bytes();
    // Members are 32, 16 or 8 bits wide; the machine is little endian.
    place.copy_from_slice(value.get(..place.len()).ok_or(EINVAL)?);
    Ok(())
}

/// Answers `alloc_ucontext`. `EINVAL` for raw command access, which libmlx5 then does without.
///
/// No UAR is given out in advance (`tot_bfregs` 0): libmlx5 asks for one when it needs one.
pub(super) fn open_context(device: &Device, mut udata: Udata<'_>) -> Result {
    let request: [u8; REQUEST] = udata.request(REQUEST_V1)?;
    let flags = request.get(FLAGS..).and_then(<[u8]>::first_chunk);
    if flags.is_some_and(|flags| u32::from_ne_bytes(*flags) & WANT_DEVX != 0) {
        return Err(EINVAL);
    }
    let caps = device.caps()?;
    let length = udata.response_len().min(RESPONSE);
    let mut bytes = [0u8; RESPONSE];
    let answer: &mut [u8] = &mut bytes;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, qp_tab_size),
        1 << caps.log_max_qp,
    )?;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, bf_reg_size),
        1 << caps.log_bf_register,
    )?;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, cache_line_size),
        CACHE_LINE,
    )?;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, max_sq_desc_sz),
        caps.max_send_wqe.into(),
    )?;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, max_rq_desc_sz),
        caps.max_receive_wqe.into(),
    )?;
    let wqes = 1 << caps.log_max_qp_size;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, max_send_wqebb),
        wqes,
    )?;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, max_recv_wr),
        wqes,
    )?;
    put(answer, wire!(mlx5_ib_alloc_ucontext_resp, num_ports), 1)?;
    // CAST: a few dozen.
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, response_length),
        length as u32,
    )?;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, cqe_version),
        caps.cqe_version.into(),
    )?;
    // CAST, below: 12 is the shift of a UAR page.
    put(answer, wire!(mlx5_ib_alloc_ucontext_resp, log_uar_size), 12)?;
    put(
        answer,
        wire!(mlx5_ib_alloc_ucontext_resp, num_uars_per_page),
        1,
    )?;
    udata.respond_bytes(bytes.get(..length).ok_or(EINVAL)?)
}
