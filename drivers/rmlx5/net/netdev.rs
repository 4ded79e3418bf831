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
};
use kernel_ext::net::{
    ethtool::Tools,
    queue::TxLocked,
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
    lanes::{
        Lanes,
        Spread, //
    },
    pfcc::{
        self,
        Pause, //
    },
    pmtu,
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
struct Filter {
    unicast: KVVec<[u8; 6]>,
    multicast: KVVec<[u8; 6]>,
    all_multicast: bool,
    promiscuous: bool,
}

/// What exists on the card.
enum Hardware {
    /// Nothing.
    None,
    /// An opened interface.
    Open(Lanes),
    /// What an interface had on a generation that is over. The card may still use its memory until it
    /// has been reset.
    Stale(#[expect(dead_code, reason = "held for its drop")] Lanes),
}

/// All that changes.
pub(super) struct State {
    hardware: Hardware,
    pub(super) settings: Settings,
    filter: Filter,
    pub(super) spread: Spread,
    /// What the card's counter of frames without a WQE said last.
    missed: u32,
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
    nurse: Arc<dyn Nurse>,
}

impl Data {
    /// A closed interface with as many channels as there are completion vectors, at most.
    pub(super) fn new(
        device: &Arc<Device>,
        caps: EthCaps,
        settings: Settings,
        spread: Spread,
        nurse: Arc<dyn Nurse>,
    ) -> Result<impl PinInit<Self, Error>> {
        let mut slots = KVec::with_capacity(settings.channels.into(), GFP_KERNEL)?;
        for index in 0..settings.channels {
            slots.push(Slot::new(index)?, GFP_KERNEL)?;
        }
        let device = device.clone();
        Ok(try_pin_init!(Self {
            device,
            caps,
            slots,
            state <- new_mutex!(State {
                hardware: Hardware::None,
                settings,
                filter: Filter {
                    unicast: KVVec::new(),
                    multicast: KVVec::new(),
                    all_multicast: false,
                    promiscuous: false,
                },
                spread,
                missed: 0,
            }),
            missed: Counter::default(),
            nurse,
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
            tx_moderation: settings.tx_moderation,
            rx_moderation: settings.rx_moderation,
            tx_adaptive: settings.tx_adaptive,
            rx_adaptive: settings.rx_adaptive,
        };
        let mut lanes = Lanes::new(
            &home,
            netdev,
            &self.caps,
            slots,
            &shape,
            &state.spread,
            &self.nurse,
        )?;
        let count = u32::from(settings.channels);
        netdev.set_queues(count, count)?;
        lanes.start();
        self.filter(netdev.address(), &mut lanes, &state.filter)?;
        state.missed = 0;
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

    /// Counts the frames for which the card had no WQE since it was asked last. Sleeps.
    pub(super) fn recount(&self, state: &mut State) {
        if let Hardware::Open(lanes) = &state.hardware {
            if let Some(now) = lanes.out_of_buffer() {
                self.missed.add(now.wrapping_sub(state.missed).into());
                state.missed = now;
            }
        }
    }

    /// Stops working and takes everything from the card.
    fn close(&self, netdev: &NetDevice, state: &mut State) {
        self.halt(netdev, state);
        self.recount(state);
        if let Hardware::Open(lanes) = core::mem::replace(&mut state.hardware, Hardware::None) {
            drop(lanes);
        }
    }

    /// Lets what is wanted through.
    fn filter(&self, own: [u8; 6], lanes: &mut Lanes, filter: &Filter) -> Result {
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
        };
        lanes.receive(&self.caps, &wanted)
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
        let (old, old_key) = (state.settings, state.spread.key);
        change(&mut state);
        if !anew || !matches!(state.hardware, Hardware::Open(_)) {
            return Ok(());
        }
        self.close(netdev, &mut state);
        let opened = self.open(netdev, &mut state);
        if opened.is_err() {
            state.settings = old;
            state.spread.key = old_key;
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
        if let Hardware::Open(lanes) = &state.hardware {
            if let Err(error) = lanes.set_table(&self.caps, &state.spread) {
                state.spread.table = old;
                return Err(error);
            }
        }
        Ok(())
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
        if let Some(pause) = state.settings.pause {
            pfcc::set_pause(&self.device.cmd, pause)?;
        }
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
        data.nurse.recount();
    }

    fn rx_mode(netdev: &NetDevice, data: &Data, mode: &RxMode<'_>) -> Result {
        let filter = Filter {
            unicast: mode.unicast()?,
            multicast: mode.multicast()?,
            all_multicast: mode.all_multicast,
            promiscuous: mode.promiscuous,
        };
        let mut guard = data.state.lock();
        let state = &mut *guard;
        state.filter = filter;
        match &mut state.hardware {
            Hardware::Open(lanes) => data.filter(netdev.address(), lanes, &state.filter),
            Hardware::None | Hardware::Stale(_) => Ok(()),
        }
    }

    fn set_address(_netdev: &NetDevice, data: &Data, address: [u8; 6]) -> Result {
        let mut guard = data.state.lock();
        let state = &mut *guard;
        match &mut state.hardware {
            Hardware::Open(lanes) => data.filter(address, lanes, &state.filter),
            Hardware::None | Hardware::Stale(_) => Ok(()),
        }
    }

    fn change_mtu(netdev: &NetDevice, data: &Data, mtu: u32) -> Result {
        data.change(netdev, true, |state| state.settings.mtu = mtu)
    }

    fn set_features(netdev: &NetDevice, data: &Data, features: Features) -> Result {
        let keep = !features.has(Features::CTAG_RX);
        let anew = data.state.lock().settings.keep_vlan != keep;
        data.change(netdev, anew, |state| state.settings.keep_vlan = keep)
    }
}
