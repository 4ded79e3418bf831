// SPDX-License-Identifier: GPL-2.0
//! One card, from probe to unbind.
//!
//! A device lives through generations: [`Device::up`] begins one, [`Device::lost`] or
//! [`Device::shut`] ends it. Host memory, vectors and interrupts stay; what the device knows is made
//! anew. All three run under the PCI core's device lock (probe, remove, error and reset callbacks).
//!
//! The order of the fields is the teardown plan: interrupts and queues first, then what commands
//! need, BAR and PCI device last.

use kernel::{
    dma::DmaMask,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SetOnce,
        SpinLockIrq, //
    }, //
};
use kernel_ext::{
    debugfs::Dir,
    numa::Node,
    pci::{
        Bar,
        BoundDevice,
        Enabled, //
    },
    workqueue::{
        self,
        Queue, //
    },
};

use crate::{
    boot::{
        self,
        Boot,
        Caller,
        Card,
        Progress, //
    },
    buf::PAGE,
    caps::Caps,
    census::{
        Counted,
        Kind, //
    },
    clock::Clock,
    cmd::{
        queue::Verdict,
        room::Object,
        Cmd, //
    },
    dirs,
    eq::sink::{
        Async,
        CompEq, //
    },
    event::Registry,
    health::{
        Health,
        Patient, //
    },
    irq::Eqs,
    iseg::Iseg,
    master::Master,
    pages::{
        Pages,
        Requests, //
    },
    port::roce::Roce,
    port_counters::PortCounters,
    recovery::{
        Recovery,
        State, //
    },
    uar::{
        Mapping,
        Uar, //
    },
    wc::{
        Answer,
        Place,
        WriteCombining, //
    },
    worker::{
        Supplier,
        Worker, //
    }, //
};

/// Longest piece of a scatter list, in bytes. Source: `set_dma_caps` in core/main.c.
const MAX_SEGMENT: u32 = 2 << 30;

/// What changes with each generation.
struct Current {
    caps: Option<Caps>,
    uar: Option<Arc<Uar>>,
    progress: Progress,
}

/// A card. Shared by everything that works on it; dropped at the end of unbind.
#[pin_data]
pub(crate) struct Device {
    /// Vectors and event queues, from the first bring-up on.
    eqs: SetOnce<Eqs>,
    /// Polls the firmware's health.
    pub(crate) health: Health,
    /// Time stamps of the card, in nanoseconds.
    pub(crate) clock: Clock,
    /// Answers page requests.
    worker: Arc<Worker>,
    requests: Arc<Requests>,
    /// Asynchronous events.
    pub(crate) events: Arc<Registry>,
    #[pin]
    current: SpinLockIrq<Current>,
    /// Generations and who takes part in them.
    #[pin]
    pub(crate) recovery: Recovery,
    /// RoCE on the port.
    #[pin]
    pub(crate) roce: Roce,
    /// What the port's RDMA queues have counted.
    pub(crate) counters: Arc<PortCounters>,
    /// The command interface.
    pub(crate) cmd: Cmd,
    /// Pages the firmware borrows. After `cmd`: the queue is gone when they are freed.
    #[pin]
    pub(crate) pages: Pages,
    /// Whether BlueFlame works here.
    #[pin]
    pub(crate) combining: WriteCombining,
    /// Initialization segment.
    pub(crate) iseg: Arc<Iseg>,
    /// BAR0, for UAR pages.
    pub(crate) bar: Bar,
    enabled: Enabled,
    /// 1 while the card may reach memory.
    master: Arc<Master>,
    /// `rmlx5/BDF/` in debugfs.
    pub(crate) debugfs: Arc<Dir>,
    /// Node the card is attached to.
    pub(crate) node: Node,
    /// The PCI device. Last: the driver is bound as long as a claim exists.
    pub(crate) pdev: BoundDevice,
    _counted: Counted,
}

