// SPDX-License-Identifier: GPL-2.0
//! What the network core asks of the interface.
//!
//! All that changes hangs on one value, [`State`], and changes under the RTNL. Settings outlive open,
//! close and reset; a change that concerns rings makes all of them anew, and where that fails the old
//! settings come back.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::net::{
    dcb::Bridge,
    ethtool::Tools,
    loopback,
    queue::TxLocked,
    queue_stats::QueueCounters,
    Driver,
    Features,
    NetDevice,
    RxMode,
    SkBuff,
    Stats,
    Transmit, //
};

use super::{
    caps::EthCaps,
    channel::{
        Nurse,
        Shape, //
    },
    dcb::Wishes,
    entrance::Entrance,
    footing::Footing,
    hash::Hash,
    lanes::{
        Lanes,
        Spread, //
    },
    pfcc::{
        self,
        Pause, //
    },
    pmtu,
    ppcnt::{
        self,
        Traffic, //
    },
    qos::{
        self,
        Trust, //
    },
    slot::Slot,
    steering::Wanted, //
};
use crate::{
    cmd::queue::Counter,
    cq::Moderation,
    device::Device,
    home::Home,
    port::{
        Link,
        Port, //
    },
};

/// Ethernet header and one tag; the card keeps the check sequence to itself.
const AROUND: u32 = 14 + 4;
/// How long a frame through the card and back takes at most; milliseconds, where nobody is busy.
const LOOP: Delta = Delta::from_secs(2);
/// Address of everybody.
const BROADCAST: [u8; 6] = [0xff; 6];

/// What a person may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Channels in use.
    pub(super) channels: u16,
    /// log2 of the blocks of a transmit ring.
    pub(super) log_tx: u8,
    /// log2 of the WQEs of a receive ring.
    pub(super) log_rx: u8,
    /// MTU.
    pub(super) mtu: u32,
    /// Tags stay in the frame.
    pub(super) keep_vlan: bool,
    /// Events of transmit rings.
    pub(super) tx_moderation: Moderation,
    /// Events of receive rings.
    pub(super) rx_moderation: Moderation,
    /// The numbers for transmit rings follow the traffic.
    pub(super) tx_adaptive: bool,
    /// The numbers for receive rings follow the traffic.
    pub(super) rx_adaptive: bool,
    /// Pauses that a person wants; a reset makes the card forget.
    pub(super) pause: Option<Pause>,
}

/// Which packets are wanted, as the core said last.
#[derive(Default)]
struct Filter {
    unicast: KVVec<[u8; 6]>,
    multicast: KVVec<[u8; 6]>,
    all_multicast: bool,
    promiscuous: bool,
    /// VLANs that somebody uses, and whether others are kept out.
    vlans: KVVec<u16>,
    only_vlans: bool,
}

/// What exists on the card while the interface is open.
enum Hardware {
    /// Nothing.
    None,
    /// An opened interface.
    Open(Lanes),
    /// What an interface had on a generation that is over. The card may still use its memory, and that of the
    /// footing, until it has been reset.
    Stale(#[expect(dead_code, reason = "held for its drop")] Lanes),
}

/// All that changes.
pub(super) struct State {
    /// Goes before what it stands on.
    hardware: Hardware,
    footing: Option<Footing>,
    pub(super) settings: Settings,
    filter: Filter,
    pub(super) spread: Spread,
    pub(super) wishes: Wishes,
    /// What the port had counted of each priority when it was asked last.
    pub(super) traffic: [Traffic; qos::COUNT],
    /// What the card's counter of frames without a WQE said last.
    missed: u32,
    /// What the port's counter of frames that are too long said last.
    too_long: u64,
}

/// The driver's data of the interface.
#[pin_data]
pub(super) struct Data {
    pub(super) device: Arc<Device>,
    pub(super) caps: EthCaps,
    /// One for each channel at most.
    pub(super) slots: KVec<Arc<Slot>>,
    #[pin]
    pub(super) state: Mutex<State>,
    /// Frames for which the card had no WQE.
    pub(super) missed: Counter,
    /// Frames that the port dropped because they are longer than its MTU.
    pub(super) too_long: Counter,
    nurse: Arc<dyn Nurse>,
    entrance: Arc<Entrance>,
}

/// Nothing is received any more, and no ring is where packets end. Sleeps.
fn rest(state: &mut State) {
    let rests = state
        .footing
        .as_mut()
        .is_none_or(|footing| footing.rest().is_ok());
    if !rests {
        // It goes before the rings that it may still lead to.
        state.footing = None;
    }
}

/// The hash is in what stays on the card: after another one it is made anew. Sleeps.
fn renew(state: &mut State, old_hash: &Hash) {
    if state.spread.hash != *old_hash {
        state.footing = None;
    }
}

impl Data {
    /// A closed interface with as many channels as there are completion vectors, at most.
    pub(super) fn new(
        device: &Arc<Device>,
        caps: EthCaps,
        settings: Settings,
        spread: Spread,
        nurse: Arc<dyn Nurse>,
        entrance: &Arc<Entrance>,
    ) -> Result<impl PinInit<Self, Error>> {
        let mut slots = KVec::with_capacity(settings.channels.into(), GFP_KERNEL)?;
        for index in 0..settings.channels {
            slots.push(Slot::new(index)?, GFP_KERNEL)?;
        }
        let device = device.clone();
        let entrance = entrance.clone();
        Ok(try_pin_init!(Self {
            device,
            caps,
            slots,
            state <- new_mutex!(State {
                hardware: Hardware::None,
                footing: None,
                settings,
                filter: Filter {
                    only_vlans: caps.vlan_filter,
                    ..Filter::default()
                },
                spread,
                wishes: Wishes::NONE,
                traffic: [Traffic::default(); qos::COUNT],
                missed: 0,
                too_long: 0,
            }),
            missed: Counter::default(),
            too_long: Counter::default(),
            nurse,
            entrance,
        }? Error))
    }

