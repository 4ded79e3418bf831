// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of a cable, shared by the thread that sends and the thread that waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};

use crate::capture::Capture;
use crate::faults::{Dice, Fate, Faults};
use crate::mark::mark;
use crate::plug::{Arrival, Plug, Sent};
use crate::spec::LinkSpec;

/// Longest frame a port carries, bytes without FCS.
pub const MAX_FRAME: usize = 16 * 1024;
/// Frames that may wait for the socket; 4096 RoCE packets of 4 KiB are 16 MiB.
const QUEUE: usize = 4096;
/// Frames handed on in one go, so that the caller's lock is not held for long.
const BURST: usize = 64;
/// How often the calling end looks for the other one.
const CALL_EVERY: Duration = Duration::from_millis(100);
/// How long a frame that is to be overtaken waits for one that overtakes it.
const HOLD: Duration = Duration::from_millis(5);

/// A port that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("Cannot open the link {spec:?}")]
pub struct PortError {
    /// What was asked for.
    pub spec: LinkSpec,
    /// Why not.
    #[source]
    pub source: io::Error,
}

/// What a port has seen since it was opened. Frames and bytes, without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that left.
    pub tx_frames: u64,
    /// Bytes that left.
    pub tx_bytes: u64,
    /// Frames that came.
    pub rx_frames: u64,
    /// Bytes that came.
    pub rx_bytes: u64,
    /// Frames the queue had no room for.
    pub tx_overflow: u64,
    /// Frames sent without a carrier, or too long.
    pub tx_refused: u64,
    /// Frames a fault ate.
    pub lost: u64,
    /// Frames a fault sent twice.
    pub duplicated: u64,
    /// Frames a fault let others overtake.
    pub reordered: u64,
    /// Frames marked for congestion.
    pub marked: u64,
}

/// A frame in the cable.
struct Waiting {
    due: Instant,
    frame: Vec<u8>,
}

struct Inner {
    spec: LinkSpec,
    plug: Option<Plug>,
    /// Plugged in on this side.
    cable: bool,
    /// What the other end says about its side.
    remote: bool,
    /// The other end has to be told about this side.
    announce: bool,
    dice: Dice,
    /// In order of departure; `due` never decreases.
    queue: VecDeque<Waiting>,
    /// A frame waiting to be overtaken.
    held: Option<Waiting>,
    capture: Option<Capture>,
    counters: Counters,
    /// The link as last reported by [`Port::process`].
    reported: bool,
    buffer: Vec<u8>,
}

/// One end of a cable. All methods may be called from any thread and none blocks. The file
/// descriptor becomes readable when [`Port::process`] has something to do.
pub struct Port {
    inner: Mutex<Inner>,
    ready: OwnedFd,
    timer: OwnedFd,
}

impl Port {
    /// Opens a port; the first [`Port::process`] reports the link if it is up already. A port of a
    /// cable within the process is opened by [`crate::Cables`].
    ///
    /// # Errors
    /// [`PortError`] when the socket cannot be made.
    pub fn open(spec: LinkSpec, capture: Option<Capture>) -> Result<Self, PortError> {
        let plug = |ready: &OwnedFd| match &spec {
            LinkSpec::None | LinkSpec::Silent => Ok(None),
            LinkSpec::Listen(path) => Plug::listen(path, ready).map(Some),
            LinkSpec::Connect(path) => Ok(Some(Plug::call(path))),
            LinkSpec::Join(_) => Err(io::Error::from(io::ErrorKind::NotConnected)),
        };
        Self::with(spec.clone(), capture, plug)
    }

