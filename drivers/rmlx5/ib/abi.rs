// SPDX-License-Identifier: GPL-2.0
//! The interface to libmlx5: requests and answers of include/uapi/rdma/mlx5-abi.h, in host order.
//!
//! A request is parsed once, here: what comes out has known flags only, and what must be zero is.

use kernel::prelude::*;
use kernel_ext::rdma::Udata;
use mlx5_hw::{
    raw,
    wire,
    wire::Member, //
};

use crate::{
    caps::Caps,
    iseg::Iseg, //
};

/// Bytes of a cache line, for the layout of queues.
const CACHE_LINE: u32 = 64;
/// Libraries may ask for that many doorbell registers. Source: `MLX5_MAX_BFREGS`,
/// include/linux/mlx5/driver.h.
const MAX_REGISTERS: u32 = 512;
/// Doorbell registers of a UAR page that are given to users. Source:
/// `MLX5_NON_FP_BFREGS_PER_UAR`, the same place.
pub(super) const REGISTERS_PER_PAGE: u32 = 2;
/// Registers that a UAR page has room for, as libmlx5 counts them. Source: `MLX5_BFREGS_PER_UAR`.
const PLACES_PER_PAGE: u32 = 4;

/// The version of [`Mapping::ClockInfo`] that there is.
// CAST: 0.
const CLOCK_INFO_V1: usize = raw::MLX5_IB_CLOCK_INFO_V1 as usize;

/// Reads a member of a request, in host order. A member outside of the bytes reads as 0.
fn get<S>(bytes: &[u8], member: Member<S>) -> u64 {
    let mut value = [0u8; 8];
    let range = member.offset()..member.offset() + member.width();
    if let (Some(from), Some(to)) = (bytes.get(range), value.get_mut(..member.width())) {
        to.copy_from_slice(from);
    }
    // The machine is little endian.
    u64::from_ne_bytes(value)
}

/// Writes a member of an answer, in host order.
fn put<S>(bytes: &mut [u8], member: Member<S>, value: u32) -> Result {
    let range = member.offset()..member.offset() + member.width();
    let place = bytes.get_mut(range).ok_or(EINVAL)?;
    let value = u64::from(value).to_ne_bytes();
    // Members are at most 64 bits wide; the machine is little endian.
    place.copy_from_slice(value.get(..place.len()).ok_or(EINVAL)?);
    Ok(())
}

/// What a library wants of a new context.
pub(super) struct OpenContext {
    /// Doorbell registers that come with it; even. 0 for a library that asks for pages one by one.
    pub(super) registers: u32,
    /// Those of them that serve one QP each.
    pub(super) exclusive: u32,
    /// Version of CQEs that it knows.
    pub(super) cqe_version: u8,
}

