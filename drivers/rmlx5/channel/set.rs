// SPDX-License-Identifier: GPL-2.0
//! All channels of a card: how many there are, who is connected to whom, what they run.
//!
//! Runs are in [`super::run`], other machines in [`super::exchange`], knobs in [`super::knobs`].
//!
//! Channels are made on first use: by a self-test, by reading `endpoint`, or by a write to
//! `num_qps`. From then on a write changes them while they work: channels that stay are not
//! touched, those that go finish what they have under way first.
//!
//! Whoever changes their number, their depth or whom they are connected to holds [`Channels::turn`]
//! for as long as it takes, and the mutex of the set only while it touches hardware. Memory for
//! many deep CQs can take a minute to come; the callbacks of a reset, which take the mutex of the
//! set alone, do not wait for it.

use core::cmp::Ordering;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        MutexGuard, //
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
    hardware::Base,
    knobs::{
        check_count,
        check_depth, //
    },
    layout,
    roster::Roster,
    run::Run,
    tally::Tally,
    Channel,
    Core, //
};
use crate::{
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
    pub(super) base: Option<Base>,
    /// Whether somebody has used channels yet.
    pub(super) used: bool,
    /// How many there are to be.
    pub(super) wanted: u32,
    /// log2 of the depth of their CQs.
    pub(super) log_cqes: u8,
    /// Connected to another machine, not in loopback pairs.
    pub(super) peer: bool,
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

/// The right to change the channels of a card; see [`Channels::turn`].
pub(super) struct Turn<'a>(#[expect(dead_code)] MutexGuard<'a, ()>);

/// The channels of a card.
#[pin_data]
pub(crate) struct Channels {
    pub(super) device: Arc<Device>,
    pub(super) queue: Arc<Queue>,
    pub(super) roster: Arc<Roster>,
    #[pin]
    turn: Mutex<()>,
    #[pin]
    pub(super) set: Mutex<Set>,
    /// Files and the ib_device; they refer to this value until close.
    #[pin]
    faces: Mutex<Option<super::files::Faces>>,
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
                turn <- new_mutex!(()),
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

    /// `EAGAIN` while a reset is under way, `ENODEV` for a device that is given up.
    pub(super) fn must_be_up(&self) -> Result {
        match self.device.recovery.state() {
            State::Up => Ok(()),
            State::Dead => Err(ENODEV),
            // A reset is under way; the caller may try again.
            _ => Err(EAGAIN),
        }
    }

    /// The right to change channels. Taken before the mutex of the set, never by a callback of a
    /// reset. Sleeps.
    pub(super) fn turn(&self) -> Turn<'_> {
        Turn(self.turn.lock())
    }

    /// Makes the channels unless they are there. Sleeps.
    pub(super) fn provision(&self, turn: &Turn<'_>) -> Result<MutexGuard<'_, Set>> {
        let wanted = self.set.lock().wanted;
        let mut set = self.grow_or_shrink(turn, wanted)?;
        set.used = true;
        Ok(set)
    }

    /// Makes or takes away channels until there are `count`. What was there stays as it was when it
    /// fails. Sleeps.
    pub(super) fn grow_or_shrink(
        &self,
        _turn: &Turn<'_>,
        count: u32,
    ) -> Result<MutexGuard<'_, Set>> {
        self.must_be_up()?;
        let count = count as usize;
        let (have, log_cqes) = {
            let set = self.set.lock();
            (set.channels.len(), set.log_cqes)
        };
        // Nobody else changes their number meanwhile.
        let fresh = self.allocate(have, count, log_cqes)?;
        let mut set = self.set.lock();
        // There may have been a reset meanwhile.
        self.must_be_up()?;
        if set.base.is_none() {
            set.base = Some(Base::new(&self.device)?);
        }
        match count.cmp(&have) {
            // What was there stays as it was when it fails.
            Ordering::Greater => {
                if let Err(error) = self.grow(&mut set, fresh) {
                    self.remove_from(&mut set, have);
                    return Err(error);
                }
            }
            Ordering::Less => self.retire(&mut set, count),
            Ordering::Equal => {}
        }
        Ok(set)
    }

    /// Channels from number `have` to below `count`, without hardware.
    fn allocate(&self, have: usize, count: usize, log_cqes: u8) -> Result<KVec<Arc<Channel>>> {
        let mut fresh = KVec::with_capacity(count.saturating_sub(have), GFP_KERNEL)?;
        for index in have..count {
            // CAST: at most MAX_CHANNELS.
            let channel = Channel::new(&self.device, &self.queue, index as u32, log_cqes)?;
            fresh.push(channel, GFP_KERNEL)?;
        }
        Ok(fresh)
    }

    fn grow(&self, set: &mut Set, fresh: KVec<Arc<Channel>>) -> Result {
        let have = set.channels.len();
        let Set { channels, base, .. } = set;
        let base = base.as_ref().ok_or(ENODEV)?;
        for channel in fresh {
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
pub(super) fn pair_up(channels: &[Arc<Channel>], first: usize) -> Result {
    for pair in channels.get(first..).unwrap_or(&[]).chunks_exact(2) {
        if let [a, b] = pair {
            Core::pair(&a.core, &b.core)?;
        }
    }
    Ok(())
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
        Ok(())
    }

    fn resume(&self) {
        let set = self.set.lock();
        for channel in set.channels.iter() {
            channel.wake();
        }
        if let Some(control) = &set.control {
            control.wake();
        }
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
            base.close(&self.device);
        }
    }
}
