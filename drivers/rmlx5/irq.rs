// SPDX-License-Identifier: GPL-2.0
//! Interrupt vectors and the event queues behind them.
//!
//! | vectors | 0 | 1 | 2 and up |
//! |---|---|---|---|
//! | 3 or more | async (with pages) | command | one completion EQ each |
//! | 2 | async, command | completion EQ | |
//! | 1 | async, command, completion EQ | | |
//!
//! Vectors are spread from the card's node outwards, as hints: a person or irqbalance may move them,
//! and what they set stays. Numbers and names stay from the first bring-up to unbind, across every
//! reset; memory of a queue comes from the node of its CPU.

use kernel::{
    cpu::CpuId,
    prelude::*,
    str::CString,
    sync::Arc, //
};
use kernel_ext::{
    irq::{
        Handler,
        IrqReturn,
        Registration,
        Vectors, //
    },
    numa::{
        self,
        Node, //
    },
    pci::BoundDevice,
};

use crate::{
    caps::Caps,
    census::{
        Counted,
        Kind, //
    },
    cmd::{
        queue::Counter,
        Cmd, //
    },
    eq::{
        sink::{
            Async,
            Commands,
            CompEq,
            CompSink, //
        },
        Eq,
        Source, //
    },
    event::ASYNC_MASK,
    uar::Uar, //
};

/// Entries of the command EQ: every slot can have one outstanding.
const COMMAND_ENTRIES: u32 = 32;
/// Entries of the async EQ.
const ASYNC_ENTRIES: u32 = 1024;
/// Entries of a completion EQ, as in the C driver (`MLX5_COMP_EQ_SIZE`).
const COMP_ENTRIES: u32 = 1024;
/// Bit of command completions in an event mask.
const COMMAND_MASK: u64 = 1 << mlx5_hw::raw::MLX5_EVENT_TYPE_CMD;

/// Which vector serves what.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Plan {
    command: u16,
    first_completion: u16,
    completions: u16,
}

impl Plan {
    /// The table above, for `vectors` vectors of which at most `wanted` are for completions.
    fn new(vectors: u16, wanted: u16) -> Self {
        match vectors {
            0 | 1 => Self {
                command: 0,
                first_completion: 0,
                completions: 1,
            },
            2 => Self {
                command: 0,
                first_completion: 1,
                completions: 1,
            },
            n => Self {
                command: 1,
                first_completion: 2,
                completions: wanted.min(n - 2).max(1),
            },
        }
    }

    /// The part of an interrupt's name that says what the vector is for.
    fn role(self, vector: u16) -> Result<CString> {
        if self.first_completion == 0 {
            return CString::try_from_fmt(fmt!("all"));
        }
        if vector >= self.first_completion {
            return CString::try_from_fmt(fmt!("comp{}", vector - self.first_completion));
        }
        CString::try_from_fmt(match (vector, self.command) {
            (0, 0) => fmt!("ctrl"),
            (0, _) => fmt!("async"),
            _ => fmt!("cmd"),
        })
    }
}

/// What one vector does: serve its queues.
struct Line {
    sources: KVec<Arc<dyn Source>>,
    interrupts: Arc<Counter>,
}

impl Handler for Line {
    fn handle(&self) -> IrqReturn {
        self.interrupts.inc();
        for source in self.sources.iter() {
            source.service();
        }
        IrqReturn::Handled
    }
}

/// One vector, as shown to people.
pub(crate) struct Vector {
    irq: Registration,
    /// Interrupts so far.
    pub(crate) interrupts: Arc<Counter>,
    /// The CPU it was hinted to.
    pub(crate) cpu: Option<CpuId>,
    _counted: Counted,
}

impl Vector {
    /// Number in /proc/interrupts.
    pub(crate) fn number(&self) -> u32 {
        self.irq.irq()
    }
}

/// All vectors and queues of a device. Interrupts are freed before the queues.
pub(crate) struct Eqs {
    vectors: KVec<Vector>,
    completions: KVec<CompEq>,
    asynchronous: Arc<Eq<Async>>,
    command: Arc<Eq<Commands>>,
    plan: Plan,
    set: Vectors,
}