impl OpenContext {
    /// `EINVAL` for raw command access (DEVX), which libmlx5 then does without, and for registers that make no
    /// sense; `EOPNOTSUPP` for what is not known, `ENOMEM` for too many registers. Source:
    /// `mlx5_ib_alloc_ucontext` and `calc_total_bfregs` in ib/main.c.
    pub(super) fn parse(udata: &Udata<'_>) -> Result<Self> {
        use raw::mlx5_ib_alloc_ucontext_req as Old;
        use raw::mlx5_ib_alloc_ucontext_req_v2 as New;
        let request: [u8; size_of::<New>()] = udata.request(size_of::<Old>())?;
        let read = |member| get::<New>(&request, member);
        // CAST, below: no member is wider.
        let flags = read(wire!(mlx5_ib_alloc_ucontext_req_v2, flags)) as u32;
        if flags & !raw::MLX5_IB_ALLOC_UCTX_DEVX != 0
            || read(wire!(mlx5_ib_alloc_ucontext_req_v2, comp_mask)) != 0
            || read(wire!(mlx5_ib_alloc_ucontext_req_v2, reserved0)) != 0
            || read(wire!(mlx5_ib_alloc_ucontext_req_v2, reserved1)) != 0
            || read(wire!(mlx5_ib_alloc_ucontext_req_v2, reserved2)) != 0
        {
            return Err(EOPNOTSUPP);
        }
        if flags != 0 {
            return Err(EINVAL);
        }
        let wanted = read(wire!(mlx5_ib_alloc_ucontext_req_v2, total_num_bfregs)) as u32;
        let exclusive = read(wire!(mlx5_ib_alloc_ucontext_req_v2, num_low_latency_bfregs)) as u32;
        let lib_caps = read(wire!(mlx5_ib_alloc_ucontext_req_v2, lib_caps));
        let by_page = lib_caps & u64::from(raw::MLX5_LIB_CAP_DYN_UAR) != 0;
        let registers = wanted
            .checked_next_multiple_of(REGISTERS_PER_PAGE)
            .unwrap_or(0);
        // The first one is nobody's own. Without any it means nothing, unless they are to come with the context.
        if exclusive >= registers && (registers != 0 || !by_page) {
            return Err(EINVAL);
        }
        if registers > MAX_REGISTERS && !by_page {
            return Err(ENOMEM);
        }
        Ok(Self {
            registers: if by_page { 0 } else { registers },
            exclusive: if by_page { 0 } else { exclusive },
            cqe_version: read(wire!(mlx5_ib_alloc_ucontext_req_v2, max_cqe_version)) as u8,
        })
    }
}

/// What a library is told about its context.
pub(super) type ContextAnswer = [u8; size_of::<raw::mlx5_ib_alloc_ucontext_resp>()];

/// Tells about a context that came with `registers` doorbell registers and has CQEs of a version, to a library with
/// `room` for the answer. `blue_flame`: WQEs may be written to doorbell registers.
pub(super) fn answer_context(
    caps: &Caps,
    blue_flame: bool,
    registers: u32,
    cqe_version: u8,
    room: usize,
) -> Result<ContextAnswer> {
    let mut bytes: ContextAnswer = [0; size_of::<ContextAnswer>()];
    let length = room.min(bytes.len());
    let mut put = |member: Member<raw::mlx5_ib_alloc_ucontext_resp>, value: u32| {
        put(&mut bytes, member, value)
    };
    macro_rules! member {
        ($name:ident) => {
            wire!(mlx5_ib_alloc_ucontext_resp, $name)
        };
    }
    put(member!(qp_tab_size), 1 << caps.log_max_qp)?;
    put(
        member!(bf_reg_size),
        if blue_flame {
            1 << caps.log_bf_register
        } else {
            0
        },
    )?;
    put(member!(tot_bfregs), registers)?;
    put(member!(cache_line_size), CACHE_LINE)?;
    put(member!(max_sq_desc_sz), caps.max_send_wqe.into())?;
    put(member!(max_rq_desc_sz), caps.max_receive_wqe.into())?;
    put(member!(max_send_wqebb), 1 << caps.log_max_qp_size)?;
    put(member!(max_recv_wr), 1 << caps.log_max_qp_size)?;
    put(member!(max_srq_recv_wr), 1 << caps.log_max_srq_size)?;
    put(member!(num_ports), 1)?;
    // CAST: a few dozen.
    put(member!(response_length), length as u32)?;
    put(member!(cqe_version), cqe_version.into())?;
    put(
        member!(cmds_supp_uhw),
        raw::MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | raw::MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
    )?;
    put(member!(eth_min_inline), raw::MLX5_USER_INLINE_MODE_L2)?;
    // A UAR page is 4 KiB.
    put(member!(log_uar_size), 12)?;
    put(member!(num_uars_per_page), 1)?;
    if caps.clock_khz != 0 {
        put(member!(clock_info_versions), 1 << CLOCK_INFO_V1)?;
        put(
            member!(comp_mask),
            raw::MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET,
        )?;
        // CAST: the place in a page.
        put(member!(hca_core_clock_offset), Iseg::TIMER_IN_PAGE as u32)?;
    }
    Ok(bytes)
}

