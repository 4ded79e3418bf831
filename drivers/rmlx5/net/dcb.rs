// SPDX-License-Identifier: GPL-2.0
//! What `dcb` asks of the interface: classes of priorities, their shares and limits, pauses of single priorities,
//! and DSCPs that say what priority a packet has.
//!
//! The card does not keep algorithms, only groups and shares that express them; and a reset makes it forget all of it.
//! So what a person has set is kept here. Source: core/en_dcbnl.c.

use kernel::prelude::*;
use kernel_ext::net::{
    dcb::{
        Algorithm,
        Bridging,
        Ets,
        Pfc, //
    },
    NetDevice,
};
use mlx5_hw::raw;

use super::{
    netdev::{
        Data,
        Ether, //
    },
    pfcc,
    ppcnt,
    qos::{
        self,
        Aspect,
        Class,
        Rate,
        Trust,
        CODE_POINTS,
        COUNT, //
    }, //
};
use crate::cmd::Cmd;

/// The group of classes that the vendor serves as he likes: `MLX5E_VENDOR_TC_GROUP_NUM`.
const VENDOR_GROUP: u8 = 7;
/// What a class alone in its group gets.
const ALL: u8 = 100;
/// kbit/s of the units of limits, and the most of each unit.
const HUNDRED_MEGABITS: u64 = 100_000;
const GIGABIT: u64 = 1_000_000;
const MOST: u64 = 255;

/// What a person has set.
pub(super) struct Wishes {
    ets: Option<Ets>,
    rates: Option<[u64; COUNT]>,
    pfc: Option<u8>,
    /// The priority of each DSCP that has an entry.
    entries: [Option<u8>; CODE_POINTS],
}

impl Wishes {
    /// None.
    pub(super) const NONE: Self = Self {
        ets: None,
        rates: None,
        pfc: None,
        entries: [None; CODE_POINTS],
    };

    /// What the port is to believe.
    pub(super) fn trust(&self) -> Trust {
        match self.entries.iter().any(Option::is_some) {
            true => Trust::CodePoint,
            false => Trust::Tag,
        }
    }

    /// Sets everything again, on a card that has forgotten it. Sleeps.
    pub(super) fn restore(&self, cmd: &Cmd) -> Result {
        if let Some(ets) = &self.ets {
            set_ets(cmd, ets)?;
        }
        if let Some(rates) = &self.rates {
            set_rates(cmd, rates)?;
        }
        if let Some(enabled) = self.pfc {
            pfcc::set_priorities(cmd, enabled)?;
        }
        for (code_point, priority) in (0u8..64).zip(self.entries) {
            if let Some(priority) = priority {
                qos::set_priority_of(cmd, code_point, priority)?;
            }
        }
        match self.trust() {
            Trust::CodePoint => qos::set_trust(cmd, Trust::CodePoint),
            Trust::Tag => Ok(()),
        }
    }
}

/// Groups and shares that express algorithms.
///
/// Strict classes have groups of their own above those that share; of these, classes without a share get what the others
/// leave, so they are in a group below.
fn express(ets: &Ets) -> [Class; COUNT] {
    let sharing = |(algorithm, share): (Algorithm, u8), none: bool| {
        algorithm == Algorithm::Ets && (share == 0) == none
    };
    let pairs = || Iterator::zip(ets.algorithms.into_iter(), ets.shares);
    let with = pairs().any(|pair| sharing(pair, false));
    let without = pairs().filter(|pair| sharing(*pair, true)).count();
    let upper = u8::from(without != 0);
    let mut strict = upper + u8::from(with || without != 0);
    // The remainder of a hundred goes to the last one.
    let (mut left, mut rest) = (without, ALL);
    let mut classes = [Class::default(); COUNT];
    for (class, (algorithm, share)) in classes.iter_mut().zip(pairs()) {
        (class.group, class.share) = match algorithm {
            Algorithm::Vendor => (VENDOR_GROUP, ALL),
            Algorithm::Strict => {
                strict += 1;
                (strict - 1, ALL)
            }
            Algorithm::Ets if share != 0 => (upper, share),
            Algorithm::Ets => {
                // CAST: at most 100.
                let part = match left {
                    1 => rest,
                    _ => (usize::from(ALL) / without.max(1)) as u8,
                };
                left = left.saturating_sub(1);
                rest = rest.saturating_sub(part);
                (0, part)
            }
        };
    }
    classes
}

fn set_ets(cmd: &Cmd, ets: &Ets) -> Result {
    let classes = express(ets);
    for (priority, class) in (0u8..8).zip(ets.class_of) {
        qos::set_class_of(cmd, priority, class)?;
    }
    qos::set_classes(cmd, &classes, Aspect::Group)?;
    qos::set_classes(cmd, &classes, Aspect::Share)
}

