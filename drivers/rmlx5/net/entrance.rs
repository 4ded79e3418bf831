// SPDX-License-Identifier: GPL-2.0
//! Where received frames come in: first to the rules of users, if there are any, then to the interface.
//!
//! ```text
//! level 0 (root while there are rules): rules of users, by priority  ->  a TIR
//! level 1 (root otherwise): the interface's, see [`super::steering`]
//! ```
//!
//! The table of users is there while it has a rule, see [`super::rules`]. It has a band of places for each priority; of
//! all rules that match, that in the lowest place takes the frame.
//!
//! Source: `mlx5_ib_create_flow` in ib/fs.c. The namespaces of core/fs_core.c make the order: bypass before kernel.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mlx5_hw::{
    field,
    field::Ref,
    ifc, //
};

pub(crate) use super::rules::{
    Effect,
    Pattern, //
};
use super::{
    flow::{
        self,
        Table, //
    },
    places::LOG_BANDS,
    rules::Rules, //
};
use crate::{
    caps::{
        self,
        QueryHcaCap,
        Which, //
    },
    home::Home,
};

/// Level of the table of users; the interface begins at the next one.
const LEVEL: u8 = 0;
/// log2 of the places of the table, if the card allows as many (`MLX5_FS_MAX_ENTRIES`).
const LOG_PLACES: u8 = 16;

/// What the card can do for rules of users.
#[derive(Clone, Copy)]
pub(crate) struct RuleCaps {
    /// Rules can look at the version of IP; otherwise at the EtherType.
    pub(crate) ip_version: bool,
    log_places: u8,
}

impl RuleCaps {
    /// `EOPNOTSUPP` when the card cannot put a table before that of the interface. Sleeps.
    fn read(home: &Home) -> Result<Self> {
        let bytes = home.cmd().exec(&QueryHcaCap {
            group: caps::Group::NicFlowTable,
            which: Which::Current,
        })?;
        let all = Ref::<ifc::flow_table_nic_cap>::new(&bytes).ok_or(EPROTO)?;
        macro_rules! property {
            ($($member:tt)+) => {
                all.get(field!(flow_table_nic_cap, flow_table_properties_nic_receive.$($member)+))
            };
        }
        let chains = property!(modify_root) != 0
            && property!(identified_miss_table_mode) != 0
            && property!(flow_table_modify) != 0
            && property!(flow_modify_en) != 0;
        let log_places = property!(log_max_ft_size).min(LOG_PLACES.into());
        if property!(ft_support) == 0 || !chains || log_places < LOG_BANDS.into() {
            return Err(EOPNOTSUPP);
        }
        Ok(Self {
            ip_version: property!(ft_field_support.outer_ip_version) != 0,
            // CAST: at most 16.
            log_places: log_places as u8,
        })
    }
}

/// The table of users, and what its card can do.
struct Users {
    rules: Rules,
    caps: RuleCaps,
    home: Home,
}

struct Inner {
    users: Option<Users>,
    /// The first table of the interface.
    interface: Option<(u32, Home)>,
    /// Id of the next rule.
    next: u64,
}

impl Inner {
    /// The interface's first table in the generation of `home`.
    fn interface(&self) -> Option<u32> {
        let (table, home) = self.interface.as_ref()?;
        home.is_current().then_some(*table)
    }

    /// What the card can do. What is of an earlier generation is forgotten: it is gone from the card.
    fn caps(&mut self, home: &Home) -> Result<RuleCaps> {
        if self
            .users
            .as_ref()
            .is_some_and(|users| !users.home.is_current())
        {
            self.users = None;
        }
        match &self.users {
            Some(users) => Ok(users.caps),
            None => RuleCaps::read(home),
        }
    }