/// How libmlx5 counts doorbell register `register` of a context.
pub(super) const fn place_of_register(register: u32) -> u32 {
    register / REGISTERS_PER_PAGE * PLACES_PER_PAGE + register % REGISTERS_PER_PAGE
}

/// A memory mapping that a library wants: what, and which of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    /// UAR page of a context, by its place; the flag says that writes may be combined.
    Uar(usize, bool),
    /// The page of BAR0 with the clock.
    CoreClock,
    /// What makes nanoseconds of it.
    ClockInfo,
}

impl Mapping {
    /// From the page offset of `mmap`: the command in bits 15:8, the index in bits 7:0. Source:
    /// `MLX5_IB_MMAP_CMD_SHIFT` in ib/mlx5_ib.h. `EOPNOTSUPP` for another version of [`Mapping::ClockInfo`], `EINVAL` for
    /// what is not known.
    pub(super) fn parse(offset: usize) -> Result<Self> {
        let index = offset & 0xff;
        match u32::try_from(offset >> 8).map_err(|_| EINVAL)? {
            raw::MLX5_IB_MMAP_REGULAR_PAGE | raw::MLX5_IB_MMAP_WC_PAGE => {
                Ok(Self::Uar(index, true))
            }
            raw::MLX5_IB_MMAP_NC_PAGE => Ok(Self::Uar(index, false)),
            raw::MLX5_IB_MMAP_CORE_CLOCK if index == 0 => Ok(Self::CoreClock),
            raw::MLX5_IB_MMAP_CLOCK_INFO => match index {
                CLOCK_INFO_V1 => Ok(Self::ClockInfo),
                _ => Err(EOPNOTSUPP),
            },
            _ => Err(EINVAL),
        }
    }
}

/// The buffers of a queue, by their addresses in the process.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    /// The queue.
    pub(super) queue: u64,
    /// Its doorbell record.
    pub(super) record: u64,
}

/// A CQ that a library wants.
pub(super) struct CreateCq {
    pub(super) buffers: Buffers,
    /// Entries of 128 bytes instead of 64.
    pub(super) long: bool,
    /// UAR page, by its number on the device, instead of the first of the context.
    pub(super) uar: Option<u32>,
}

impl CreateCq {
    /// `EINVAL` for what makes no sense, `EOPNOTSUPP` for what the driver does not offer: compressed
    /// and padded entries, real time stamps.
    pub(super) fn parse(udata: &Udata<'_>) -> Result<Self> {
        use raw::mlx5_ib_create_cq as Layout;
        const MINIMUM: usize = wire!(mlx5_ib_create_cq, cqe_comp_res_format).offset() + 1;
        let request: [u8; size_of::<Layout>()] = udata.request(MINIMUM)?;
        let read = |member| get::<Layout>(&request, member);
        // CAST, below: members are at most 32 bits wide where it is used.
        let flags = read(wire!(mlx5_ib_create_cq, flags)) as u32;
        let known = raw::MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD
            | raw::MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX
            | raw::MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;
        if flags & !known != 0
            || read(wire!(mlx5_ib_create_cq, reserved0)) != 0
            || read(wire!(mlx5_ib_create_cq, reserved1)) != 0
        {
            return Err(EINVAL);
        }
        if flags & !raw::MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0
            || read(wire!(mlx5_ib_create_cq, cqe_comp_en)) != 0
        {
            return Err(EOPNOTSUPP);
        }
        let uar = read(wire!(mlx5_ib_create_cq, uar_page_index)) as u32;
        Ok(Self {
            buffers: Buffers {
                queue: read(wire!(mlx5_ib_create_cq, buf_addr)),
                record: read(wire!(mlx5_ib_create_cq, db_addr)),
            },
            long: entry_is_long(read(wire!(mlx5_ib_create_cq, cqe_size)))?,
            uar: (flags & raw::MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0).then_some(uar),
        })
    }
}