    /// Makes the interface on the card and begins to work.
    fn open(&self, netdev: &NetDevice, state: &mut State) -> Result {
        let home = Home::now(&self.device);
        let settings = state.settings;
        let slots = self.slots.get(..settings.channels.into()).ok_or(EINVAL)?;
        pmtu::set(home.cmd(), settings.mtu)?;
        let shape = Shape {
            log_tx: settings.log_tx,
            log_rx: settings.log_rx,
            frame: settings.mtu + AROUND,
            keep_vlan: settings.keep_vlan,
            inline_mode: self.caps.vport_inline_mode,
            inline_network: state.wishes.trust() == Trust::CodePoint,
            tx_moderation: settings.tx_moderation,
            rx_moderation: settings.rx_moderation,
            tx_adaptive: settings.tx_adaptive,
            rx_adaptive: settings.rx_adaptive,
        };
        if state.footing.is_none() {
            let hash = &state.spread.hash;
            state.footing = Some(Footing::new(&home, &self.caps, hash, &self.entrance)?);
            state.missed = 0;
        }
        let footing = state.footing.as_mut().ok_or(EINVAL)?;
        let mut lanes = Lanes::new(&home, netdev, footing.base(), slots, &shape, &self.nurse)?;
        let count = u32::from(settings.channels);
        netdev.set_queues(count, count)?;
        lanes.start();
        let table = lanes.table(&state.spread, self.caps.log_table())?;
        let received = footing
            .aim(&table, lanes.first()?)
            .and_then(|()| self.filter(netdev.address(), footing, &state.filter));
        if let Err(error) = received {
            rest(state);
            return Err(error);
        }
        state.hardware = Hardware::Open(lanes);
        netdev.start_queues();
        self.update_carrier(netdev);
        Ok(())
    }

    /// Stops working; what exists on the card stays in `state`.
    fn halt(&self, netdev: &NetDevice, state: &mut State) {
        netdev.set_carrier(false);
        // Polling first: it could wake queues again.
        if let Hardware::Open(lanes) = &mut state.hardware {
            lanes.stop();
        }
        netdev.stop_queues();
    }

    /// Asks the card and its port what they have counted. Sleeps.
    pub(super) fn recount(&self, state: &mut State) {
        self.recount_missed(state);
        self.recount_port(state);
    }

    /// Counts the frames for which the card had no WQE since it was asked last. Sleeps.
    fn recount_missed(&self, state: &mut State) {
        if let (Hardware::Open(_), Some(footing)) = (&state.hardware, &state.footing) {
            if let Some(now) = footing.out_of_buffer() {
                self.missed.add(now.wrapping_sub(state.missed).into());
                state.missed = now;
            }
        }
    }

    /// Asks the port what it has counted. Its counters may begin anew with a reset. Sleeps.
    fn recount_port(&self, state: &mut State) {
        if let Ok(now) = ppcnt::link(&self.device.cmd) {
            let new = now.too_long.checked_sub(state.too_long);
            self.too_long.add(new.unwrap_or(now.too_long));
            state.too_long = now.too_long;
        }
    }

    /// Stops working and takes all rings from the card.
    fn close(&self, netdev: &NetDevice, state: &mut State) {
        self.halt(netdev, state);
        self.recount_missed(state);
        rest(state);
        state.hardware = Hardware::None;
    }

    /// Lets what is wanted now through, if the interface is open. `own` is its address.
    fn refilter(&self, own: [u8; 6], state: &mut State) -> Result {
        match (&state.hardware, &mut state.footing) {
            (Hardware::Open(_), Some(footing)) => self.filter(own, footing, &state.filter),
            _ => Ok(()),
        }
    }