impl Eqs {
    /// Allocates vectors and queues for the whole life of the device, and requests the interrupts.
    pub(crate) fn new(
        pdev: &BoundDevice,
        node: Node,
        cmd: &Cmd,
        sink: Async,
        caps: &Caps,
    ) -> Result<Self> {
        // Two EQs are for commands and async events.
        let knob = match crate::comp_vectors() {
            0 => u32::MAX,
            n => n,
        };
        let wanted = numa::online_cpus()
            .min(caps.max_eqs.saturating_sub(2))
            .min(knob)
            .clamp(1, 1024);
        let limit = match crate::max_vectors() {
            0 => u32::MAX,
            n => n,
        };
        let set = Vectors::alloc(pdev, 1, wanted.saturating_add(2).min(limit))?;
        // CAST: at most 2048, the limit of MSI-X.
        let plan = Plan::new(set.len() as u16, wanted as u16);
        let command = Eq::new(
            pdev,
            node,
            COMMAND_ENTRIES,
            plan.command,
            COMMAND_MASK,
            Commands::new(cmd.queue().clone()),
        )?;
        let mut completions = KVec::with_capacity(plan.completions.into(), GFP_KERNEL)?;
        for index in 0..plan.completions {
            let near = node.nearby_cpu(index.into()).map_or(node, Node::of_cpu);
            let eq = Eq::new(
                pdev,
                near,
                COMP_ENTRIES,
                plan.first_completion + index,
                0,
                CompSink::default(),
            )?;
            completions.push(CompEq { eq, node: near }, GFP_KERNEL)?;
        }
        let mut sink = sink;
        for completion in completions.iter() {
            sink.completions.push(completion.eq.clone(), GFP_KERNEL)?;
        }
        let asynchronous = Eq::new(pdev, node, ASYNC_ENTRIES, 0, ASYNC_MASK, sink)?;
        let mut eqs = Self {
            vectors: KVec::new(),
            completions,
            asynchronous,
            command,
            plan,
            set,
        };
        // CAST: at most 2048.
        for vector in 0..eqs.set.len() as u16 {
            if let Some(vector) = eqs.request(pdev, node, vector)? {
                eqs.vectors.push(vector, GFP_KERNEL)?;
            }
        }
        dev_info!(
            pdev,
            "{} vectors, {} for completions\n",
            eqs.vectors.len(),
            eqs.completions.len()
        );
        Ok(eqs)
    }

    /// Requests the interrupt of `vector`; `None` when nothing uses it.
    fn request(&self, pdev: &BoundDevice, node: Node, vector: u16) -> Result<Option<Vector>> {
        let plan = self.plan;
        let mut sources: KVec<Arc<dyn Source>> = KVec::new();
        if vector == plan.command {
            sources.push(self.command.clone(), GFP_KERNEL)?;
        }
        if vector == 0 {
            sources.push(self.asynchronous.clone(), GFP_KERNEL)?;
        }
        let completion = vector
            .checked_sub(plan.first_completion)
            .and_then(|index| self.completions.get(usize::from(index)));
        if let Some(completion) = completion {
            sources.push(completion.eq.clone(), GFP_KERNEL)?;
        }
        if sources.is_empty() {
            return Ok(None);
        }
        // Completion vector n goes to the n-th CPU counted from the card's node; the others are
        // rare and stay near.
        let place = vector.saturating_sub(plan.first_completion);
        let cpu = node.nearby_cpu(place.into());
        let role = plan.role(vector)?;
        let name = CString::try_from_fmt(fmt!("rmlx5-{}@pci:{}", &*role, pdev.name()))?;
        let interrupts = Arc::new(Counter::default(), GFP_KERNEL)?;
        let line = Line {
            sources,
            interrupts: interrupts.clone(),
        };
        let line = Arc::new(line, GFP_KERNEL)?;
        let irq = self.set.request(vector.into(), &name, line)?;
        if let Some(cpu) = cpu {
            irq.prefer(cpu)?;
        }
        Ok(Some(Vector {
            irq,
            interrupts,
            cpu,
            _counted: Counted::new(Kind::Interrupt),
        }))
    }

    /// Makes the device use the queues; commands complete by event afterwards.
    pub(crate) fn create(&self, cmd: &Cmd, uar: &Arc<Uar>) -> Result {
        self.command.create(cmd, uar)?;
        cmd.use_events(self.command.clone());
        self.asynchronous.create(cmd, uar)?;
        for completion in self.completions.iter() {
            completion.forget();
            completion.eq.create(cmd, uar)?;
        }
        Ok(())
    }

    /// Takes the queues away from the device, in the reverse order.
    pub(crate) fn destroy(&self, cmd: &Cmd) {
        for completion in self.completions.iter().rev() {
            completion.eq.destroy(cmd);
            completion.forget();
        }
        self.asynchronous.destroy(cmd);
        cmd.use_polling();
        self.command.destroy(cmd);
    }

    /// Forgets what the device knows of the queues. No handler touches the device any more.
    pub(crate) fn stop(&self) {
        for completion in self.completions.iter() {
            completion.eq.stop();
        }
        self.asynchronous.stop();
        self.command.stop();
    }

    /// Completion EQs, in vector order. At least one.
    pub(crate) fn completions(&self) -> &[CompEq] {
        &self.completions
    }

    /// All vectors in use, in order.
    pub(crate) fn vectors(&self) -> &[Vector] {
        &self.vectors
    }

    /// The vectors of the completion EQs, in order.
    pub(crate) fn completion_vectors(&self) -> &[Vector] {
        self.vectors
            .get(usize::from(self.plan.first_completion)..)
            .unwrap_or(&[])
    }

    /// The async EQ.
    pub(crate) fn asynchronous(&self) -> &Arc<Eq<Async>> {
        &self.asynchronous
    }

    /// The command EQ.
    pub(crate) fn command(&self) -> &Arc<Eq<Commands>> {
        &self.command
    }
}