fn entry_is_long(bytes: u64) -> Result<bool> {
    match bytes {
        64 => Ok(false),
        128 => Ok(true),
        _ => Err(EINVAL),
    }
}

/// The new buffer of a CQ, and whether its entries have 128 bytes.
pub(super) fn parse_resize_cq(udata: &Udata<'_>) -> Result<(u64, bool)> {
    use raw::mlx5_ib_resize_cq as Layout;
    let request: [u8; size_of::<Layout>()] = udata.request(size_of::<Layout>())?;
    let read = |member| get::<Layout>(&request, member);
    if read(wire!(mlx5_ib_resize_cq, reserved0)) != 0
        || read(wire!(mlx5_ib_resize_cq, reserved1)) != 0
    {
        return Err(EINVAL);
    }
    Ok((
        read(wire!(mlx5_ib_resize_cq, buf_addr)),
        entry_is_long(read(wire!(mlx5_ib_resize_cq, cqe_size)))?,
    ))
}

/// A QP that a library wants.
pub(super) struct CreateQp {
    pub(super) buffers: Buffers,
    /// The send queue of raw packets, which has a buffer of its own.
    pub(super) raw_send: u64,
    /// WQEBBs of the send queue.
    pub(super) send_blocks: u32,
    /// WQEs of the receive queue.
    pub(super) receives: u32,
    /// log2 of the bytes of a receive WQE.
    pub(super) receive_shift: u32,
    /// What CQEs are to name the QP by.
    pub(super) user_index: u32,
    /// UAR page, by its number on the device, instead of a register that the driver chooses.
    pub(super) uar: Option<u32>,
}

impl CreateQp {
    /// `EINVAL` for flags of features that the driver does not offer. Scattering of data to CQEs is
    /// something that a library allows: the device need not do it.
    pub(super) fn parse(udata: &Udata<'_>) -> Result<Self> {
        use raw::mlx5_ib_create_qp as Layout;
        const MINIMUM: usize = wire!(mlx5_ib_create_qp, ece_options).offset();
        let request: [u8; size_of::<Layout>()] = udata.request(MINIMUM)?;
        let read = |member| get::<Layout>(&request, member);
        // CAST, below: members are at most 32 bits wide where it is used.
        let flags = read(wire!(mlx5_ib_create_qp, flags)) as u32;
        let by_page = raw::MLX5_QP_FLAG_UAR_PAGE_INDEX;
        let allowed = raw::MLX5_QP_FLAG_SCATTER_CQE | raw::MLX5_QP_FLAG_ALLOW_SCATTER_CQE | by_page;
        if flags & !allowed != 0
            || read(wire!(mlx5_ib_create_qp, dci_streams)) != 0
            || read(wire!(mlx5_ib_create_qp, reserved)) != 0
        {
            return Err(EINVAL);
        }
        let index = read(wire!(mlx5_ib_create_qp, bfreg_index)) as u32;
        Ok(Self {
            buffers: Buffers {
                queue: read(wire!(mlx5_ib_create_qp, buf_addr)),
                record: read(wire!(mlx5_ib_create_qp, db_addr)),
            },
            raw_send: read(wire!(mlx5_ib_create_qp, __bindgen_anon_1.sq_buf_addr)),
            send_blocks: read(wire!(mlx5_ib_create_qp, sq_wqe_count)) as u32,
            receives: read(wire!(mlx5_ib_create_qp, rq_wqe_count)) as u32,
            receive_shift: read(wire!(mlx5_ib_create_qp, rq_wqe_shift)) as u32,
            user_index: read(wire!(mlx5_ib_create_qp, uidx)) as u32,
            uar: (flags & by_page != 0).then_some(index),
        })
    }
}

