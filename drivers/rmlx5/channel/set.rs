// SPDX-License-Identifier: GPL-2.0
//! All channels of a card: how many there are, who is connected to whom, what they run.
//!
//! Channels are made on first use: by a self-test, by reading `endpoint`, or by a write to
//! `num_qps`. From then on a write changes them while they work: channels that stay are not
//! touched, those that go finish what they have under way first.

use core::cmp::Ordering;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::{
    time::{
        fsleep,
        Deadline, //
    },
    workqueue::{
        Kind,
        Queue, //
    },
};

use super::{
    control::Control,
    endpoint::Endpoint,
    hardware::Base,
    layout,
    options::Options,
    roster::Roster,
    run::Run,
    tally::Tally,
    Channel,
    Core, //
};
use crate::{
    caps::Caps,
    cq::{
        CqRing,
        Moderation, //
    },
    device::Device,
    port::Identity,
    recovery::{
        Participant,
        State, //
    },
};

/// How long channels that go may take to finish what they have under way.
const DRAIN: Delta = Delta::from_secs(10);
const STEP: Delta = Delta::from_millis(1);

/// What a mutex protects of the channels of a card.
pub(super) struct Set {
    pub(super) channels: KVec<Arc<Channel>>,
    base: Option<Base>,
    /// Whether somebody has used channels yet.
    used: bool,
    /// How many there are to be.
    wanted: u32,
    /// log2 of the depth of their CQs.
    log_cqes: u8,
    /// Connected to another machine, not in loopback pairs.
    peer: bool,
    /// The control QP, once endpoints were read or written.
    pub(super) control: Option<Arc<Control>>,
    pub(super) run: Option<Arc<Run>>,
    /// What channels did in the run that are gone.
    pub(super) retired: KBox<Tally>,
    pub(super) retired_channels: u32,
}

impl Set {
    /// Who the card is, once channels are in use.
    pub(super) fn identity(&self) -> Option<&Identity> {
        self.base.as_ref().map(Base::identity)
    }
}

/// The channels of a card.
#[pin_data]
pub(crate) struct Channels {
    pub(super) device: Arc<Device>,
    queue: Arc<Queue>,
    roster: Arc<Roster>,
    #[pin]
    pub(super) set: Mutex<Set>,
    /// Files and the ib_device; they refer to this value until close.
    #[pin]
    faces: Mutex<Option<super::files::Faces>>,
}

/// Trouble that a person can make for a channel.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    /// Its QP goes to ERROR (2ERR).
    Error,
    /// It does not tell the device any more which CQEs it has read, until the CQ overruns.
    Overrun,
}

/// Why a knob refuses a value.
pub(crate) enum Refusal {
    /// Out of range: what may it be, and why.
    Range { min: u32, max: u32 },
    /// Loopback pairs need an even number.
    Odd,
    /// The device or the host has no more.
    Error(Error),
}

