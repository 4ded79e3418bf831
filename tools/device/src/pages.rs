// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Firmware pages: 4 KiB pages that the host lends to the card.
//!
//! Every page is accounted for. Pages given are remembered one by one, and exactly those go back.
//! What the objects need is their footprint, rounded up to pages, on top of what boot and INIT_HCA
//! took. Source: core/pagealloc.c.

use std::collections::BTreeSet;

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Needs, Refused},
    hca::{Hca, Phase},
    refuse,
};

const PAGE: u64 = 4096;

/// QUERY_PAGES and MANAGE_PAGES modifiers.
const BOOT: u16 = 1;
const INIT: u16 = 2;
const REGULAR: u16 = 3;
const CANNOT_GIVE: u16 = 0;
const GIVE: u16 = 1;
const TAKE: u16 = 2;

/// The account.
#[derive(Debug, Default)]
pub struct Pages {
    owned: BTreeSet<u64>,
    /// Asked for and neither given nor refused yet.
    asked: u64,
    /// Offered back by an event and not taken yet.
    offered: u64,
    /// The host has just said that it cannot give: commands that wait are refused.
    refusing: bool,
    /// Pages came or were refused since commands that wait were last tried.
    changed: bool,
}

impl Pages {
    /// The account after TEARDOWN_HCA: nothing is asked for any more.
    pub fn after_teardown(self) -> Self {
        Self {
            owned: self.owned,
            // Commands that still wait for pages get their refusal.
            changed: true,
            ..Self::default()
        }
    }

    /// Whether commands that wait are to be tried again; asks once.
    pub fn changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Pages that the card holds.
    pub fn given(&self) -> u64 {
        self.owned.len() as u64
    }
}

impl Hca {
    /// Pages of boot and INIT_HCA that no object can use.
    fn pages_fixed(&self) -> u64 {
        let pages = &self.env.profile.pages;
        match self.phase {
            Phase::Initialized => {
                u64::from((pages.boot + pages.init).saturating_sub(pages.reserve))
            }
            Phase::Off | Phase::Enabled => 0,
        }
    }

    /// Pages that must stay for what lives now, with `bytes` more.
    fn pages_needed(&self, bytes: u64) -> u64 {
        self.pages_fixed() + self.footprint().saturating_add(bytes).div_ceil(PAGE)
    }

    /// Pages that must stay for what lives now.
    pub fn pages_used(&self) -> u64 {
        self.pages_needed(0)
    }

    /// Whether `bytes` more fit into the pages given.
    pub fn pages_for(&self, bytes: u64) -> bool {
        self.pages_needed(bytes) <= self.pages.given()
    }

    /// Asks the host for what `bytes` more need. False when it cannot be asked or has refused.
    pub fn request_pages_for(&mut self, bytes: u64) -> bool {
        if self.pages.refusing || self.eq_of(raw::MLX5_EVENT_TYPE_PAGE_REQUEST).is_none() {
            return false;
        }
        let missing = self.pages_needed(bytes).saturating_sub(self.pages.given());
        let batch = u64::from(self.env.profile.pages.batch);
        if let Some(more) = missing
            .checked_sub(self.pages.asked)
            .filter(|more| *more > 0)
        {
            self.ask(more.max(batch));
        }
        true
    }

    /// Keeps a few pages free and offers many free ones back. Called after each command.
    pub fn balance_pages(&mut self) {
        let listens = self.eq_of(raw::MLX5_EVENT_TYPE_PAGE_REQUEST).is_some();
        if self.phase != Phase::Initialized || !listens || self.pages.refusing {
            return;
        }
        let pages = &self.env.profile.pages;
        let (batch, spare) = (u64::from(pages.batch), u64::from(pages.spare));
        let free = self.pages.given().saturating_sub(self.pages_used());
        if free < batch / 4 && self.pages.asked == 0 {
            self.ask(batch);
        } else if free > spare && self.pages.offered == 0 && self.pages.asked == 0 {
            self.pages.offered = free - spare;
            // CAST: a u16 function and a signed count; the host gave these pages, so few.
            self.page_event(-((free - spare) as i32));
        }
    }

    fn ask(&mut self, count: u64) {
        self.pages.asked += count;
        // CAST: bounded by the footprint of one command and the batch.
        self.page_event(count as i32);
    }

    fn page_event(&mut self, count: i32) {
        let mut data = [0; 28];
        data[4..8].copy_from_slice(&count.to_be_bytes());
        self.async_event(raw::MLX5_EVENT_TYPE_PAGE_REQUEST, 0, &data);
    }
}