/// Tells a library which doorbell register its QP has. Source: `MLX5_IB_INVALID_BFREG`, bit 31, in
/// ib/mlx5_ib.h says that the library knows.
pub(super) fn answer_create_qp(register: Option<u32>, udata: &mut Udata<'_>) -> Result {
    let mut bytes = [0u8; size_of::<raw::mlx5_ib_create_qp_resp>()];
    put(
        &mut bytes,
        wire!(mlx5_ib_create_qp_resp, bfreg_index),
        register.map_or(1 << 31, place_of_register),
    )?;
    udata.respond_bytes(&bytes)
}

/// Checks what a library sends along with a change of a QP: nothing that the driver offers.
pub(super) fn parse_modify_qp(udata: &Udata<'_>) -> Result {
    use raw::mlx5_ib_modify_qp as Layout;
    if udata.request_len() == 0 {
        return Ok(());
    }
    let request: [u8; size_of::<Layout>()] = udata.request(size_of::<Layout>())?;
    if request.iter().all(|byte| *byte == 0) {
        Ok(())
    } else {
        Err(EOPNOTSUPP)
    }
}

/// The buffers of an SRQ that a library wants, and what CQEs of an XRC SRQ are to name it by. `EINVAL`
/// for signatures.
pub(super) fn parse_create_srq(udata: &Udata<'_>) -> Result<(Buffers, u32)> {
    use raw::mlx5_ib_create_srq as Layout;
    const MINIMUM: usize = wire!(mlx5_ib_create_srq, reserved0).offset();
    let request: [u8; size_of::<Layout>()] = udata.request(MINIMUM)?;
    let read = |member| get::<Layout>(&request, member);
    if read(wire!(mlx5_ib_create_srq, flags)) != 0
        || read(wire!(mlx5_ib_create_srq, reserved0)) != 0
        || read(wire!(mlx5_ib_create_srq, reserved1)) != 0
    {
        return Err(EINVAL);
    }
    let buffers = Buffers {
        queue: read(wire!(mlx5_ib_create_srq, buf_addr)),
        record: read(wire!(mlx5_ib_create_srq, db_addr)),
    };
    // CAST: 32 bits wide.
    Ok((buffers, read(wire!(mlx5_ib_create_srq, uidx)) as u32))
}

/// A receive work queue that a library wants.
pub(super) struct CreateWq {
    pub(super) buffers: Buffers,
    /// WQEs.
    pub(super) count: u32,
    /// log2 of the bytes of a WQE.
    pub(super) shift: u32,
    /// What CQEs are to name the queue by.
    pub(super) user_index: u32,
}

impl CreateWq {
    /// `EOPNOTSUPP` for signatures and strides.
    pub(super) fn parse(udata: &Udata<'_>) -> Result<Self> {
        use raw::mlx5_ib_create_wq as Layout;
        const MINIMUM: usize = wire!(mlx5_ib_create_wq, single_wqe_log_num_of_strides).offset();
        let request: [u8; size_of::<Layout>()] = udata.request(MINIMUM)?;
        let read = |member| get::<Layout>(&request, member);
        if read(wire!(mlx5_ib_create_wq, comp_mask)) != 0
            || read(wire!(mlx5_ib_create_wq, flags)) != 0
        {
            return Err(EOPNOTSUPP);
        }
        // CAST, below: members are 32 bits wide where it is used.
        Ok(Self {
            buffers: Buffers {
                queue: read(wire!(mlx5_ib_create_wq, buf_addr)),
                record: read(wire!(mlx5_ib_create_wq, db_addr)),
            },
            count: read(wire!(mlx5_ib_create_wq, rq_wqe_count)) as u32,
            shift: read(wire!(mlx5_ib_create_wq, rq_wqe_shift)) as u32,
            user_index: read(wire!(mlx5_ib_create_wq, user_index)) as u32,
        })
    }
}