    /// The same with a plug of any kind; it gets the descriptor that wakes the port.
    pub(crate) fn with(
        spec: LinkSpec,
        capture: Option<Capture>,
        plug: impl FnOnce(&OwnedFd) -> io::Result<Option<Plug>>,
    ) -> Result<Self, PortError> {
        let named = spec.clone();
        let open = || -> io::Result<Self> {
            let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            epoll::add(
                &ready,
                &timer,
                epoll::EventData::new_u64(0),
                epoll::EventFlags::IN,
            )?;
            let plug = plug(&ready)?;
            let inner = Inner {
                spec,
                plug,
                cable: true,
                remote: true,
                announce: false,
                dice: Dice::new(Faults::default()),
                queue: VecDeque::new(),
                held: None,
                capture,
                counters: Counters::default(),
                reported: false,
                buffer: vec![0; MAX_FRAME + 1],
            };
            let port = Self {
                inner: Mutex::new(inner),
                ready,
                timer,
            };
            // The first look happens in process(), like all others.
            port.wake_after(Duration::from_nanos(1));
            Ok(port)
        };
        open().map_err(|source| PortError {
            spec: named,
            source,
        })
    }

    /// Sends one frame: now, or when the faults say so.
    pub fn send(&self, frame: &[u8]) {
        let mut inner = self.lock();
        if !inner.link() || frame.len() > MAX_FRAME {
            inner.counters.tx_refused += 1;
            return;
        }
        let fate = inner.dice.throw();
        if fate == Fate::Lose {
            inner.counters.lost += 1;
            return;
        }
        let mut marked = Vec::new();
        let frame = if inner.dice.mark() {
            marked.extend_from_slice(frame);
            inner.counters.marked += u64::from(mark(&mut marked));
            &marked
        } else {
            frame
        };
        let delay = inner.dice.delay();
        if fate == Fate::Behind && inner.held.is_none() {
            inner.counters.reordered += 1;
            let due = Instant::now() + delay + HOLD;
            inner.held = Some(Waiting {
                due,
                frame: frame.to_vec(),
            });
            drop(inner);
            self.wake_after(HOLD);
            return;
        }
        inner.depart(frame, delay);
        if fate == Fate::Twice {
            inner.counters.duplicated += 1;
            inner.depart(frame, delay);
        }
        if let Some(held) = inner.held.take() {
            inner.depart(&held.frame, delay);
        }
        let wake = inner.flush(&self.ready);
        drop(inner);
        if let Some(after) = wake {
            self.wake_after(after);
        }
    }

    /// Does what is due: finds or loses the other end, takes frames from the cable and gives each
    /// to `deliver` (outside the port's lock). Returns the link when it changed.
    pub fn process(&self, deliver: &mut dyn FnMut(&[u8])) -> Option<bool> {
        let mut ticks = [0; 8];
        // Nothing to read means that another descriptor woke us.
        let _ = rustix::io::read(&self.timer, &mut ticks);
        let mut inner = self.lock();
        inner.join(&self.ready);
        let frames = inner.take_arrivals();
        inner.release_held();
        self.flush(&mut inner);
        let link = inner.link();
        let changed = link != inner.reported;
        inner.reported = link;
        drop(inner);
        for frame in &frames {
            deliver(frame);
        }
        changed.then_some(link)
    }

    /// Whether there is a carrier.
    pub fn link(&self) -> bool {
        self.lock().link()
    }

    /// Pulls or plugs the cable on this side; both ends see it.
    pub fn set_cable(&self, plugged: bool) {
        let mut inner = self.lock();
        inner.cable = plugged;
        inner.announce = true;
        drop(inner);
        self.wake_after(Duration::from_nanos(1));
    }

