// SPDX-License-Identifier: GPL-2.0
//! Flow rules by matchers: user space lays fields out as the card does. A matcher says which fields count, and a rule of
//! it which values they have. The card judges which fields it can compare, when there is a rule.
//!
//! Source: `MLX5_IB_METHOD_FLOW_MATCHER_CREATE`, `MLX5_IB_METHOD_CREATE_FLOW`, `get_dests`, `raw_fs_rule_add` and
//! `raw_fs_is_multicast` in ib/fs.c; include/uapi/rdma/mlx5_user_ioctl_cmds.h.

use kernel::prelude::*;
use kernel_ext::rdma::{
    Attribute,
    Call,
    Choice,
    Context,
    Held,
    ObjectMethods,
    ObjectNumbers,
    Qp,
    RuleMethods, //
};
use mlx5_hw::{
    field,
    raw,
    span, //
};

use super::{
    context::UserContext,
    qp::Pair,
    rule::{
        self,
        UserRule,
        GROUPS, //
    },
    Data,
    Verbs, //
};
use crate::net::{
    entrance::{
        Effect,
        Pattern, //
    },
    headers::{
        Fields,
        Headers, //
    }, //
};

// CAST, below: numbers of objects, methods and attributes have 16 bits.

/// Most bytes of a mask, and of values: `struct mlx5_ib_match_params`.
const MOST: u16 = size_of::<raw::mlx5_ib_match_params>() as u16;
/// `IB_FLOW_ATTR_FLAGS_EGRESS`.
const EGRESS: u32 = 1 << 2;
/// Tags have 24 bits.
const LAST_TAG: u32 = 0xff_ffff;

/// Which fields count, of which packets.
pub(super) struct Matcher {
    mask: Fields,
    /// `MLX5_MATCH_*`.
    criteria: u8,
    /// `mlx5_ib_flow_type`.
    kind: u8,
    /// 0 for kinds that have none.
    priority: u16,
    /// `mlx5_ib_uapi_flow_table_type`.
    table: u32,
}

impl Matcher {
    const MASK: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK as u16;
    const KIND: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE as u16;
    const CRITERIA: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA as u16;
    const FLAGS: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS as u16;
    const TABLE: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE as u16;
    const PORT: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_IB_PORT as u16;
    /// In the order of `mlx5_ib_flow_type`; only the first has a priority.
    const KINDS: &'static [Choice] = &[
        Choice::value::<u16>(),
        Choice::NOTHING,
        Choice::NOTHING,
        Choice::NOTHING,
    ];

    /// The table that user space means.
    fn table(data: &Data, call: &Call<'_>) -> Result<u32> {
        let table = match (call.has(Self::TABLE), call.has(Self::FLAGS)) {
            (true, true) => return Err(EINVAL),
            (true, false) => call.number(Self::TABLE)?,
            (false, _) if call.flags(Self::FLAGS, EGRESS)? != 0 => {
                raw::MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX
            }
            (false, _) => raw::MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX,
        };
        match table {
            // There is no switch between functions.
            raw::MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB => {
                data.complain(fmt!(
                    "flow matcher: there is no switch, thus no table of it"
                ));
                Err(EINVAL)
            }
            ..=raw::MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX => Ok(table),
            _ => Err(EINVAL),
        }
    }

    /// Whether only frames to groups can match. An IP address counts if its mask looks like that of a group itself: so
    /// the C driver has it.
    fn is_for_groups(&self, values: &Fields) -> Result<bool> {
        if u32::from(self.criteria) & raw::MLX5_MATCH_OUTER_HEADERS == 0 {
            return Ok(false);
        }
        let group = |headers: &Headers| {
            let outer = headers.outer()?;
            let mac = outer.get(field!(fte_match_set_lyr_2_4, dmac_47_16)) >> 24 & 1 != 0;
            let ip = outer.raw(span!(fte_match_set_lyr_2_4, dst_ipv4_dst_ipv6));
            let ip = ip.get(12).is_some_and(|byte| byte & 0xf0 == 0xe0);
            Ok::<_, Error>((mac, ip))
        };
        let (mask, value) = (group(&self.mask.headers())?, group(&values.headers())?);
        Ok(mask.0 && value.0 || mask.1 && value.1)
    }

    /// What the card compares.
    fn pattern(&self, data: &Data, values: Fields) -> Result<Pattern> {
        let band = match self.is_for_groups(&values)? {
            true => GROUPS,
            false => u8::try_from(self.priority)?,
        };
        let mask = Fields::new(self.mask.bytes())?;
        rule::checked(data, band, self.criteria, mask, values)
    }

    /// `EOPNOTSUPP` for what rules cannot be made of.
    fn check(&self, data: &Data) -> Result {
        if u32::from(self.kind) != raw::MLX5_IB_FLOW_TYPE_NORMAL {
            data.complain(fmt!("flow rule: kind {} is not supported", self.kind));
            return Err(EOPNOTSUPP);
        }
        rule::check_priority(data, self.priority)?;
        if self.table != raw::MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX {
            let table = self.table;
            data.complain(fmt!(
                "flow rule: table {table}, there are only rules for received Ethernet frames"
            ));
            return Err(EOPNOTSUPP);
        }
        Ok(())
    }
}