/// Checks what a library sends along with a change of a work queue: a mask and a reserved word, both 0.
pub(super) fn parse_modify_wq(udata: &Udata<'_>) -> Result {
    const LENGTH: usize = size_of::<raw::mlx5_ib_modify_wq>();
    let request: [u8; LENGTH] = udata.request(LENGTH)?;
    match request.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(EOPNOTSUPP),
    }
}

/// Checks that a library sends nothing along. `EOPNOTSUPP` when it does.
pub(super) fn parse_nothing(udata: &Udata<'_>) -> Result {
    udata.request::<[u8; 0]>(0).map(|_| ())
}

/// Length of the answer to the creation of a work queue or of a table of them: its own length and a reserved
/// word (`mlx5_ib_create_wq_resp`, `mlx5_ib_create_rwq_ind_tbl_resp`).
const LENGTH_ANSWER: usize = 8;

/// Checks that there is room for [`answer_length`], or for no answer.
pub(super) fn check_length_answer(udata: &Udata<'_>) -> Result {
    match udata.response_len() {
        0 | LENGTH_ANSWER.. => Ok(()),
        _ => Err(EINVAL),
    }
}

/// Says how long the answer is, if the library wants one: the length itself.
pub(super) fn answer_length(udata: &mut Udata<'_>) -> Result {
    if udata.response_len() == 0 {
        return Ok(());
    }
    let mut bytes = [0u8; LENGTH_ANSWER];
    if let Some(length) = bytes.first_chunk_mut::<4>() {
        *length = 4u32.to_ne_bytes();
    }
    udata.respond_bytes(&bytes)
}

/// Fields of a packet that a library wants hashed. Source: `enum mlx5_rx_hash_fields`.
pub(super) mod hash {
    pub(in crate::ib) const SRC_IPV4: u32 = 1 << 0;
    pub(in crate::ib) const DST_IPV4: u32 = 1 << 1;
    pub(in crate::ib) const SRC_IPV6: u32 = 1 << 2;
    pub(in crate::ib) const DST_IPV6: u32 = 1 << 3;
    pub(in crate::ib) const SRC_PORT_TCP: u32 = 1 << 4;
    pub(in crate::ib) const DST_PORT_TCP: u32 = 1 << 5;
    pub(in crate::ib) const SRC_PORT_UDP: u32 = 1 << 6;
    pub(in crate::ib) const DST_PORT_UDP: u32 = 1 << 7;
}

/// The Toeplitz hash. Source: `enum mlx5_rx_hash_function_flags`.
const TOEPLITZ: u64 = 1;

/// How a QP without queues spreads frames over a table.
pub(super) struct CreateRss {
    /// Of [`hash`]; not checked.
    pub(super) fields: u64,
    /// The key of the Toeplitz hash.
    pub(super) key: [u8; 40],
}

impl CreateRss {
    /// `EINVAL` for another length of the key and for flags, `EOPNOTSUPP` for another function.
    pub(super) fn parse(udata: &Udata<'_>) -> Result<Self> {
        use raw::mlx5_ib_create_qp_rss as Layout;
        const KEY: usize = core::mem::offset_of!(Layout, rx_hash_key);
        if udata.response_len() < size_of::<u32>() {
            return Err(EINVAL);
        }
        let request: [u8; size_of::<Layout>()] = udata.request(size_of::<Layout>())?;
        let read = |member| get::<Layout>(&request, member);
        if read(wire!(mlx5_ib_create_qp_rss, flags)) != 0 {
            return Err(EINVAL);
        }
        if read(wire!(mlx5_ib_create_qp_rss, comp_mask)) != 0
            || read(wire!(mlx5_ib_create_qp_rss, rx_hash_function)) != TOEPLITZ
        {
            return Err(EOPNOTSUPP);
        }
        let key = request.get(KEY..).and_then(|bytes| bytes.first_chunk());
        let key = *key.ok_or(EINVAL)?;
        if read(wire!(mlx5_ib_create_qp_rss, rx_key_len)) != key.len() as u64 {
            return Err(EINVAL);
        }
        Ok(Self {
            fields: read(wire!(mlx5_ib_create_qp_rss, rx_hash_fields_mask)),
            key,
        })
    }
}