impl Device {
    /// Enables the PCI device and allocates what every generation needs. The card is not touched
    /// beyond reading its first registers.
    pub(crate) fn new(pdev: &BoundDevice) -> Result<Arc<Self>> {
        let enabled = Enabled::new(pdev)?;
        pdev.set_dma_mask(DmaMask::new::<64>())
            .or_else(|_| pdev.set_dma_mask(DmaMask::new::<32>()))?;
        pdev.set_max_segment(MAX_SEGMENT);
        let bar = Bar::claim(pdev, 0, c"rmlx5")?;
        let iseg = Arc::new(Iseg::new(&bar)?, GFP_KERNEL)?;
        if iseg.gone() {
            dev_err!(pdev, "PCIe Link Down: device does not answer\n");
            return Err(ENODEV);
        }
        let node = Node::of_device(pdev.device());
        let master = Arc::new(Master::new(pdev), GFP_KERNEL)?;
        let cmd = Cmd::new(pdev, iseg.clone(), master.clone(), node)?;
        let queue = Queue::new(c"rmlx5", workqueue::Kind::Unbound)?;
        let worker = Worker::new(&queue)?;
        let requests = Requests::new(worker.clone())?;
        let events = Arc::pin_init(Registry::new(), GFP_KERNEL)?;
        let counters = Arc::pin_init(PortCounters::new(), GFP_KERNEL)?;
        events.listen(counters.clone())?;
        let debugfs = dirs::directory(pdev.name())?;
        let health = Health::new(&queue, pdev, iseg.clone())?;
        let clock = Clock::new(&queue, iseg.clone())?;
        Arc::pin_init(
            try_pin_init!(Self {
                eqs: SetOnce::new(),
                health,
                clock,
                worker,
                requests,
                events,
                current <- new_spinlock_irq!(Current {
                    caps: None,
                    uar: None,
                    progress: Progress::Nothing,
                }),
                recovery <- Recovery::new(),
                roce <- Roce::new(),
                counters,
                cmd,
                pages <- Pages::new(pdev.clone()),
                combining <- WriteCombining::new(crate::blue_flame()),
                iseg,
                bar,
                enabled,
                master,
                debugfs,
                node,
                pdev: pdev.clone(),
                _counted: Counted::new(Kind::Device),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Begins a generation: everything up to armed event queues. The device was just found, or
    /// reset. On failure the caller ends it with [`Device::shut`].
    pub(crate) fn up(self: &Arc<Self>, caller: Caller) -> Result {
        self.pages.forget(&self.requests);
        self.progress(Progress::Nothing);
        self.master.begin();
        let progress = |progress| self.progress(progress);
        let ready = Boot::begin(self.card(&progress), caller)?
            .enable()?
            .configure()?
            .initialise()?;
        let caps = ready.caps();
        self.tell_rooms(&caps);
        let previous = {
            let mut current = self.current.lock();
            current.caps = Some(caps);
            current.uar.take()
        };
        let uar = Uar::alloc(&self.cmd, &self.bar, Mapping::Uncached, previous)?;
        self.current.lock().uar = Some(uar.clone());
        if self.eqs.as_ref().is_none() {
            let eqs = Eqs::new(&self.pdev, self.node, &self.cmd, self.async_sink(), &caps)?;
            self.eqs.populate(eqs);
        }
        self.eqs.as_ref().ok_or(EINVAL)?.create(&self.cmd, &uar)?;
        self.worker.open(self.clone());
        self.clock.begin(caps.clock_khz);
        Ok(())
    }

    /// The generation is over and the device cannot be talked to: all waiters return, nothing is
    /// sent or rung any more. Does not sleep for the device. Any process context.
    pub(crate) fn lost(&self, verdict: Verdict) {
        self.cmd.fail(verdict);
        if let Some(eqs) = self.eqs.as_ref() {
            eqs.stop();
        }
        self.cmd.use_polling();
        self.clock.stop();
        self.worker.close();
        self.progress(Progress::Nothing);
    }

    /// Ends the generation in order, as far as the device helps. Afterwards the device does not
    /// master the bus any more, whatever it thinks.
    pub(crate) fn shut(&self) {
        self.clock.stop();
        self.worker.close();
        if let Some(eqs) = self.eqs.as_ref() {
            eqs.destroy(&self.cmd);
        }
        self.cmd.use_polling();
        let (progress, uar) = {
            let current = self.current.lock();
            (current.progress, current.uar.clone())
        };
        if let Some(uar) = uar {
            if progress >= Progress::Initialised {
                uar.dealloc(&self.cmd);
            }
        }
        boot::undo(self.card(&|progress| self.progress(progress)), progress);
        self.progress(Progress::Nothing);
        self.cmd.fail(Verdict::Dead);
    }

    /// Lets go of the card for good: participants first, then the hardware. At unbind.
    pub(crate) fn close(&self) {
        self.health.stop();
        self.recovery.close_all();
        self.counters.end(&self.cmd, self.cmd.generation());
        self.shut();
        self.recovery.go(State::Dead);
        self.events.clear();
        self.pages.free();
        self.current.lock().uar.take();
    }

    /// Enables the PCI function again after a slot reset: its configuration space is restored and
    /// saved state stays for the next time.
    pub(crate) fn reenable(&self) -> Result {
        self.enabled.enable()?;
        self.pdev.restore_state();
        Ok(())
    }

    /// Switches bus mastering off, for a device whose generation is over.
    pub(crate) fn quiesce(&self) {
        self.master.end();
    }

    /// Whether the card may reach memory. Any context.
    pub(crate) fn is_bus_master(&self) -> bool {
        self.master.is_on()
    }

    /// Notes how far the device is.
    fn progress(&self, progress: Progress) {
        self.current.lock().progress = progress;
    }

    /// Tells the command queue how many objects the card has, for its lines.
    fn tell_rooms(&self, caps: &Caps) {
        // CAST: a BAR is far smaller than 16 TiB.
        let uars = (self.bar.len() / PAGE as u64) as u32;
        for (object, count) in [
            (Object::Pd, 1 << caps.log_max_pd),
            (Object::Uar, uars),
            (Object::Mkey, 1 << caps.log_max_mkey),
            (Object::Cq, 1 << caps.log_max_cq),
            (Object::Qp, 1 << caps.log_max_qp),
            (Object::Srq, caps.max_srq()),
            (Object::Xrcd, 1 << caps.log_max_xrcd),
            (Object::Group, 1 << caps.log_max_multicast),
            (Object::Member, caps.max_multicast_qps),
        ] {
            self.cmd.rooms.set(object, count);
        }
    }

    /// The capabilities of the current generation. `ENODEV` before the first one.
    pub(crate) fn caps(&self) -> Result<Caps> {
        self.current.lock().caps.ok_or(ENODEV)
    }

    /// The set of counters that QPs of the current generation count in; 0: none. Sleeps.
    pub(crate) fn counter_set(&self) -> u8 {
        // Who is late, from an earlier generation, must not ask a card that is being brought up: its
        // refusal would stand.
        if self.current.lock().progress < Progress::Initialised {
            return 0;
        }
        self.counters.set(&self.cmd, self.cmd.generation())
    }

    /// The UAR page of the current generation for EQ, CQ and plain send doorbells; uncached.
    pub(crate) fn uar(&self) -> Result<Arc<Uar>> {
        self.current.lock().uar.clone().ok_or(ENODEV)
    }

    /// Whether WQEs may be written to BlueFlame registers. The first call finds out, which takes a
    /// few commands and at most some 100 ms; a failure is logged and means no. Sleeps.
    pub(crate) fn blue_flame(&self) -> bool {
        let before = self.combining.known();
        if before != Answer::Unknown {
            return before == Answer::Works;
        }
        match self.test_combining() {
            Ok(answer) => {
                dev_info!(self.pdev, "BlueFlame: {}\n", answer.text());
                answer == Answer::Works
            }
            Err(error) => {
                dev_warn!(
                    self.pdev,
                    "BlueFlame: test failed: error {}, plain doorbells\n",
                    error.to_errno()
                );
                false
            }
        }
    }

    fn test_combining(&self) -> Result<Answer> {
        let eqn = self.comp_eq(0).and_then(|eq| eq.eq.number());
        self.combining.find_out(&Place {
            dev: self.pdev.device(),
            node: self.node,
            cmd: &self.cmd,
            bar: &self.bar,
            caps: self.caps()?,
            uar: self.uar()?,
            eqn: eqn.ok_or(ENODEV)?,
        })
    }

    /// Vectors and event queues; `None` before the first bring-up.
    pub(crate) fn eqs(&self) -> Option<&Eqs> {
        self.eqs.as_ref()
    }

    /// The completion EQ of completion vector `index`.
    pub(crate) fn comp_eq(&self, index: usize) -> Option<&CompEq> {
        self.eqs.as_ref()?.completions().get(index)
    }

    /// Number in /proc/interrupts of completion vector `index`.
    pub(crate) fn comp_irq(&self, index: usize) -> Option<u32> {
        let vectors = self.eqs.as_ref()?.completion_vectors();
        Some(vectors.get(index)?.number())
    }

    /// What a bring-up works on.
    fn card<'a>(&'a self, progress: &'a dyn Fn(Progress)) -> Card<'a> {
        Card {
            pdev: &self.pdev,
            iseg: &self.iseg,
            cmd: &self.cmd,
            pages: &self.pages,
            progress,
        }
    }

    /// Where the events of the async EQ go.
    fn async_sink(&self) -> Async {
        Async {
            registry: self.events.clone(),
            pages: self.requests.clone(),
            completions: KVec::new(),
        }
    }

    /// Page requests that were refused at the edge.
    pub(crate) fn refused_requests(&self) -> u64 {
        self.requests.refused.get()
    }
}

impl Supplier for Device {
    fn answer_pages(&self) {
        self.pages.answer(&self.cmd, &self.requests);
    }
}

impl Patient for Device {
    fn verdict(&self) -> Verdict {
        self.cmd.verdict()
    }

    fn state(&self) -> State {
        self.recovery.state()
    }

    fn fail(&self, verdict: Verdict) {
        self.cmd.fail(verdict);
    }

    fn give_up(&self) -> bool {
        if !self.recovery.go(State::Dead) {
            return false;
        }
        self.lost(Verdict::Broken);
        self.recovery.stop_all();
        true
    }
}