    /// Lets what is wanted through.
    fn filter(&self, own: [u8; 6], footing: &mut Footing, filter: &Filter) -> Result {
        let mut unicast = KVVec::with_capacity(filter.unicast.len() + 1, GFP_KERNEL)?;
        unicast.push(own, GFP_KERNEL)?;
        unicast.extend_from_slice(&filter.unicast, GFP_KERNEL)?;
        let mut multicast = KVVec::with_capacity(filter.multicast.len() + 1, GFP_KERNEL)?;
        multicast.push(BROADCAST, GFP_KERNEL)?;
        multicast.extend_from_slice(&filter.multicast, GFP_KERNEL)?;
        let wanted = Wanted {
            unicast: &unicast,
            multicast: &multicast,
            all_multicast: filter.all_multicast,
            promiscuous: filter.promiscuous,
            vlans: filter.only_vlans.then_some(&*filter.vlans),
        };
        footing.receive(&self.caps, &wanted)
    }

    /// Tells the core whether there is a link, and people when that is new.
    pub(super) fn update_carrier(&self, netdev: &NetDevice) {
        let Ok(link) = Port::link(&self.device.cmd) else {
            return;
        };
        if netdev.set_carrier(link == Link::Up) {
            let word = match link {
                Link::Up => "up",
                Link::Down => "down",
            };
            dev_info!(self.device.pdev, "{}: link {}\n", netdev.name(), word);
        }
    }

    /// Changes settings, with new rings if the interface is open and `anew` says so. Under the RTNL.
    ///
    /// An error leaves the old settings.
    pub(super) fn change(
        &self,
        netdev: &NetDevice,
        anew: bool,
        change: impl FnOnce(&mut State),
    ) -> Result {
        let mut state = self.state.lock();
        let (old, old_hash) = (state.settings, state.spread.hash);
        change(&mut state);
        if !anew {
            return Ok(());
        }
        if !matches!(state.hardware, Hardware::Open(_)) {
            renew(&mut state, &old_hash);
            return Ok(());
        }
        self.close(netdev, &mut state);
        renew(&mut state, &old_hash);
        let opened = self.open(netdev, &mut state);
        if opened.is_err() {
            state.settings = old;
            let new_hash = core::mem::replace(&mut state.spread.hash, old_hash);
            renew(&mut state, &new_hash);
            if let Err(error) = self.open(netdev, &mut state) {
                dev_err!(
                    self.device.pdev,
                    "{}: the old rings did not come back either, error {}; set the interface down and up\n",
                    netdev.name(),
                    error.to_errno()
                );
            }
        }
        opened
    }