impl Refusal {
    /// errno for the writer.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Range { .. } | Self::Odd => EINVAL,
            Self::Error(error) => *error,
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Channels {
    /// Begins with `wanted` channels of CQs of `cqes` entries, to be made on first use, and hangs
    /// them on the device. Sleeps.
    pub(crate) fn attach(device: &Arc<Device>, wanted: u32, cqes: u32) -> Result<Arc<Self>> {
        let roster = Roster::new()?;
        let caps = device.caps()?;
        let wanted = match check_count(wanted, true) {
            Ok(()) => wanted,
            Err(_) => {
                dev_warn!(
                    device.pdev,
                    "num_qps={} is not possible, using {}\n",
                    wanted,
                    layout::DEFAULT_CHANNELS
                );
                layout::DEFAULT_CHANNELS
            }
        };
        let log_cqes = match check_depth(&caps, cqes) {
            Ok(log) => log,
            Err(_) => {
                dev_warn!(
                    device.pdev,
                    "cq_size={} is not possible, using {}\n",
                    cqes,
                    layout::DEFAULT_CQES
                );
                layout::DEFAULT_CQES.ilog2() as u8
            }
        };
        let retired = KBox::new(Tally::new(), GFP_KERNEL)?;
        let listener = roster.clone();
        let this = Arc::pin_init(
            pin_init!(Self {
                device: device.clone(),
                queue: Queue::new(c"rmlx5-channel", Kind::Unbound)?,
                roster,
                set <- new_mutex!(Set {
                    channels: KVec::new(),
                    base: None,
                    used: false,
                    wanted,
                    log_cqes,
                    peer: false,
                    control: None,
                    run: None,
                    retired,
                    retired_channels: 0,
                }),
                faces <- new_mutex!(None),
            }? Error),
            GFP_KERNEL,
        )?;
        device.events.listen(listener)?;
        let faces = super::files::Faces::new(&this)?;
        *this.faces.lock() = Some(faces);
        device.recovery.join(this.clone())?;
        Ok(this)
    }

    /// How many channels there are, or are to be.
    pub(crate) fn count(&self) -> u32 {
        self.set.lock().wanted
    }

    /// Depth of the CQs.
    pub(crate) fn depth(&self) -> u32 {
        1 << self.set.lock().log_cqes
    }

    /// Changes the number of channels, live. On failure the old set goes on. Sleeps.
    pub(crate) fn set_count(&self, count: u32) -> Result<(), Refusal> {
        let mut set = self.set.lock();
        check_count(count, !set.peer)?;
        self.must_be_up()?;
        self.grow_or_shrink(&mut set, count)?;
        set.wanted = count;
        set.used = true;
        Ok(())
    }

    /// Changes the depth of the CQs, live. On failure all are as before. Sleeps.
    pub(crate) fn set_depth(&self, cqes: u32) -> Result<u32, Refusal> {
        let mut set = self.set.lock();
        let log = check_depth(&self.device.caps()?, cqes)?;
        self.must_be_up()?;
        let old = set.log_cqes;
        for (done, channel) in set.channels.iter().enumerate() {
            if let Err(error) = channel.core.resize(log) {
                for channel in set.channels.iter().take(done) {
                    // Back to what it was; a CQ that stays deeper does no harm.
                    let _ = channel.core.resize(old);
                }
                return Err(error.into());
            }
        }
        set.log_cqes = log;
        Ok(1 << log)
    }

    /// Begins a self-test. `EBUSY` while one runs. Sleeps.
    pub(crate) fn start_run(&self, options: Options) -> Result {
        let mut set = self.set.lock();
        if set.run.as_ref().is_some_and(|run| run.is_active()) {
            return Err(EBUSY);
        }
        self.provision(&mut set)?;
        let run = Run::new(options)?;
        set.retired.clear();
        set.retired_channels = 0;
        for channel in set.channels.iter() {
            channel.core.enter(&run);
        }
        set.run = Some(run);
        for channel in set.channels.iter() {
            channel.wake();
        }
        Ok(())
    }

    /// Ends a self-test early; what is under way finishes.
    pub(crate) fn stop_run(&self) {
        for channel in self.set.lock().channels.iter() {
            channel.core.stop();
            channel.wake();
        }
    }

    /// Makes trouble for a channel, to see it come back. Sleeps.
    pub(super) fn make(&self, trouble: Trouble, index: usize) -> Result {
        let set = self.set.lock();
        self.must_be_up()?;
        let channel = set.channels.get(index).ok_or(EINVAL)?;
        channel.core.make(trouble)?;
        channel.wake();
        Ok(())
    }

    /// The endpoints of all channels. Makes channels and control QP if need be. Sleeps.
    pub(crate) fn endpoints(&self) -> Result<KVec<Endpoint>> {
        let mut set = self.set.lock();
        self.provision(&mut set)?;
        let control = self.control(&mut set)?;
        let mut endpoints = KVec::with_capacity(set.channels.len(), GFP_KERNEL)?;
        for channel in set.channels.iter() {
            let endpoint = Endpoint {
                control_qpn: control.post.qpn(),
                control_qkey: control.post.qkey,
                ..channel.core.endpoint().ok_or(ENODEV)?
            };
            endpoints.push(endpoint, GFP_KERNEL)?;
        }
        Ok(endpoints)
    }

    /// The control QP. Makes it if need be.
    fn control(&self, set: &mut Set) -> Result<Arc<Control>> {
        let control = match &set.control {
            Some(control) => control.clone(),
            None => {
                let control = Control::new(&self.device, &self.queue, &self.roster)?;
                self.roster.set_control(Some(control.clone()));
                set.control = Some(control.clone());
                control
            }
        };
        control.create(set.base.as_ref().ok_or(ENODEV)?)?;
        Ok(control)
    }

    /// Connects the channels to those of another machine: the first to the first line, and so on.
    ///
    /// `EINVAL` unless there is one line for each channel; `EBUSY` while a self-test runs on a
    /// connection that is in force. Sleeps.
    pub(crate) fn connect(&self, peers: KVec<Endpoint>) -> Result {
        let mut set = self.set.lock();
        let running = set.run.as_ref().is_some_and(|run| run.is_active());
        if running
            && set
                .channels
                .iter()
                .any(|channel| channel.core.is_in_force())
        {
            return Err(EBUSY);
        }
        self.provision(&mut set)?;
        if peers.len() != set.channels.len() {
            dev_err!(
                self.device.pdev,
                "peer: {} lines for {} channels\n",
                peers.len(),
                set.channels.len()
            );
            return Err(EINVAL);
        }
        let control = self.control(&mut set)?;
        for (channel, peer) in set.channels.iter().zip(peers.iter()) {
            channel.core.connect(peer, &control.post)?;
        }
        set.peer = true;
        Ok(())
    }

    /// Connects the channels in loopback pairs again. Sleeps.
    pub(crate) fn loopback(&self) -> Result {
        let mut set = self.set.lock();
        if set.run.as_ref().is_some_and(|run| run.is_active()) {
            return Err(EBUSY);
        }
        if set.wanted % 2 != 0 {
            return Err(EINVAL);
        }
        set.peer = false;
        self.provision(&mut set)?;
        pair_up(&set.channels, 0)
    }

    fn must_be_up(&self) -> Result {
        match self.device.recovery.state() {
            State::Up => Ok(()),
            State::Dead => Err(ENODEV),
            // A reset is under way; the caller may try again.
            _ => Err(EAGAIN),
        }
    }

    /// Makes the channels unless they are there.
    fn provision(&self, set: &mut Set) -> Result {
        self.must_be_up()?;
        let wanted = set.wanted;
        self.grow_or_shrink(set, wanted)?;
        set.used = true;
        Ok(())
    }

    fn grow_or_shrink(&self, set: &mut Set, count: u32) -> Result {
        let have = set.channels.len();
        let count = count as usize;
        if set.base.is_none() {
            set.base = Some(Base::new(&self.device)?);
        }
        match count.cmp(&have) {
            // What was there stays as it was when it fails.
            Ordering::Greater => self
                .grow(set, count)
                .inspect_err(|_| self.remove_from(set, have))?,
            Ordering::Less => self.retire(set, count),
            Ordering::Equal => {}
        }
        Ok(())
    }

    fn grow(&self, set: &mut Set, count: usize) -> Result {
        let have = set.channels.len();
        let Set {
            channels,
            base,
            log_cqes,
            ..
        } = set;
        let base = base.as_ref().ok_or(ENODEV)?;
        for index in have..count {
            // CAST: at most MAX_CHANNELS.
            let channel = Channel::new(&self.device, &self.queue, index as u32, *log_cqes)?;
            channel.create(base)?;
            if let Err(error) = channels.push(channel.clone(), GFP_KERNEL) {
                channel.destroy();
                return Err(error.into());
            }
        }
        self.publish(set)?;
        if !set.peer {
            pair_up(&set.channels, have)?;
        }
        if let Some(run) = set.run.as_ref().filter(|run| run.is_active()) {
            for channel in set.channels.iter().skip(have) {
                channel.core.enter(run);
                channel.wake();
            }
        }
        Ok(())
    }

    /// Lets the last channels finish and takes them away.
    fn retire(&self, set: &mut Set, count: usize) {
        for channel in set.channels.iter().skip(count) {
            channel.core.stop();
            channel.wake();
        }
        let deadline = Deadline::after(DRAIN);
        while set
            .channels
            .iter()
            .skip(count)
            .any(|channel| !channel.core.is_idle())
        {
            // Nothing moves when the device is lost.
            if deadline.is_over() || self.device.recovery.state() != State::Up {
                dev_warn!(self.device.pdev, "channels do not finish, taken away\n");
                break;
            }
            fsleep(STEP);
        }
        let Set {
            channels,
            retired,
            retired_channels,
            run,
            ..
        } = set;
        if run.is_some() {
            for channel in channels.iter().skip(count) {
                channel.core.hand_over(retired);
                *retired_channels = retired_channels.saturating_add(1);
            }
        }
        self.remove_from(set, count);
    }

    /// Takes the channels from number `count` on away.
    fn remove_from(&self, set: &mut Set, count: usize) {
        for channel in set.channels.iter().skip(count) {
            channel.destroy();
        }
        self.roster.set_channels(KVec::new());
        // Nobody wakes them any more. No task runs when the channels are dropped below: a task
        // that held the last reference to a channel would wait for itself.
        for channel in set.channels.iter().skip(count) {
            channel.quiesce();
        }
        while set.channels.len() > count {
            drop(set.channels.pop());
        }
        // There was room for more a moment ago.
        let _ = self.publish(set);
    }

    /// Tells the roster who there is.
    fn publish(&self, set: &Set) -> Result {
        let mut list = KVec::with_capacity(set.channels.len(), GFP_KERNEL)?;
        for channel in set.channels.iter() {
            list.push(channel.clone(), GFP_KERNEL)?;
        }
        self.roster.set_channels(list);
        Ok(())
    }
}

/// Connects channels from `first` on in pairs.
fn pair_up(channels: &[Arc<Channel>], first: usize) -> Result {
    for pair in channels.get(first..).unwrap_or(&[]).chunks_exact(2) {
        if let [a, b] = pair {
            Core::pair(&a.core, &b.core)?;
        }
    }
    Ok(())
}

/// Whether there may be `count` channels. Whether the HCA has so many shows when they are made.
fn check_count(count: u32, loopback: bool) -> Result<(), Refusal> {
    if count == 0 || count > layout::MAX_CHANNELS {
        return Err(Refusal::Range {
            min: 1,
            max: layout::MAX_CHANNELS,
        });
    }
    if loopback && count % 2 != 0 {
        return Err(Refusal::Odd);
    }
    Ok(())
}

/// log2 of the depth that serves `cqes`.
fn check_depth(caps: &Caps, cqes: u32) -> Result<u8, Refusal> {
    let max = 1u32 << caps.log_max_cq_size;
    if cqes < layout::MIN_CQES || cqes > max {
        return Err(Refusal::Range {
            min: layout::MIN_CQES,
            max,
        });
    }
    // CAST: below 32.
    Ok(cqes.next_power_of_two().ilog2() as u8)
}

impl Participant for Channels {
    fn name(&self) -> &'static str {
        "channels"
    }