/// QUERY_PAGES.
pub struct QueryPages;

impl Command for QueryPages {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_PAGES;
    type In = ifc::query_pages_in;
    type Out = ifc::query_pages_out;
    const NEEDS: Needs = Needs::Enabled;

    fn op_mod(op_mod: u16) -> bool {
        matches!(op_mod, BOOT | INIT | REGULAR)
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.flag(field!(query_pages_in, embedded_cpu_function))
            || input.flag(field!(query_pages_in, function_id))
        {
            refuse!(BadParam, 1, "pages of another function");
        }
        let pages = &hca.env.profile.pages;
        let (boot, init) = (u64::from(pages.boot), u64::from(pages.init));
        // CAST: the constants of the interface fit.
        let wanted = match input.get(field!(query_pages_in, op_mod)) as u16 {
            BOOT => boot,
            INIT => boot + init,
            _ => hca.pages_used(),
        };
        let missing = wanted.saturating_sub(hca.pages.given());
        hca.pages.asked = hca.pages.asked.max(missing);
        output.set(field!(query_pages_out, num_pages), missing);
        Ok(())
    }
}

/// MANAGE_PAGES.
pub struct ManagePages;

impl Command for ManagePages {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MANAGE_PAGES;
    type In = ifc::manage_pages_in;
    type Out = ifc::manage_pages_out;
    const NEEDS: Needs = Needs::Enabled;

    fn op_mod(op_mod: u16) -> bool {
        matches!(op_mod, CANNOT_GIVE | GIVE | TAKE)
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.flag(field!(manage_pages_in, embedded_cpu_function))
            || input.flag(field!(manage_pages_in, function_id))
        {
            refuse!(BadParam, 1, "pages of another function");
        }
        let count = input.get(field!(manage_pages_in, input_num_entries));
        // CAST: the constants of the interface fit.
        match input.get(field!(manage_pages_in, op_mod)) as u16 {
            GIVE => give(hca, count, input.raw(span!(manage_pages_in, pas))),
            TAKE => take(hca, count, output),
            _ => {
                hca.pages.asked = 0;
                hca.pages.refusing = true;
                hca.pages.changed = true;
                Ok(())
            }
        }
    }
}

fn give(hca: &mut Hca, count: u64, list: &[u8]) -> Result<(), Refused> {
    let addresses: Vec<u64> = list
        .chunks_exact(8)
        .map(|raw| raw.iter().fold(0, |pa, byte| pa << 8 | u64::from(*byte)))
        .collect();
    if addresses.len() as u64 != count || count == 0 {
        refuse!(
            BadInputLen,
            2,
            "{count} pages announced, {} in the list",
            addresses.len()
        );
    }
    if count > hca.pages.asked {
        refuse!(
            BadParam,
            3,
            "{count} pages given, {} asked for",
            hca.pages.asked
        );
    }
    let mut fresh = BTreeSet::new();
    for address in &addresses {
        if address % PAGE != 0 || *address == 0 {
            refuse!(BadParam, 4, "page {address:#x} is not a 4 KiB page");
        }
        if hca.pages.owned.contains(address) || !fresh.insert(*address) {
            refuse!(BadParam, 5, "page {address:#x} was given before");
        }
    }
    hca.pages.owned.append(&mut fresh);
    hca.pages.asked -= count;
    hca.pages.changed = true;
    Ok(())
}

fn take(
    hca: &mut Hca,
    count: u64,
    output: &mut Mut<'_, ifc::manage_pages_out>,
) -> Result<(), Refused> {
    let free = hca.pages.given().saturating_sub(hca.pages_used());
    let list = output.raw(span!(manage_pages_out, pas));
    let count = count.min(free).min(list.len() as u64 / 8);
    for place in list.chunks_exact_mut(8).take(count as usize) {
        let Some(address) = hca.pages.owned.pop_last() else {
            break;
        };
        place.copy_from_slice(&address.to_be_bytes());
    }
    hca.pages.offered = hca.pages.offered.saturating_sub(count);
    if count == 0 {
        hca.pages.offered = 0;
    }
    output.set(field!(manage_pages_out, output_num_entries), count);
    Ok(())
}

/// After a MANAGE_PAGES: commands that wait for pages are tried again, or refused.
pub fn settle(hca: &mut Hca) {
    crate::cmd::queue::pages_changed(hca);
    hca.pages.refusing = false;
}
