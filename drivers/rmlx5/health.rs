// SPDX-License-Identifier: GPL-2.0
//! Is the firmware alive? Looked at once a second.
//!
//! Source of the signs: `mlx5_health_check_fatal_sensors`, `poll_health` in core/health.c. The PCI
//! core's recovery outranks the poll: it is paused while that runs. A verdict is logged once, ends
//! the generation, and asks for a function reset, which comes back through the reset callbacks.

use core::ops::Deref;

use kernel::{
    fmt,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        Arc,
        Mutex, //
    },
    time::Delta, //
};
use kernel_ext::{
    pci::BoundDevice,
    workqueue::{
        task,
        Job,
        Queue,
        Task, //
    },
};

use crate::{
    cmd::queue::Verdict as CmdVerdict,
    iseg::{
        Iseg,
        NicState, //
    },
    recovery::State, //
};

/// Distance of two looks.
const PERIOD: Delta = Delta::from_millis(1000);
/// Looks with an unchanged counter before the firmware counts as stuck. Source: `MAX_MISSES`.
const MISSES: u32 = 3;
/// Resets asked for before the device is given up; also counts tries that found the device lock
/// taken, or the device absent.
const RESET_TRIES: u32 = 30;
/// Good looks after which the count of resets starts anew.
const SETTLED: u32 = 60;

/// What the last look said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// All is well.
    Good,
    /// The counter does not move; reported, nothing else.
    Stuck,
    /// The firmware failed, with this syndrome.
    Syndrome(u8, u16),
    /// The firmware switched the interface off.
    Disabled,
    /// A command got no answer.
    NoAnswer,
    /// The device disappeared.
    Gone,
}

impl Sign {
    const fn pack(self) -> u32 {
        match self {
            Self::Good => 0,
            Self::Stuck => 1,
            Self::Syndrome(synd, ext) => 2 | (synd as u32) << 8 | (ext as u32) << 16,
            Self::Disabled => 3,
            Self::NoAnswer => 4,
            Self::Gone => 5,
        }
    }

    const fn unpack(word: u32) -> Self {
        match word & 0xff {
            0 => Self::Good,
            1 => Self::Stuck,
            // CAST: bytes of the word.
            2 => Self::Syndrome((word >> 8) as u8, (word >> 16) as u16),
            3 => Self::Disabled,
            4 => Self::NoAnswer,
            _ => Self::Gone,
        }
    }

    /// Whether only a reset helps.
    const fn fatal(self) -> bool {
        !matches!(self, Self::Good | Self::Stuck)
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::Stuck => f.write_str("stuck"),
            Self::Syndrome(synd, ext) => {
                write!(f, "firmware error (syndrome {synd:#x}, ext {ext:#x})")
            }
            Self::Disabled => f.write_str("disabled by firmware"),
            Self::NoAnswer => f.write_str("commands get no answer"),
            Self::Gone => f.write_str("gone"),
        }
    }
}

/// Whose health is looked after.
pub(crate) trait Patient: Send + Sync {
    /// What the command queue thinks.
    fn verdict(&self) -> CmdVerdict;
    /// Where the device is.
    fn state(&self) -> State;
    /// Nothing is sent any more. Does not sleep for the device.
    fn fail(&self, verdict: CmdVerdict);
    /// Goes to `Dead` and stops everything; `false` when it is dead already. From `Dead` nothing
    /// comes back, so this runs without the device lock.
    fn give_up(&self) -> bool;
}

/// Looks once a period.
#[pin_data]
struct Poll {
    pdev: BoundDevice,
    iseg: Arc<Iseg>,
    sign: Atomic<u32>,
    paused: Atomic<u32>,
    counter: Atomic<u32>,
    misses: Atomic<u32>,
    /// Resets asked for since the firmware was last seen good for a while.
    tries: Atomic<u32>,
    /// Good looks in a row.
    good: Atomic<u32>,
    #[pin]
    device: Mutex<Option<Arc<dyn Patient>>>,
}

impl Poll {
    /// Reads the signs; does nothing about them.
    fn look(&self, device: &dyn Patient) -> Sign {
        let health = self.iseg.health();
        if health.gone || device.verdict() == CmdVerdict::Gone {
            return Sign::Gone;
        }
        if device.verdict() == CmdVerdict::Broken {
            return Sign::NoAnswer;
        }
        if self.iseg.nic_state() != NicState::Full {
            return Sign::Disabled;
        }
        if health.syndrome != 0 && health.reset_request {
            return Sign::Syndrome(health.syndrome, health.ext_syndrome);
        }
        if health.counter == self.counter.load(Relaxed) {
            let misses = self.misses.load(Relaxed).saturating_add(1);
            self.misses.store(misses, Relaxed);
            if misses >= MISSES {
                return Sign::Stuck;
            }
        } else {
            self.misses.store(0, Relaxed);
        }
        self.counter.store(health.counter, Relaxed);
        Sign::Good
    }