    fn stop(&self) {
        let mut set = self.set.lock();
        for channel in set.channels.iter() {
            channel.abandon();
        }
        if let Some(control) = &set.control {
            control.abandon();
        }
        // The device forgets domain and address with everything else.
        set.base = None;
    }

    fn start(&self) -> Result {
        let device = &self.device;
        let mut guard = self.set.lock();
        let set = &mut *guard;
        if !set.used {
            return Ok(());
        }
        let base = Base::new(device)?;
        for channel in set.channels.iter() {
            channel.create(&base)?;
        }
        if let Some(control) = &set.control {
            control.create(&base)?;
        }
        set.base = Some(base);
        if set.peer {
            for channel in set.channels.iter() {
                channel.core.rejoin();
            }
        } else {
            pair_up(&set.channels, 0)?;
        }
        for channel in set.channels.iter() {
            channel.wake();
        }
        Ok(())
    }

    fn close(&self) {
        // Nobody comes in from outside any more.
        let faces = self.faces.lock().take();
        drop(faces);
        let mut guard = self.set.lock();
        let set = &mut *guard;
        for channel in set.channels.iter() {
            channel.core.stop();
        }
        self.remove_from(set, 0);
        self.roster.set_control(None);
        if let Some(control) = set.control.take() {
            control.destroy();
            // Nobody wakes its task any more.
            control.quiesce();
        }
        if let Some(base) = set.base.take() {
            base.close(&self.device.cmd);
        }
    }
}

