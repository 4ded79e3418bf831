// SPDX-License-Identifier: GPL-2.0
//! What `ethtool` asks of the interface.

use core::fmt;

use kernel::prelude::*;
use kernel_ext::net::{
    count::Count,
    ethtool::{
        self,
        Coalesce,
        Ethtool,
        Flow,
        HashFields,
        PauseCounts,
        Rings,
        Spread, //
    },
    NetDevice,
};

use super::{
    hash::KEY_LEN,
    netdev::{
        Data,
        Ether, //
    },
    pfcc::{
        self,
        Pause, //
    },
    ppcnt::{
        self,
        Traffic, //
    },
    qos,
    selftest::{
        self,
        TESTS, //
    },
    slot::{
        RxCounts,
        Slot,
        TxCounts, //
    },
};
use crate::{
    cq::Moderation,
    port::Port, //
};

/// log2 of the shortest ring.
const LOG_SHORTEST: u8 = 6;
/// The longest time an event may be put off, in microseconds: 12 bits.
const MAX_PERIOD: u32 = 4095;

type Rx = (&'static str, fn(&RxCounts) -> &Count);
type Priority = (&'static str, &'static str, fn(&Traffic) -> u64);
type Card = (&'static str, fn(&Data) -> u64);
type Tx = (&'static str, fn(&TxCounts) -> &Count);

/// Counters of a priority at the port, which is the whole card's.
const PRIORITY: [Priority; 6] = [
    ("rx", "bytes", |port| port.rx_bytes),
    ("rx", "packets", |port| port.rx_packets),
    ("rx", "pause", |port| port.rx_pause),
    ("tx", "bytes", |port| port.tx_bytes),
    ("tx", "packets", |port| port.tx_packets),
    ("tx", "pause", |port| port.tx_pause),
];

/// Counters of a receive ring. Where the C driver has the same one, it has the same name.
const RX: [Rx; 13] = [
    ("packets", |rx| &rx.packets),
    ("bytes", |rx| &rx.bytes),
    ("multicast", |rx| &rx.multicast),
    ("csum_unnecessary", |rx| &rx.checksum_good),
    ("csum_complete", |rx| &rx.checksum_sum),
    ("csum_none", |rx| &rx.checksum_none),
    ("removed_vlan_packets", |rx| &rx.tags),
    ("copied", |rx| &rx.copied),
    ("no_memory", |rx| &rx.no_memory),
    ("buff_alloc_err", |rx| &rx.no_page),
    ("length_errors", |rx| &rx.length_errors),
    ("wqe_err", |rx| &rx.error_cqes),
    ("bad_cqe", |rx| &rx.bad_cqes),
];

/// Counters behind those of rings, which the card keeps.
const CARD: [Card; 2] = [
    ("rx_out_of_buffer", |data| data.missed.get()),
    ("rx_oversize_pkts_phy", |data| data.too_long.get()),
];

/// Counters of a transmit ring.
const TX: [Tx; 17] = [
    ("packets", |tx| &tx.packets),
    ("bytes", |tx| &tx.bytes),
    ("tso_packets", |tx| &tx.tso_packets),
    ("tso_bytes", |tx| &tx.tso_bytes),
    ("csum_partial", |tx| &tx.checksums),
    ("added_vlan_packets", |tx| &tx.tags),
    ("doorbells", |tx| &tx.doorbells),
    ("stopped", |tx| &tx.stopped),
    ("wake", |tx| &tx.waked),
    ("linearized", |tx| &tx.linearized),
    ("dropped", |tx| &tx.dropped),
    ("dma_mapping_error", |tx| &tx.mapping_errors),
    ("bad_packets", |tx| &tx.bad_packets),
    ("busy", |tx| &tx.busy),
    ("timeouts", |tx| &tx.timeouts),
    ("cqe_err", |tx| &tx.error_cqes),
    ("bad_cqe", |tx| &tx.bad_cqes),
];

/// A counter by its place in the list: sums first, then each ring.
enum Place<'a> {
    Sum,
    Ring(&'a Slot),
}

fn place(data: &Data, index: usize) -> Option<(Place<'_>, usize)> {
    let each = RX.len() + TX.len();
    let counter = index % each;
    match (index / each).checked_sub(1) {
        None => Some((Place::Sum, counter)),
        Some(ring) => Some((Place::Ring(data.slots.get(ring)?), counter)),
    }
}

/// Counters of all rings and their sums.
fn of_rings(data: &Data) -> usize {
    (data.slots.len() + 1) * (RX.len() + TX.len())
}

/// Priorities that the port counts for this function.
fn priorities(data: &Data) -> usize {
    match data.caps.classes {
        0 => 0,
        _ => qos::COUNT,
    }
}

/// A counter behind those of rings that the card keeps.
fn of_card(data: &Data, index: usize) -> Option<Card> {
    CARD.get(index.checked_sub(of_rings(data))?).copied()
}

/// The priority that a counter behind those of the card is about.
fn of_priority(data: &Data, index: usize) -> Option<(usize, Priority)> {
    let index = index.checked_sub(of_rings(data) + CARD.len())?;
    let counter = PRIORITY.get(index % PRIORITY.len())?;
    Some((index / PRIORITY.len(), *counter))
}

fn value(slot: &Slot, counter: usize) -> u64 {
    match RX.get(counter) {
        Some((_, of)) => of(&slot.rx).get(),
        None => TX
            .get(counter.wrapping_sub(RX.len()))
            .map_or(0, |(_, of)| of(&slot.tx).get()),
    }
}

/// The log of a ring's length: rounded up, within bounds. `EINVAL` beyond them.
fn log_of(length: u32, log_max: u8) -> Result<u8> {
    let rounded = length.checked_next_power_of_two().ok_or(EINVAL)?;
    // CAST: below 32.
    let log = rounded.trailing_zeros() as u8;
    if !(LOG_SHORTEST..=log_max).contains(&log) {
        return Err(EINVAL);
    }
    Ok(log)
}

/// Moderation of these numbers. `ERANGE` for what the card cannot express.
fn moderation(usecs: u32, frames: u32) -> Result<Moderation> {
    if usecs > MAX_PERIOD {
        return Err(ERANGE);
    }
    Ok(Moderation {
        // CAST: checked above.
        period_us: usecs as u16,
        count: u16::try_from(frames).map_err(|_| ERANGE)?,
    })
}

impl Ethtool for Ether {
    const NAME: &'static str = "rmlx5";
    // CAST: 40.
    const KEY_LEN: u32 = KEY_LEN as u32;

    fn firmware(data: &Data, to: &mut dyn fmt::Write) -> fmt::Result {
        let rev = data.device.iseg.fw_rev();
        write!(to, "{}.{}.{:04}", rev.major, rev.minor, rev.sub)
    }

    fn bus(data: &Data, to: &mut dyn fmt::Write) -> fmt::Result {
        to.write_str(data.device.pdev.name().to_str().unwrap_or(""))
    }

    fn speed(data: &Data) -> Option<u32> {
        Port::speed(&data.device.cmd).ok()?.megabits()
    }

    fn rings(data: &Data) -> Rings {
        let settings = data.state.lock().settings;
        Rings {
            rx: 1 << settings.log_rx,
            rx_max: 1 << data.caps.log_max_wq,
            tx: 1 << settings.log_tx,
            tx_max: 1 << data.caps.log_max_wq,
        }
    }

    fn set_rings(netdev: &NetDevice, data: &Data, rx: u32, tx: u32) -> Result {
        let log_rx = log_of(rx, data.caps.log_max_wq)?;
        let log_tx = log_of(tx, data.caps.log_max_wq)?;
        data.change(netdev, true, |state| {
            state.settings.log_rx = log_rx;
            state.settings.log_tx = log_tx;
        })
    }

    fn channels(data: &Data) -> (u32, u32) {
        // CAST: at most 128.
        let most = data.slots.len() as u32;
        (data.state.lock().settings.channels.into(), most)
    }

    fn set_channels(netdev: &NetDevice, data: &Data, count: u32) -> Result {
        let count = u16::try_from(count).map_err(|_| EINVAL)?;
        if usize::from(count) > data.slots.len() {
            return Err(EINVAL);
        }
        let names_others = {
            let state = data.state.lock();
            let others = state.spread.table.iter().any(|channel| *channel >= count);
            others
        };
        if names_others {
            // The table is a person's; it goes first.
            return Err(EINVAL);
        }
        data.change(netdev, true, |state| state.settings.channels = count)
    }

    fn coalesce(data: &Data) -> Coalesce {
        let settings = data.state.lock().settings;
        Coalesce {
            rx_usecs: settings.rx_moderation.period_us.into(),
            rx_frames: settings.rx_moderation.count.into(),
            tx_usecs: settings.tx_moderation.period_us.into(),
            tx_frames: settings.tx_moderation.count.into(),
            rx_adaptive: settings.rx_adaptive,
            tx_adaptive: settings.tx_adaptive,
        }
    }

    fn set_coalesce(netdev: &NetDevice, data: &Data, wanted: Coalesce) -> Result {
        if !data.device.caps()?.cq_moderation {
            return Err(EOPNOTSUPP);
        }
        let rx = moderation(wanted.rx_usecs, wanted.rx_frames)?;
        let tx = moderation(wanted.tx_usecs, wanted.tx_frames)?;
        data.change(netdev, true, |state| {
            state.settings.rx_moderation = rx;
            state.settings.tx_moderation = tx;
            state.settings.rx_adaptive = wanted.rx_adaptive;
            state.settings.tx_adaptive = wanted.tx_adaptive;
        })
    }

    fn pause(data: &Data) -> Result<ethtool::Pause> {
        let pause = pfcc::pause(&data.device.cmd)?;
        Ok(ethtool::Pause {
            rx: pause.rx,
            tx: pause.tx,
        })
    }

    fn set_pause(data: &Data, wanted: ethtool::Pause) -> Result {
        let pause = Pause {
            rx: wanted.rx,
            tx: wanted.tx,
        };
        pfcc::set_pause(&data.device.cmd, pause)?;
        data.state.lock().settings.pause = Some(pause);
        Ok(())
    }

    fn pause_counts(data: &Data) -> Result<PauseCounts> {
        let counts = ppcnt::link(&data.device.cmd)?;
        Ok(PauseCounts {
            rx: counts.rx_pause,
            tx: counts.tx_pause,
        })
    }

    const TESTS: &'static [&'static str] = &TESTS;

    fn test(netdev: &NetDevice, data: &Data, index: usize) -> bool {
        selftest::run(netdev, data, index)
    }

    fn table_len(data: &Data) -> u32 {
        1 << data.caps.log_table()
    }

    fn spread(data: &Data, table: Option<&mut [u32]>, key: Option<&mut [u8]>) {
        let state = data.state.lock();
        let channels = u32::from(state.settings.channels).max(1);
        for (index, entry) in table.into_iter().flatten().enumerate() {
            // CAST: at most 256 entries.
            let even = index as u32 % channels;
            *entry = state
                .spread
                .table
                .get(index)
                .map_or(even, |channel| u32::from(*channel));
        }
        for (to, from) in key.into_iter().flatten().zip(state.spread.hash.key) {
            *to = from;
        }
    }

    fn set_spread(netdev: &NetDevice, data: &Data, spread: &Spread<'_>) -> Result {
        if let Some(entries) = spread.table {
            let channels = data.state.lock().settings.channels;
            let mut table = KVVec::with_capacity(entries.len(), GFP_KERNEL)?;
            for entry in entries {
                match u16::try_from(*entry) {
                    Ok(channel) if channel < channels => table.push(channel, GFP_KERNEL)?,
                    _ => return Err(EINVAL),
                }
            }
            data.set_table(table)?;
        }
        if let Some(key) = spread.key {
            let key = <[u8; KEY_LEN]>::try_from(key).map_err(|_| EINVAL)?;
            // Every TIR has it.
            data.change(netdev, true, |state| state.spread.hash.key = key)?;
        }
        Ok(())
    }

    fn hash_fields(data: &Data, flow: Flow) -> HashFields {
        data.state.lock().spread.hash.fields(flow)
    }

    fn set_hash_fields(netdev: &NetDevice, data: &Data, flow: Flow, fields: HashFields) -> Result {
        data.change(netdev, true, |state| {
            state.spread.hash.set_fields(flow, fields)
        })
    }

    fn recount(data: &Data) {
        let mut state = data.state.lock();
        data.recount(&mut state);
        let asked = (0u8..8).take(priorities(data));
        for (priority, counted) in asked.zip(&mut state.traffic) {
            if let Ok(traffic) = ppcnt::traffic(&data.device.cmd, priority) {
                *counted = traffic;
            }
        }
    }

    fn counters(data: &Data) -> usize {
        of_rings(data) + CARD.len() + priorities(data) * PRIORITY.len()
    }

    fn counter_name(data: &Data, index: usize, to: &mut dyn fmt::Write) -> fmt::Result {
        let Some((place, counter)) = place(data, index) else {
            if let Some((name, _)) = of_card(data, index) {
                return to.write_str(name);
            }
            return match of_priority(data, index) {
                None => Ok(()),
                Some((priority, (way, name, _))) => write!(to, "{way}_prio{priority}_{name}"),
            };
        };
        let (way, name) = match RX.get(counter) {
            Some((name, _)) => ("rx", *name),
            None => (
                "tx",
                TX.get(counter - RX.len()).map_or("", |(name, _)| *name),
            ),
        };
        match place {
            Place::Sum => write!(to, "{way}_{name}"),
            Place::Ring(slot) => write!(to, "{way}{}_{name}", slot.index),
        }
    }

    fn counter(data: &Data, index: usize) -> u64 {
        match place(data, index) {
            Some((Place::Ring(slot), counter)) => value(slot, counter),
            Some((Place::Sum, counter)) => data
                .slots
                .iter()
                .fold(0, |sum: u64, slot| sum.wrapping_add(value(slot, counter))),
            None => {
                if let Some((_, of)) = of_card(data, index) {
                    return of(data);
                }
                of_priority(data, index).map_or(0, |(priority, (_, _, of))| {
                    let state = data.state.lock();
                    state.traffic.get(priority).map_or(0, of)
                })
            }
        }
    }
}