/// Answers the creation of a QP that rings nothing.
pub(super) fn answer_create_rss(udata: &mut Udata<'_>) -> Result {
    udata.respond_bytes(&[0u8; size_of::<raw::mlx5_ib_create_qp_resp>()])
}

/// Checks what a library sends along with a flow rule: no data for counters. `EOPNOTSUPP` for some.
pub(super) fn parse_create_flow(udata: &Udata<'_>) -> Result {
    // Number of counters, and a reserved word (`mlx5_ib_create_flow`).
    const HEAD: usize = 8;
    match udata.request_len() {
        0 => return Ok(()),
        1..HEAD => return Err(EOPNOTSUPP),
        _ => (),
    }
    let request: [u8; HEAD] = udata.request(HEAD)?;
    match request.iter().take(4).all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(EOPNOTSUPP),
    }
}

/// How many pieces of memory a window is to have; 0: one. `EOPNOTSUPP` for what is reserved.
pub(super) fn parse_alloc_mw(udata: &Udata<'_>) -> Result<u8> {
    use raw::mlx5_ib_alloc_mw as Layout;
    // The library sends nothing for a window of one piece.
    if udata.request_len() == 0 {
        return Ok(1);
    }
    let request: [u8; size_of::<Layout>()] = udata.request(size_of::<Layout>())?;
    let read = |member| get::<Layout>(&request, member);
    if read(wire!(mlx5_ib_alloc_mw, comp_mask)) != 0
        || read(wire!(mlx5_ib_alloc_mw, reserved1)) != 0
        || read(wire!(mlx5_ib_alloc_mw, reserved2)) != 0
    {
        return Err(EOPNOTSUPP);
    }
    // CAST: 8 bits wide.
    Ok(read(wire!(mlx5_ib_alloc_mw, num_klms)) as u8)
}

/// Answers the creation of a window: a mask without bits and the length of the answer, where there is
/// room for both.
pub(super) fn answer_alloc_mw(udata: &mut Udata<'_>) -> Result {
    const RESPONSE: usize = 8;
    if udata.response_len() < RESPONSE {
        return Ok(());
    }
    let mut bytes = [0u8; RESPONSE];
    if let Some(length) = bytes.last_chunk_mut::<4>() {
        // CAST: 8.
        *length = (RESPONSE as u32).to_ne_bytes();
    }
    udata.respond_bytes(&bytes)
}

/// Answers the creation of a CQ (`mlx5_ib_create_cq_resp`), an SRQ or a domain: all begin with the
/// number, and what follows is reserved.
pub(super) fn answer_number(number: u32, udata: &mut Udata<'_>) -> Result {
    udata.respond_bytes(&number.to_ne_bytes())
}

/// Answers the creation of an address handle: the Ethernet address that the kernel found. `EINVAL`
/// when there is no room for it.
pub(super) fn answer_create_ah(mac: [u8; 6], udata: &mut Udata<'_>) -> Result {
    const END: usize = core::mem::offset_of!(raw::mlx5_ib_create_ah_resp, reserved);
    const MAC: usize = core::mem::offset_of!(raw::mlx5_ib_create_ah_resp, dmac);
    if udata.response_len() < END {
        return Err(EINVAL);
    }
    let mut bytes = [0u8; size_of::<raw::mlx5_ib_create_ah_resp>()];
    // CAST: 10.
    let length = END as u32;
    put(
        &mut bytes,
        wire!(mlx5_ib_create_ah_resp, response_length),
        length,
    )?;
    bytes
        .get_mut(MAC..MAC + mac.len())
        .ok_or(EINVAL)?
        .copy_from_slice(&mac);
    udata.respond_bytes(&bytes)
}