impl Core {
    /// Takes part in a run from now on.
    fn enter(&self, run: &Arc<Run>) {
        let mut inner = self.inner.lock();
        let events = self.events.load(kernel::sync::atomic::ordering::Relaxed);
        run.enter();
        inner.flow.start(run.options);
        inner.entered = true;
        inner.completions = 0;
        inner.malformed = 0;
        inner.events_before = events;
        inner.run = Some(run.clone());
        let (period_us, count) = run.options.moderation;
        let moderation = Moderation { period_us, count };
        if moderation != inner.moderation {
            if let Some(hw) = &inner.hw {
                if let Err(error) = hw.cq.moderate(&self.device.cmd, moderation) {
                    dev_warn!(
                        self.device.pdev,
                        "channel {}: moderation: {}\n",
                        self.index,
                        error
                    );
                    return;
                }
            }
            inner.moderation = moderation;
        }
    }

    fn make(&self, trouble: Trouble) -> Result {
        let mut inner = self.inner.lock();
        match trouble {
            // Everything that is posted is flushed, and that is how the channel finds out.
            Trouble::Error => {
                let hw = inner.hw.as_mut().ok_or(ENODEV)?;
                hw.qp.fail(&self.device.cmd)
            }
            Trouble::Overrun => {
                inner.mute = true;
                Ok(())
            }
        }
    }

