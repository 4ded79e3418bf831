// SPDX-License-Identifier: GPL-2.0
//! The interface as a part of the card: it stays registered across resets, follows the link, and is
//! made anew when a ring breaks.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed,
                Release, //
            },
            Atomic, //
        },
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::{
    devlink,
    net::{
        self,
        lock::Rtnl,
        Config,
        DeviceRef,
        Features,
        Registration, //
    },
    task,
    workqueue::{
        Job,
        Kind,
        Queue,
        Task, //
    },
};

use super::{
    caps::EthCaps,
    channel::Nurse,
    entrance::Entrance,
    hash::Hash,
    lanes::Spread,
    netdev::{
        Data,
        Ether,
        Settings, //
    },
    pmtu,
};
use crate::{
    cq::Moderation,
    device::Device,
    event::{
        Event,
        Listener, //
    },
    port::Identity,
    recovery::{
        Participant,
        State, //
    }, //
};

/// The plug, as devlink counts: this function has one.
const PORT: u32 = 0;
/// The smallest MTU that IPv4 allows.
const MIN_MTU: u32 = 68;
/// The largest MTU of the C driver's cards; what a port offers beyond is not used.
const MAX_MTU: u32 = 9978;
/// MTU to begin with.
const MTU: u32 = 1500;
/// log2 of the entries of rings to begin with, as in the C driver.
const LOG_RING: u8 = 10;
/// Events to begin with, as in the C driver (`MLX5E_PARAMS_DEFAULT_*_CQ_MODERATION_*`).
const MODERATION: Moderation = Moderation {
    period_us: 16,
    count: 32,
};
/// How long a queue may be stuck: 15 s, as in the C driver. The stock kernel has 250 jiffies a second.
const WATCHDOG: Delta = Delta::from_secs(15);

/// How old the counters that `ip -s link` shows may be.
const COUNTERS: Delta = Delta::from_millis(100);

struct Inner {
    device: Arc<Device>,
    registration: Pin<KBox<Mutex<Option<Registration<Ether>>>>>,
    /// 1 when the link may have changed, when a ring is broken, and when somebody looks at counters.
    link: Atomic<u32>,
    anew: Atomic<u32>,
    counters: Atomic<u32>,
}

impl Inner {
    /// Notes once more what could not be done now.
    fn put_off(&self, link: bool, anew: bool) {
        for (flag, wanted) in [(&self.link, link), (&self.anew, anew)] {
            if wanted {
                flag.store(1, Relaxed);
            }
        }
    }
}

/// What the interface wants done in process context.
struct Chores(Arc<Inner>);

impl Job for Chores {
    fn run(&self) -> Option<Delta> {
        let inner = &self.0;
        let link = inner.link.xchg(0, Full) != 0;
        let anew = inner.anew.xchg(0, Full) != 0;
        let counters = inner.counters.xchg(0, Full) != 0;
        let guard = inner.registration.lock();
        let registration = guard.as_ref()?;
        // The RTNL keeps open, close and resets away.
        let _rtnl = Rtnl::lock();
        let netdev = registration.device();
        if inner.device.recovery.state() != State::Up {
            // Whoever brings the device up wakes this again.
            inner.put_off(link, anew);
            return None;
        }
        if !netdev.is_running() {
            return None;
        }
        if anew {
            registration.data().repair(netdev);
        } else if link {
            registration.data().update_carrier(netdev);
        }
        if counters {
            let data = registration.data();
            let mut state = data.state.lock();
            data.recount(&mut state);
        }
        None
    }
}

/// Schedules chores from any context.
struct Bell {
    inner: Arc<Inner>,
    task: Task<Chores>,
}

impl Bell {
    fn ring(&self, what: &Atomic<u32>) {
        what.store(1, Release);
        self.task.schedule();
    }
}

impl Nurse for Bell {
    fn broken(&self) {
        self.ring(&self.inner.anew);
    }

    fn recount(&self) {
        // Whoever looks all the time does not keep the card busy.
        if self.inner.counters.xchg(1, Full) == 0 {
            self.task.schedule_after(COUNTERS);
        }
    }
}

impl Listener for Bell {
    fn event(&self, event: Event) {
        if let Event::Port { .. } = event {
            self.ring(&self.inner.link);
        }
    }
}

/// The interface as a participant.
pub(crate) struct Face {
    inner: Arc<Inner>,
    bell: Arc<Bell>,
}

fn features(caps: &EthCaps) -> Features {
    let mut features = Features::SG.with(Features::RXHASH).with(Features::CTAG_TX);
    if caps.checksum {
        features = features
            .with(Features::IP_CSUM)
            .with(Features::IPV6_CSUM)
            .with(Features::RXCSUM);
    }
    if caps.max_lso != 0 {
        features = features
            .with(Features::TSO)
            .with(Features::TSO6)
            .with(Features::GSO_UDP_L4);
    }
    if caps.vlan {
        features = features.with(Features::CTAG_RX);
    }
    if caps.vlan_filter {
        features = features.with(Features::CTAG_FILTER);
    }
    features
}