impl ObjectNumbers for Matcher {
    const OBJECT: u16 = raw::MLX5_IB_OBJECT_FLOW_MATCHER as u16;
    const CREATE: u16 = raw::MLX5_IB_METHOD_FLOW_MATCHER_CREATE as u16;
    const NEW: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE as u16;
    const ATTRIBUTES: &'static [Attribute] = &[
        Attribute::bytes(Self::MASK, MOST),
        Attribute::choice(Self::KIND, Self::KINDS),
        Attribute::value::<u8>(Self::CRITERIA),
        Attribute::flags(Self::FLAGS),
        Attribute::optional_number(Self::TABLE),
        Attribute::optional_value::<u32>(Self::PORT),
    ];
    const DESTROY: u16 = raw::MLX5_IB_METHOD_FLOW_MATCHER_DESTROY as u16;
    const OLD: u16 = raw::MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE as u16;
}

impl ObjectMethods<Verbs> for Matcher {
    /// Nothing is on the card before there is a rule. `EIO` for a context of an earlier generation.
    fn create(data: &Data, context: Context<'_, UserContext>, call: &mut Call<'_>) -> Result<Self> {
        context.payload().home()?;
        let kind = call.choice(Self::KIND)?;
        let priority = match u32::from(kind) {
            raw::MLX5_IB_FLOW_TYPE_NORMAL => call.read(Self::KIND)?,
            _ => 0,
        };
        let matcher = Self {
            mask: Fields::new(call.bytes(Self::MASK)?)?,
            criteria: call.read(Self::CRITERIA)?,
            kind,
            priority,
            table: Self::table(data, call)?,
        };
        // Only the tables behind RDMA transport are of a port, and they are not for everybody.
        if call.has(Self::PORT) {
            let port: u32 = call.read(Self::PORT)?;
            return Err(match matcher.table {
                raw::MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX
                | raw::MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX
                    if port == 1 =>
                {
                    EOPNOTSUPP
                }
                _ => EINVAL,
            });
        }
        Ok(matcher)
    }
}

/// Rules by matchers.
pub(super) struct ByMatcher;

impl ByMatcher {
    const VALUE: u16 = raw::MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE as u16;
    const TAG: u16 = raw::MLX5_IB_ATTR_CREATE_FLOW_TAG as u16;
    const FLAGS: u16 = raw::MLX5_IB_ATTR_CREATE_FLOW_FLAGS as u16;

    /// Where frames go, and what their completions show; `None` when user space does not say where.
    fn effect(data: &Data, qp: Option<Qp<'_, Pair>>, call: &Call<'_>) -> Result<Option<Effect>> {
        const MISS: u32 = raw::MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS;
        const DROP: u32 = raw::MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP;

        let flags = call.flags(Self::FLAGS, MISS | DROP).map_err(|_| EINVAL)?;
        let tir = match (qp, flags) {
            (Some(qp), 0) => Some(qp.payload().tir()?),
            (None, DROP) => None,
            (None, MISS) => {
                data.complain(fmt!("flow rule: to pass frames on is not supported"));
                return Err(EOPNOTSUPP);
            }
            (None, 0) => return Ok(None),
            _ => return Err(EINVAL),
        };
        let tag = match call.has(Self::TAG) {
            true => Some(call.read(Self::TAG)?),
            false => None,
        };
        if tag.is_some_and(|tag| tag > LAST_TAG) {
            return Err(EINVAL);
        }
        Ok(Some(Effect { tir, tag }))
    }
}

impl RuleMethods<Verbs> for ByMatcher {
    type From = Matcher;

    const CREATE: u16 = raw::MLX5_IB_METHOD_CREATE_FLOW as u16;
    const NEW: u16 = raw::MLX5_IB_ATTR_CREATE_FLOW_HANDLE as u16;
    const FROM: u16 = raw::MLX5_IB_ATTR_CREATE_FLOW_MATCHER as u16;
    const QP: u16 = raw::MLX5_IB_ATTR_CREATE_FLOW_DEST_QP as u16;
    const ATTRIBUTES: &'static [Attribute] = &[
        Attribute::bytes(Self::VALUE, MOST),
        Attribute::optional_value::<u32>(Self::TAG),
        Attribute::flags(Self::FLAGS),
    ];
    const DESTROY: u16 = raw::MLX5_IB_METHOD_DESTROY_FLOW as u16;
    const OLD: u16 = raw::MLX5_IB_ATTR_DESTROY_FLOW_HANDLE as u16;

    /// `EIO` for a context of an earlier generation.
    fn create(
        data: &Data,
        context: Context<'_, UserContext>,
        matcher: Held<Matcher>,
        qp: Option<Qp<'_, Pair>>,
        call: &mut Call<'_>,
    ) -> Result<UserRule> {
        let context = context.payload();
        let home = context.home()?;
        let effect = Self::effect(data, qp, call)?;
        matcher.check(data)?;
        let effect = effect.ok_or(EINVAL)?;
        let values = Fields::new(call.bytes(Self::VALUE)?)?;
        let rule = data
            .entrance
            .add(home, effect, |_| matcher.pattern(data, values))?;
        Ok(UserRule::new(rule, Some(matcher)))
    }
}
