// SPDX-License-Identifier: GPL-2.0
//! What all flow rules of users have in common, whichever way they are made.

use kernel::prelude::*;
use kernel_ext::rdma::Held;

use super::{
    matcher::Matcher,
    Data, //
};
use crate::net::{
    entrance::{
        Pattern,
        Rule, //
    },
    headers::Fields, //
};

/// Priorities that users have. Source: `MLX5_IB_FLOW_LAST_PRIO`, `MLX5_BY_PASS_NUM_REGULAR_PRIOS`.
pub(super) const PRIORITIES: u16 = 16;
/// Rules for groups only come after all others, whatever their priority says (`MLX5_IB_FLOW_MCAST_PRIO`).
pub(super) const GROUPS: u8 = 16;

/// `EINVAL` when a value could not match.
pub(super) fn checked(
    data: &Data,
    band: u8,
    criteria: u8,
    mask: Fields,
    values: Fields,
) -> Result<Pattern> {
    if !values.is_within(&mask) {
        data.complain(fmt!("flow rule: a value has bits that its mask has not"));
        return Err(EINVAL);
    }
    Ok(Pattern {
        band,
        criteria,
        mask,
        values,
    })
}

/// `ENOMEM`, which is not what one would expect but what the C driver says, for a priority that there is not.
pub(super) fn check_priority(data: &Data, priority: u16) -> Result {
    if priority >= PRIORITIES {
        let last = PRIORITIES - 1;
        data.complain(fmt!("flow rule: priority {priority}, the limit is {last}"));
        return Err(ENOMEM);
    }
    Ok(())
}

/// The driver's part of a rule: what is on the card goes before the matcher that it was made of may go.
pub(crate) struct UserRule {
    _rule: Rule,
    _matcher: Option<Held<Matcher>>,
}

impl UserRule {
    pub(super) fn new(rule: Rule, matcher: Option<Held<Matcher>>) -> Self {
        Self {
            _rule: rule,
            _matcher: matcher,
        }
    }
}