    fn known(&self) -> Sign {
        Sign::unpack(self.sign.load(Relaxed))
    }

    /// Logs a sign that is new.
    fn note(&self, sign: Sign) {
        let old = Sign::unpack(self.sign.xchg(sign.pack(), Full));
        if old == sign {
            return;
        }
        match sign {
            Sign::Good => dev_info!(self.pdev, "health: good again\n"),
            Sign::Stuck => dev_warn!(self.pdev, "health: counter does not move, compromised\n"),
            Sign::Gone => dev_err!(self.pdev, "health: PCIe Link Down, device is gone\n"),
            sign => dev_err!(self.pdev, "health: {}, resetting the function\n", sign),
        }
    }

    /// Ends the generation and asks for a reset, which runs the reset callbacks.
    fn act(&self, device: &dyn Patient, sign: Sign) {
        device.fail(match sign {
            Sign::Gone => CmdVerdict::Gone,
            _ => CmdVerdict::Broken,
        });
        let tries = self.tries.load(Relaxed).saturating_add(1);
        self.tries.store(tries, Relaxed);
        if tries > RESET_TRIES {
            if device.give_up() {
                dev_err!(
                    self.pdev,
                    "health: {}, no reset helped, device is dead until it is bound again\n",
                    sign
                );
            }
            return;
        }
        // The device lock may be held by somebody who waits for this work: never wait for it.
        if self.pdev.is_present() {
            let _ = self.pdev.try_reset();
        }
    }
}

/// The pinned poll, as a job.
struct Look(Pin<KBox<Poll>>);

impl Deref for Look {
    type Target = Poll;

    fn deref(&self) -> &Poll {
        &self.0
    }
}

impl Job for Look {
    fn run(&self) -> Option<Delta> {
        let device = self.device.lock().clone()?;
        if self.paused.load(Relaxed) != 0 {
            return Some(PERIOD);
        }
        match device.state() {
            State::Up => {}
            State::Dead => return None,
            State::Draining | State::Resetting => return Some(PERIOD),
        }
        let sign = self.look(&*device);
        self.note(sign);
        if sign.fatal() {
            self.good.store(0, Relaxed);
            self.act(&*device, sign);
        } else {
            let good = self.good.load(Relaxed).saturating_add(1);
            self.good.store(good, Relaxed);
            if good > SETTLED {
                self.tries.store(0, Relaxed);
            }
        }
        Some(PERIOD)
    }
}

/// The poller of one device.
pub(crate) struct Health {
    task: Task<Look>,
}

impl Health {
    /// Allocates the poller; it does nothing yet.
    pub(crate) fn new(queue: &Arc<Queue>, pdev: &BoundDevice, iseg: Arc<Iseg>) -> Result<Self> {
        let poll = KBox::pin_init(
            pin_init!(Poll {
                pdev: pdev.clone(),
                iseg,
                sign: Atomic::new(Sign::Good.pack()),
                paused: Atomic::new(0),
                counter: Atomic::new(0),
                misses: Atomic::new(0),
                tries: Atomic::new(0),
                good: Atomic::new(0),
                device <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            task: task!(queue, "rmlx5_health", Look(poll))?,
        })
    }

    /// Looks from now on. Sleeps.
    pub(crate) fn start(&self, device: Arc<dyn Patient>) {
        let poll = self.task.job();
        let old = poll.device.lock().replace(device);
        drop(old);
        poll.misses.store(0, Relaxed);
        self.task.schedule_after(PERIOD);
    }

    /// Looks no more; no look is under way when this returns. Sleeps.
    pub(crate) fn stop(&self) {
        let old = self.task.job().device.lock().take();
        self.task.cancel();
        drop(old);
    }

    /// Somebody else recovers the device. Any context; may be called by the poll itself.
    pub(crate) fn pause(&self) {
        self.task.job().paused.store(1, Relaxed);
    }

    /// The device is back.
    pub(crate) fn resume(&self) {
        let poll = self.task.job();
        poll.misses.store(0, Relaxed);
        poll.paused.store(0, Relaxed);
    }

    /// What the last look said, for sysfs `health`.
    pub(crate) fn sign(&self) -> Sign {
        self.task.job().known()
    }
}