fn set_rates(cmd: &Cmd, rates: &[u64; COUNT]) -> Result {
    let mut classes = [Class::default(); COUNT];
    for (class, kilobits) in classes.iter_mut().zip(*rates) {
        // CAST, four times: units are small numbers, and so are values up to `MOST`.
        class.rate = match kilobits {
            0 => Rate {
                unit: raw::MLX5_BW_NO_LIMIT as u8,
                value: 0,
            },
            n if n <= MOST * HUNDRED_MEGABITS => Rate {
                unit: raw::MLX5_100_MBPS_UNIT as u8,
                value: (n / HUNDRED_MEGABITS).max(1) as u16,
            },
            n if n <= MOST * GIGABIT => Rate {
                unit: raw::MLX5_GBPS_UNIT as u8,
                value: (n / GIGABIT) as u16,
            },
            _ => return Err(EINVAL),
        };
    }
    qos::set_classes(cmd, &classes, Aspect::Rate)
}

impl Bridging for Ether {
    fn classes(data: &Data) -> u8 {
        data.caps.classes
    }

    fn ets(data: &Data) -> Result<Ets> {
        let cmd = &data.device.cmd;
        let mut class_of = [0; COUNT];
        for (priority, class) in (0u8..8).zip(&mut class_of) {
            *class = qos::class_of(cmd, priority)?;
        }
        let classes = qos::classes(cmd)?;
        let algorithms = match &data.state.lock().wishes.ets {
            Some(ets) => ets.algorithms,
            None => [Algorithm::Vendor; COUNT],
        };
        // The lowest group is that of classes without a share if there is another one that shares.
        let shares = |group: u8| {
            let mut all = algorithms.iter().zip(&classes);
            all.any(|(algorithm, class)| *algorithm == Algorithm::Ets && class.group == group)
        };
        let mut shown = [0; COUNT];
        for ((to, class), algorithm) in shown.iter_mut().zip(&classes).zip(algorithms) {
            if algorithm == Algorithm::Ets && (class.group != 0 || !shares(1)) {
                *to = class.share;
            }
        }
        Ok(Ets {
            class_of,
            algorithms,
            shares: shown,
        })
    }

    fn set_ets(data: &Data, ets: &Ets) -> Result {
        let mut state = data.state.lock();
        set_ets(&data.device.cmd, ets)?;
        state.wishes.ets = Some(*ets);
        Ok(())
    }

    fn rates(data: &Data) -> Result<[u64; COUNT]> {
        let classes = qos::classes(&data.device.cmd)?;
        Ok(classes.map(|class| {
            let unit = match class.rate.unit.into() {
                raw::MLX5_100_MBPS_UNIT => HUNDRED_MEGABITS,
                raw::MLX5_GBPS_UNIT => GIGABIT,
                _ => 0,
            };
            unit * u64::from(class.rate.value)
        }))
    }

    fn set_rates(data: &Data, rates: &[u64; COUNT]) -> Result {
        let mut state = data.state.lock();
        set_rates(&data.device.cmd, rates)?;
        state.wishes.rates = Some(*rates);
        Ok(())
    }

    fn pfc(data: &Data) -> Result<Pfc> {
        let cmd = &data.device.cmd;
        let mut pfc = Pfc {
            enabled: pfcc::priorities(cmd)?,
            ..Pfc::default()
        };
        let counts = pfc.sent.iter_mut().zip(&mut pfc.received);
        for (priority, (sent, received)) in (0u8..8).zip(counts) {
            let traffic = ppcnt::traffic(cmd, priority)?;
            *sent = traffic.tx_pause;
            *received = traffic.rx_pause;
        }
        Ok(pfc)
    }

    fn set_pfc(data: &Data, enabled: u8) -> Result {
        let mut state = data.state.lock();
        pfcc::set_priorities(&data.device.cmd, enabled)?;
        state.wishes.pfc = Some(enabled);
        Ok(())
    }

    fn entry(data: &Data, code_point: u8) -> Option<u8> {
        let state = data.state.lock();
        *state.wishes.entries.get(usize::from(code_point))?
    }

    fn set_entry(netdev: &NetDevice, data: &Data, code_point: u8, priority: Option<u8>) -> Result {
        let cmd = &data.device.cmd;
        // The driver's map for a DSCP without an entry is 0 once there has been one, as the stock driver has it.
        qos::set_priority_of(cmd, code_point, priority.unwrap_or(0))?;
        let (before, after) = {
            let mut state = data.state.lock();
            let before = state.wishes.trust();
            if let Some(entry) = state.wishes.entries.get_mut(usize::from(code_point)) {
                *entry = priority;
            }
            (before, state.wishes.trust())
        };
        if before == after {
            return Ok(());
        }
        // The card finds the DSCP in what is inlined: rings inline more or less from now on.
        data.change(netdev, true, |_| {})?;
        qos::set_trust(cmd, after)
    }
}