    /// Replaces the faults.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().dice = Dice::new(faults);
    }

    /// What the port has seen.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// Counts from zero again.
    pub fn reset_counters(&self) {
        self.lock().counters = Counters::default();
    }

    /// Sends what may go and sets the timer for the rest, under the lock, so that the timer
    /// always belongs to the newest state.
    fn flush(&self, inner: &mut Inner) {
        if let Some(after) = inner.flush(&self.ready) {
            self.wake_after(after);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_after(&self, after: Duration) {
        // CAST: delays are far below 2^63 seconds.
        let value = Timespec {
            tv_sec: after.as_secs() as i64,
            tv_nsec: i64::from(after.subsec_nanos().max(1)),
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        // The timer cannot fail with a valid time and an own descriptor.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Inner {
    fn link(&self) -> bool {
        let far = match (&self.spec, &self.plug) {
            (LinkSpec::None, _) => false,
            (_, None) => true,
            (_, Some(plug)) => plug.connected() && self.remote,
        };
        self.cable && far
    }

    /// Looks for the other end and tells it about this one.
    fn join(&mut self, ready: &OwnedFd) {
        if let Some(plug) = &mut self.plug {
            if plug.join(ready) {
                self.announce = true;
                self.remote = true;
                tracing::info!(link = ?self.spec, "the other end is there");
            }
        }
    }

    fn take_arrivals(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let Some(plug) = &mut self.plug else {
            return frames;
        };
        while frames.len() < BURST {
            match plug.receive(&mut self.buffer) {
                None => break,
                Some(Arrival::Frame(frame)) => frames.push(frame),
                Some(Arrival::Carrier(up)) => self.remote = up,
                Some(Arrival::Gone) => {
                    tracing::info!(link = ?self.spec, "the other end is gone");
                    self.queue.clear();
                    self.held = None;
                    break;
                }
            }
        }
        // Without a cable on this side nothing arrives, whatever was in it.
        frames.retain(|frame| self.cable && !frame.is_empty());
        for frame in &frames {
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.len() as u64;
            if let Some(capture) = &mut self.capture {
                capture.frame(frame);
            }
        }
        frames
    }

    /// Nobody overtook the held frame in time: it goes.
    fn release_held(&mut self) {
        if self
            .held
            .as_ref()
            .is_some_and(|held| held.due <= Instant::now())
        {
            if let Some(held) = self.held.take() {
                self.depart(&held.frame, Duration::ZERO);
            }
        }
    }

    /// Puts a frame into the cable.
    fn depart(&mut self, frame: &[u8], delay: Duration) {
        if self.queue.len() >= QUEUE {
            self.counters.tx_overflow += 1;
            return;
        }
        // A shorter delay set later must not let frames overtake.
        let earliest = self.queue.back().map(|last| last.due);
        let due = (Instant::now() + delay).max(earliest.unwrap_or_else(Instant::now));
        self.queue.push_back(Waiting {
            due,
            frame: frame.to_vec(),
        });
    }

    /// Sends what is due and fits. Returns when to come back, if at a certain time.
    fn flush(&mut self, ready: &OwnedFd) -> Option<Duration> {
        let now = Instant::now();
        let mut full = false;
        if let Some(plug) = self.plug.as_mut().filter(|_| self.announce) {
            full = plug.send_carrier(self.cable) == Sent::Full;
            self.announce = full;
        }
        while let Some(first) = self.queue.front() {
            if first.due > now || full {
                break;
            }
            let sent = match &mut self.plug {
                Some(plug) => plug.send_frame(&first.frame),
                // A silent switch takes everything.
                None => Sent::Yes,
            };
            if sent == Sent::Full {
                full = true;
                break;
            }
            if let Some(gone) = self.queue.pop_front() {
                self.departed(&gone.frame, sent);
            }
        }
        if let Some(plug) = &mut self.plug {
            plug.want_room(ready, full);
        }
        let calling = self
            .plug
            .as_ref()
            .is_some_and(Plug::must_call)
            .then_some(CALL_EVERY);
        let queued = self
            .queue
            .front()
            .filter(|_| !full)
            .map(|first| first.due - now);
        let held = self
            .held
            .as_ref()
            .map(|held| held.due.saturating_duration_since(now));
        [calling, queued, held].into_iter().flatten().min()
    }

    fn departed(&mut self, frame: &[u8], sent: Sent) {
        if sent == Sent::Gone {
            self.counters.tx_refused += 1;
            return;
        }
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += frame.len() as u64;
        if let Some(capture) = &mut self.capture {
            capture.frame(frame);
        }
    }
}