impl Face {
    /// Registers the interface and hangs it on the card; nothing happens when the card is no network
    /// card. The reference has to go before the interface is closed. Sleeps, takes the RTNL.
    pub(crate) fn attach(
        device: &Arc<Device>,
        identity: &Identity,
        entrance: &Arc<Entrance>,
    ) -> Result<Option<DeviceRef>> {
        let caps = match EthCaps::read(&device.cmd, &device.caps()?) {
            Ok(caps) => caps,
            Err(EOPNOTSUPP) => {
                dev_info!(
                    device.pdev,
                    "no network interface: the card has no Ethernet\n"
                );
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let max_mtu = pmtu::max(&device.cmd)?.min(MAX_MTU);
        let vectors = device.eqs().map_or(1, |eqs| eqs.completions().len());
        // CAST: at most 2048.
        let channels = vectors.clamp(1, 128) as u16;
        let inner = Arc::new(
            Inner {
                device: device.clone(),
                registration: KBox::pin_init(new_mutex!(None), GFP_KERNEL)?,
                link: Atomic::new(0),
                anew: Atomic::new(0),
                counters: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        let queue = Queue::new(c"rmlx5-net", Kind::Ordered)?;
        let task = task!(&queue, "rmlx5_net", Chores(inner.clone()))?;
        let bell = Arc::new(
            Bell {
                inner: inner.clone(),
                task,
            },
            GFP_KERNEL,
        )?;
        // As the C driver begins (`mlx5e_build_nic_params`).
        let moderates = device.caps()?.cq_moderation;
        let log_ring = LOG_RING.min(caps.log_max_wq);
        let settings = Settings {
            channels,
            log_tx: log_ring,
            log_rx: log_ring,
            mtu: MTU,
            keep_vlan: !caps.vlan,
            tx_moderation: MODERATION,
            rx_moderation: MODERATION,
            tx_adaptive: moderates,
            rx_adaptive: moderates,
            pause: None,
        };
        let spread = Spread {
            hash: Hash::new(net::device::hash_key()),
            table: KVVec::new(),
        };
        let offered = features(&caps);
        let config = Config {
            queues: channels.into(),
            address: identity.mac,
            min_mtu: MIN_MTU,
            max_mtu,
            features: offered.with(Features::GSO_PARTIAL),
            fixed: Features::HIGHDMA,
            partial: Features::GSO_UDP_L4,
            vlan_features: offered
                .without(Features::CTAG_TX)
                .without(Features::CTAG_RX)
                .without(Features::CTAG_FILTER)
                .without(Features::GSO_UDP_L4)
                .with(Features::HIGHDMA)
                .with(Features::GSO_PARTIAL),
            max_gso: if caps.max_lso == 0 {
                65536
            } else {
                caps.max_lso
            },
            bridges: caps.classes != 0,
            watchdog: WATCHDOG,
        };
        let data = Data::new(device, caps, settings, spread, bell.clone(), entrance)?;
        let port = devlink::Port::new(&device.pdev, PORT)?;
        let registration = Registration::new(&device.pdev, &config, Some(port), data)?;
        dev_info!(
            device.pdev,
            "network interface {}, {} channels\n",
            registration.device().name(),
            channels
        );
        let netdev = registration.device().hold();
        *inner.registration.lock() = Some(registration);
        let face = Arc::new(
            Self {
                inner,
                bell: bell.clone(),
            },
            GFP_KERNEL,
        )?;
        device
            .events
            .listen(bell)
            .and_then(|()| device.recovery.join(face.clone()))
            .map(|()| Some(netdev))
            .inspect_err(|_| face.close())
    }
}

impl Participant for Face {
    fn name(&self) -> &'static str {
        "network interface"
    }

    fn stop(&self) {
        let guard = self.inner.registration.lock();
        if let Some(registration) = guard.as_ref() {
            let _rtnl = Rtnl::lock();
            registration.data().generation_ends(registration.device());
        }
    }

    fn start(&self) -> Result {
        let guard = self.inner.registration.lock();
        if let Some(registration) = guard.as_ref() {
            let _rtnl = Rtnl::lock();
            // What was wrong with rings of the past is of no interest.
            self.inner.anew.store(0, Relaxed);
            registration
                .data()
                .generation_begins(registration.device())?;
        }
        Ok(())
    }

    fn resume(&self) {
        self.bell.task.schedule();
    }

    fn close(&self) {
        let registration = self.inner.registration.lock().take();
        // Closes the interface, and waits for everybody who has it.
        drop(registration);
        self.bell.task.cancel();
    }
}