    /// Spreads packets over rings by another table. Under the RTNL.
    pub(super) fn set_table(&self, table: KVVec<u16>) -> Result {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let old = core::mem::replace(&mut state.spread.table, table);
        if let (Hardware::Open(lanes), Some(footing)) = (&state.hardware, &state.footing) {
            let aimed = lanes
                .table(&state.spread, self.caps.log_table())
                .and_then(|table| footing.aim(&table, lanes.first()?));
            if let Err(error) = aimed {
                state.spread.table = old;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends a frame through the card and back; whether it came. Under the RTNL.
    pub(super) fn loops_back(&self, netdev: &NetDevice) -> bool {
        let state = self.state.lock();
        let (Hardware::Open(_), Some(footing)) = (&state.hardware, &state.footing) else {
            return false;
        };
        let came = footing.loop_back(true).is_ok()
            && loopback::frame_returns(netdev, LOOP).unwrap_or(false);
        let restored = footing.loop_back(false).is_ok();
        came && restored
    }

    /// Makes all rings anew because one is broken. Under the RTNL.
    pub(super) fn repair(&self, netdev: &NetDevice) {
        if let Err(error) = self.change(netdev, true, |_| {}) {
            dev_err!(
                self.device.pdev,
                "{}: rings could not be made anew, error {}\n",
                netdev.name(),
                error.to_errno()
            );
        }
    }

    /// The device generation is over. Under the RTNL.
    pub(super) fn generation_ends(&self, netdev: &NetDevice) {
        netdev.detach();
        let mut state = self.state.lock();
        self.halt(netdev, &mut state);
        state.hardware = match core::mem::replace(&mut state.hardware, Hardware::None) {
            Hardware::Open(lanes) => Hardware::Stale(lanes),
            other => other,
        };
    }

    /// A new generation is up. Under the RTNL.
    pub(super) fn generation_begins(&self, netdev: &NetDevice) -> Result {
        let mut state = self.state.lock();
        // The card has been reset and has forgotten all of it.
        state.hardware = Hardware::None;
        state.footing = None;
        if let Some(pause) = state.settings.pause {
            pfcc::set_pause(&self.device.cmd, pause)?;
        }
        state.wishes.restore(&self.device.cmd)?;
        if netdev.is_running() {
            self.open(netdev, &mut state)?;
        }
        drop(state);
        netdev.attach();
        Ok(())
    }
}

/// The driver of the interface.
pub(super) struct Ether;

impl Driver for Ether {
    type Data = Data;
    const TOOLS: Option<Tools> = Some(Tools::of::<Self>());
    const BRIDGE: Option<Bridge> = Some(Bridge::of::<Self>());
    const QUEUE_COUNTERS: Option<QueueCounters> = Some(QueueCounters::of::<Self>());

    fn open(netdev: &NetDevice, data: &Data) -> Result {
        let mut state = data.state.lock();
        state.settings.mtu = netdev.mtu();
        data.open(netdev, &mut state).inspect_err(|error| {
            dev_err!(
                data.device.pdev,
                "{}: not opened, error {}\n",
                netdev.name(),
                error.to_errno()
            );
        })
    }

    fn stop(netdev: &NetDevice, data: &Data) {
        let mut state = data.state.lock();
        data.close(netdev, &mut state);
    }

    fn transmit(
        _netdev: &NetDevice,
        data: &Data,
        skb: SkBuff,
        lock: &mut TxLocked<'_>,
    ) -> Transmit {
        let queue = **lock;
        // CAST: `usize` has 64 bits here.
        let Some(slot) = data.slots.get(queue.index() as usize) else {
            return Transmit::Taken;
        };
        match slot.ring.get(lock).and_then(Option::as_mut) {
            Some(ring) => {
                let more = kernel_ext::net::queue::more_follows();
                ring.send(skb, queue, more, &slot.tx)
            }
            None => {
                slot.tx.dropped.inc();
                Transmit::Taken
            }
        }
    }

    fn timeout(netdev: &NetDevice, data: &Data, queue: u16) {
        if let Some(slot) = data.slots.get(usize::from(queue)) {
            slot.tx.timeouts.inc();
        }
        dev_err!(
            data.device.pdev,
            "{}: queue {} makes no progress; the interface is made anew\n",
            netdev.name(),
            queue
        );
        data.nurse.broken();
    }

    fn stats(data: &Data, stats: &mut Stats) {
        for slot in data.slots.iter() {
            slot.add_to(stats);
        }
        // As of the last time the card was asked, which must not be done here.
        stats.rx_missed_errors = data.missed.get();
        let too_long = data.too_long.get();
        stats.rx_length_errors = stats.rx_length_errors.wrapping_add(too_long);
        stats.rx_errors = stats.rx_errors.wrapping_add(too_long);
        data.nurse.recount();
    }

    fn rx_mode(netdev: &NetDevice, data: &Data, mode: &RxMode<'_>) -> Result {
        let (unicast, multicast) = (mode.unicast()?, mode.multicast()?);
        let mut state = data.state.lock();
        state.filter.unicast = unicast;
        state.filter.multicast = multicast;
        state.filter.all_multicast = mode.all_multicast;
        state.filter.promiscuous = mode.promiscuous;
        data.refilter(netdev.address(), &mut state)
    }

    fn add_vlan(netdev: &NetDevice, data: &Data, id: u16) -> Result {
        let mut state = data.state.lock();
        if state.filter.vlans.contains(&id) {
            return Ok(());
        }
        state.filter.vlans.push(id, GFP_KERNEL)?;
        data.refilter(netdev.address(), &mut state)
            .inspect_err(|_| state.filter.vlans.retain(|known| *known != id))
    }

    fn remove_vlan(netdev: &NetDevice, data: &Data, id: u16) -> Result {
        let mut state = data.state.lock();
        state.filter.vlans.retain(|known| *known != id);
        data.refilter(netdev.address(), &mut state)
    }

    fn set_address(_netdev: &NetDevice, data: &Data, address: [u8; 6]) -> Result {
        let mut state = data.state.lock();
        data.refilter(address, &mut state)
    }

    fn change_mtu(netdev: &NetDevice, data: &Data, mtu: u32) -> Result {
        data.change(netdev, true, |state| state.settings.mtu = mtu)
    }

    fn set_features(netdev: &NetDevice, data: &Data, features: Features) -> Result {
        let only = features.has(Features::CTAG_FILTER);
        let keep = !features.has(Features::CTAG_RX);
        let anew = {
            let mut state = data.state.lock();
            let before = core::mem::replace(&mut state.filter.only_vlans, only);
            if before != only {
                data.refilter(netdev.address(), &mut state)
                    .inspect_err(|_| state.filter.only_vlans = before)?;
            }
            state.settings.keep_vlan != keep
        };
        data.change(netdev, anew, |state| state.settings.keep_vlan = keep)
    }
}