    /// Whether there is a connection that is not broken.
    fn is_in_force(&self) -> bool {
        let inner = self.inner.lock();
        inner.connection.is_some() && inner.broken.is_none()
    }

    /// Begins nothing new.
    fn stop(&self) {
        self.inner.lock().flow.stop();
    }

    /// Whether nothing is under way.
    fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.flow.is_done()
    }

    /// Adds the account of this channel to that of those that are gone, and leaves the run.
    fn hand_over(&self, retired: &mut Tally) {
        let mut inner = self.inner.lock();
        retired.merge(&inner.flow.tally);
        inner.flow.abandon();
        inner.finish_run();
    }

    /// Moves the CQ to a ring of `1 << log` entries. Nothing that is in the old one is lost.
    fn resize(&self, log: u8) -> Result {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if inner.log_cqes == log {
            return Ok(());
        }
        let node = self.device.comp_eq(self.vector).ok_or(ENODEV)?.node;
        let ring = CqRing::new(self.device.pdev.device(), node, log)?;
        if inner.hw.is_some() {
            // An earlier resize may still have completions in the old ring.
            self.drain(inner);
            let hw = inner.hw.as_mut().ok_or(ENODEV)?;
            hw.cq.resize(&self.device.cmd, ring)?;
        } else if let Some(rings) = &mut inner.rings {
            rings.set_cq(ring);
        }
        inner.log_cqes = log;
        drop(guard);
        // The old ring is read up to where the device left it.
        self.wake();
        Ok(())
    }
}
