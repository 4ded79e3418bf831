// SPDX-License-Identifier: GPL-2.0
//! What libmlx5 asks by methods of its own: doorbell pages one by one, and what one process has to know about objects
//! of another. Source: include/uapi/rdma/mlx5_user_ioctl_cmds.h and mlx5_user_ioctl_verbs.h.

use kernel::prelude::*;
use kernel_ext::rdma::{
    Attribute,
    Cache,
    Call,
    Context,
    ContextAnswer,
    Definition,
    DeviceMethod,
    ObjectNumbers,
    PageMethods,
    Pd,
    PdMethod,
    Place, //
};
use mlx5_hw::{
    raw,
    wire, //
};

use super::{
    context::UserContext,
    doorbell::AskedPage,
    matcher::{
        ByMatcher,
        Matcher, //
    },
    Data,
    Domain,
    Verbs,
    PORT, //
};

/// Everything here.
pub(super) const DEFINITIONS: &[Definition<Verbs>] = &[
    Definition::query_context::<ContextAgain>(),
    Definition::pd_method::<QueryPd>(),
    Definition::device_method::<QueryPort>(),
    Definition::pages::<Uar>(),
    Definition::object::<Matcher>(),
    Definition::rules::<ByMatcher>(),
    Definition::END,
];

// CAST, below: numbers of objects, methods and attributes have 16 bits.

/// QUERY_CONTEXT: what ALLOC_UCONTEXT has answered.
pub(super) struct ContextAgain;

impl ContextAgain {
    const RESPONSE: u16 = raw::MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX as u16;
}

impl ContextAnswer for ContextAgain {
    const ATTRIBUTE: Attribute = Attribute::answer_in_part::<raw::mlx5_ib_alloc_ucontext_resp>(
        Self::RESPONSE,
        wire!(mlx5_ib_alloc_ucontext_resp, dump_fill_mkey).offset() + size_of::<u32>(),
    );
}

/// Answers it. `EIO` for a context of an earlier generation.
pub(super) fn query_context(
    data: &Data,
    context: Context<'_, UserContext>,
    call: &mut Call<'_>,
) -> Result {
    let context = context.payload();
    context.home()?;
    let answer = context.answer(data, call.room(ContextAgain::RESPONSE)?)?;
    call.answer_in_part(ContextAgain::RESPONSE, &answer)
}

/// PD_QUERY: the number of a domain on the device.
struct QueryPd;

impl QueryPd {
    const NUMBER: u16 = raw::MLX5_IB_ATTR_QUERY_PD_RESP_PDN as u16;
}

impl PdMethod<Verbs> for QueryPd {
    const METHOD: u16 = raw::MLX5_IB_METHOD_PD_QUERY as u16;
    const HANDLE: u16 = raw::MLX5_IB_ATTR_QUERY_PD_HANDLE as u16;
    const ATTRIBUTES: &'static [Attribute] = &[Attribute::answer::<u32>(Self::NUMBER)];

    fn call(_data: &Data, pd: Pd<'_, Domain>, call: &mut Call<'_>) -> Result {
        call.answer(Self::NUMBER, &pd.payload().number()?)
    }
}

/// QUERY_PORT: what switches know a port by.
struct QueryPort;

impl QueryPort {
    const PORT: u16 = raw::MLX5_IB_ATTR_QUERY_PORT_PORT_NUM as u16;
    const ANSWER: u16 = raw::MLX5_IB_ATTR_QUERY_PORT as u16;
    const LENGTH: usize = size_of::<raw::mlx5_ib_uapi_query_port>();
}

impl DeviceMethod<Verbs> for QueryPort {
    const METHOD: u16 = raw::MLX5_IB_METHOD_QUERY_PORT as u16;
    const FIRST: Attribute = Attribute::value::<u32>(Self::PORT);
    const REST: &'static [Attribute] =
        &[Attribute::answer_in_part::<raw::mlx5_ib_uapi_query_port>(
            Self::ANSWER,
            Self::LENGTH,
        )];

    /// `EINVAL` for a port that there is not, `EIO` for a context of an earlier generation. The answer has a flag for each
    /// member that means something, and nothing does on a card that is no switch of the host's: the driver does not make
    /// it one. Source: ib/std_types.c.
    fn call(_data: &Data, context: Context<'_, UserContext>, call: &mut Call<'_>) -> Result {
        if call.read::<u32>(Self::PORT)? != PORT {
            return Err(EINVAL);
        }
        context.payload().home()?;
        call.answer_in_part(Self::ANSWER, &[0; Self::LENGTH])
    }
}

/// UAR: a doorbell page.
struct Uar;

impl Uar {
    const TYPE: u16 = raw::MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE as u16;
    const OFFSET: u16 = raw::MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET as u16;
    const LENGTH: u16 = raw::MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH as u16;
    const INDEX: u16 = raw::MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID as u16;
}

impl ObjectNumbers for Uar {
    const OBJECT: u16 = raw::MLX5_IB_OBJECT_UAR as u16;
    const CREATE: u16 = raw::MLX5_IB_METHOD_UAR_OBJ_ALLOC as u16;
    const NEW: u16 = raw::MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE as u16;
    const ATTRIBUTES: &'static [Attribute] = &[
        Attribute::number(Self::TYPE),
        Attribute::answer::<u64>(Self::OFFSET),
        Attribute::answer::<u32>(Self::LENGTH),
        Attribute::answer::<u32>(Self::INDEX),
    ];
    const DESTROY: u16 = raw::MLX5_IB_METHOD_UAR_OBJ_DESTROY as u16;
    const OLD: u16 = raw::MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE as u16;
}

impl PageMethods<Verbs> for Uar {
    /// `EOPNOTSUPP` for an unknown type, and for BlueFlame where writes are not combined; `ENOMEM` when there are no more
    /// pages.
    fn create(
        data: &Data,
        context: Context<'_, UserContext>,
        call: &mut Call<'_>,
    ) -> Result<AskedPage> {
        let cache = match call.number(Self::TYPE)? {
            raw::MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF if data.device.blue_flame() => {
                Cache::WriteCombining
            }
            raw::MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC => Cache::Uncached,
            _ => return Err(EOPNOTSUPP),
        };
        context.payload().ask_for_page(cache)
    }

    fn answer(asked: &AskedPage, place: Place, call: &mut Call<'_>) -> Result {
        call.answer(Self::OFFSET, &place.offset)?;
        call.answer(Self::INDEX, &asked.page().index())?;
        call.answer(Self::LENGTH, &place.length)
    }
}