    /// The table of users, made if there is none.
    fn users(&mut self, home: &Home, caps: RuleCaps) -> Result<&mut Users> {
        if self.users.is_none() {
            let rules = Rules::new(home, LEVEL, caps.log_places)?;
            rules.table().set_miss(self.interface())?;
            rules.table().make_root()?;
            self.users = Some(Users {
                rules,
                caps,
                home: home.clone(),
            });
        }
        self.users.as_mut().ok_or(EINVAL)
    }

    /// Frames come to the interface at once when users have no rule any more.
    fn tidy(&mut self) {
        let Some(users) = self.users.as_ref().filter(|users| users.rules.is_empty()) else {
            return;
        };
        let led = match self.interface() {
            Some(table) if users.home.is_current() => flow::set_root(&users.home, table),
            _ => Ok(()),
        };
        // A table that stays the root stays, and serves the next rule.
        if led.is_ok() {
            self.users = None;
        }
    }
}

/// The entrance of a card, for as long as it is bound.
#[pin_data]
pub(crate) struct Entrance {
    /// Held while a command is under way.
    #[pin]
    inner: Mutex<Inner>,
}

impl Entrance {
    /// Nothing comes in yet.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_mutex!(Inner {
                    users: None,
                    interface: None,
                    next: 0,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Frames that are no user's come to `table` from now on. Sleeps.
    pub(super) fn lead(self: &Arc<Self>, home: &Home, table: &Table) -> Result<Door> {
        let mut inner = self.inner.lock();
        match inner.users.as_ref().filter(|users| users.home.is_current()) {
            Some(users) => users.rules.table().set_miss(Some(table.number()))?,
            None => table.make_root()?,
        }
        inner.interface = Some((table.number(), home.clone()));
        drop(inner);
        Ok(Door {
            entrance: self.clone(),
            home: home.clone(),
        })
    }

    /// `effect` is what happens to frames that match from now on. `pattern` is told what the card can do. Sleeps.
    /// `EOPNOTSUPP` when the card has no room before the interface, `ENOSPC` when there are too many rules of
    /// that priority, `EEXIST` when there is a rule for the same frames that says something else.
    pub(crate) fn add(
        self: &Arc<Self>,
        home: &Home,
        effect: Effect,
        pattern: impl FnOnce(&RuleCaps) -> Result<Pattern>,
    ) -> Result<Rule> {
        let mut inner = self.inner.lock();
        // Here, since who waited for the lock may have waited through a reset.
        home.alive()?;
        let id = inner.next;
        let caps = inner.caps(home)?;
        let pattern = pattern(&caps)?;
        let band = pattern.band;
        let added = inner
            .users(home, caps)
            .and_then(|users| users.rules.add(pattern, id, effect));
        // There may be a table without a rule now.
        inner.tidy();
        added?;
        inner.next = id.wrapping_add(1);
        drop(inner);
        Ok(Rule {
            entrance: self.clone(),
            home: home.clone(),
            band,
            id,
        })
    }
}

/// The interface's way in; frames do not come to it any more when this is dropped.
pub(super) struct Door {
    entrance: Arc<Entrance>,
    home: Home,
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut inner = self.entrance.inner.lock();
        if !self.home.is_current() && inner.interface().is_some() {
            // The interface of this generation has another one.
            return;
        }
        inner.interface = None;
        if !self.home.reaches() {
            return;
        }
        if let Some(users) = inner.users.as_ref().filter(|users| users.home.is_current()) {
            // An answer is not needed: the card keeps a table that it still needs, and says so.
            let _ = users.rules.table().set_miss(None);
        }
    }
}

/// A rule of a user; gone when dropped. Its TIR goes after it.
pub(crate) struct Rule {
    entrance: Arc<Entrance>,
    home: Home,
    band: u8,
    id: u64,
}

impl Drop for Rule {
    fn drop(&mut self) {
        // Rules of an earlier generation are gone already.
        if !self.home.is_current() {
            return;
        }
        let mut inner = self.entrance.inner.lock();
        if let Some(users) = inner.users.as_mut() {
            users.rules.remove(self.band, self.id);
        }
        inner.tidy();
    }
}
