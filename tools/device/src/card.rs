// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The public face of the model: registers in, interrupts and frames out.

use std::{sync::Arc, time::Duration};

use mlx5_hw::raw;

use crate::{
    chip,
    cmd::queue,
    counters::{Census, Counters},
    dump::Selection,
    env::Env,
    fault::{Fault, FaultError},
    hca::{Hca, Phase},
    host::Host,
    icmd,
    iseg::{self, NicState, Order},
    nodnic,
    profile::Profile,
    trace::Trace,
    uar,
};

/// Steps of the data path that one call may take before it returns.
const BUDGET: u32 = 4096;

/// Resets that reach the card from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Function level reset through DevCtl.
    Flr,
    /// Hot reset of the link, or PERST.
    Bus,
}

/// Spaces behind the vendor gateway that the card itself answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Registers of the chip, see [`crate::chip`].
    Chip,
    /// The mailbox of [`crate::icmd`].
    Icmd,
    /// The initialization segment, with that of [`crate::nodnic`].
    InitSegment,
}

/// One card.
///
/// One thread at a time uses it. It never calls back into the caller except through the four
/// traits of [`Host`]; never panics or loops on what a guest or the wire says.
pub struct Card {
    hca: Hca,
}

impl Card {
    /// A card fresh from power-on.
    pub fn new(profile: Profile, host: Host) -> Self {
        let env = Env::new(Arc::new(profile), host);
        Self { hca: Hca::new(env) }
    }

    /// Reads `buf.len()` bytes of BAR0 at `off`. What is not a register reads as zero.
    pub fn bar_read(&mut self, off: u64, buf: &mut [u8]) {
        buf.fill(0);
        if off >= iseg::LEN {
            uar::read(&mut self.hca, off);
            return;
        }
        self.hca.env.counters.iseg_reads += 1;
        for (index, byte) in buf.iter_mut().enumerate() {
            let at = off + index as u64;
            if at < iseg::LEN {
                let word = iseg::read(&self.hca, at & !3).to_be_bytes();
                *byte = word.get((at & 3) as usize).copied().unwrap_or(0);
            }
        }
    }

    /// Writes `data` to BAR0 at `off`, in one bus access.
    pub fn bar_write(&mut self, off: u64, data: &[u8]) {
        if off < iseg::LEN {
            self.iseg_write(off, data);
        } else {
            uar::write(&mut self.hca, off, data);
        }
        self.hca.work(BUDGET);
    }

    fn iseg_write(&mut self, off: u64, data: &[u8]) {
        self.hca.env.counters.iseg_writes += 1;
        if off % 4 != 0 || data.len() % 4 != 0 {
            tracing::warn!("init segment: write of {} bytes at {off:#x}", data.len());
            self.hca.env.counters.stray_accesses += 1;
            return;
        }
        for (index, raw) in data.chunks_exact(4).enumerate() {
            let value = raw
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
            let order = iseg::write(&mut self.hca, off + 4 * index as u64, value);
            self.obey(order);
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::None => {}
            Order::Start(addr) => {
                // Whatever an earlier driver left behind must not reach the new one.
                if self.hca.phase == Phase::Off {
                    self.hca.reset();
                } else {
                    self.restart("start");
                }
                self.hca.iseg.nic = NicState::Full;
                self.hca.cmdq.addr = addr;
            }
            Order::Reset => {
                self.restart("software");
                self.hca.iseg.nic = NicState::Disabled;
            }
            Order::Disable => {
                self.restart("disable");
                self.hca.iseg.nic = NicState::Disabled;
            }
            Order::Boot => {
                self.restart("boot program");
                self.hca.iseg.nic = NicState::NoDram;
                self.hca.nodnic.active = true;
            }
            Order::Doorbell(mask) => queue::doorbell(&mut self.hca, mask),
        }
    }

    /// An access through the vendor gateway: a dword at byte address `at` of `space`. The value read (or written), or `None`
    /// where there is nothing.
    pub fn gateway(&mut self, space: Space, at: u32, write: Option<u32>) -> Option<u32> {
        let answer = match (space, write) {
            (Space::Chip, None) => chip::read(&self.hca, at),
            // Nothing of the chip can be written from outside.
            (Space::Chip, Some(_)) => None,
            (Space::Icmd, None) => icmd::read(&mut self.hca, at),
            (Space::Icmd, Some(value)) => icmd::write(&mut self.hca, at, value).then_some(value),
            (Space::InitSegment, write) => self.init_segment(at, write),
        };
        self.hca.work(BUDGET);
        answer
    }

    /// The initialization segment as the gateway shows it: with the segment of boot programs inside.
    fn init_segment(&mut self, at: u32, write: Option<u32>) -> Option<u32> {
        let inside = at.checked_sub(nodnic::START);
        match (inside, write) {
            (Some(inside), None) if nodnic::covers(inside) => nodnic::read(&self.hca, inside),
            (Some(inside), Some(value)) if nodnic::covers(inside) => {
                let taken = self.hca.nodnic.active && nodnic::write(&mut self.hca, inside, value);
                taken.then_some(value)
            }
            _ if u64::from(at) >= iseg::LEN || at % 4 != 0 => None,
            (_, None) => Some(iseg::read(&self.hca, at.into())),
            (_, Some(value)) => {
                let order = iseg::write(&mut self.hca, at.into(), value);
                self.obey(order);
                Some(value)
            }
        }
    }

    fn restart(&mut self, kind: &str) {
        tracing::info!("reset of the function: {kind}");
        let resets = &mut self.hca.env.counters.resets;
        *resets.entry(kind.to_owned()).or_default() += 1;
        self.hca.reset();
    }

    /// Resets the function: all objects, pages and addresses are gone, host memory is untouched.
    pub fn reset(&mut self, reset: Reset) {
        self.restart(match reset {
            Reset::Flr => "flr",
            Reset::Bus => "bus",
        });
    }

    /// Takes a frame from the cable: from destination MAC to the last byte before the FCS.
    pub fn receive(&mut self, frame: &[u8]) {
        self.hca.env.counters.frames_received += 1;
        self.hca.env.counters.bytes_received += frame.len() as u64;
        self.hca.receive(frame);
        self.hca.work(BUDGET);
    }

    /// Does what is due: timers, work left over from an earlier call.
    pub fn tick(&mut self) {
        queue::tick(&mut self.hca);
        crate::transport::tick(&mut self.hca);
        self.hca.work(BUDGET);
    }

    /// When [`Card::tick`] wants to be called next, as a time of the card's clock; a time that has
    /// passed means at once, `None` that nothing is waiting. Ask again after every other call.
    pub fn next_deadline(&self) -> Option<Duration> {
        if !self.hca.sched.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadlines = [
            queue::next_deadline(&self.hca),
            crate::transport::next_deadline(&self.hca),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Tells that the signal on the cable came or went.
    pub fn set_link(&mut self, up: bool) {
        crate::vport::set_signal(&mut self.hca, up);
    }

    /// What has been counted since the card was made.
    pub fn counters(&self) -> &Counters {
        &self.hca.env.counters
    }

    /// Counts from zero again.
    pub fn reset_counters(&mut self) {
        self.hca.env.counters = Counters::default();
    }

    /// What lives now.
    pub fn census(&self) -> Census {
        self.hca.census()
    }

    /// Every object, one line each.
    pub fn dump(&self) -> Vec<String> {
        self.hca.dump()
    }

    /// The objects of a selection, one line each.
    pub fn dump_of(&self, selection: &Selection) -> Vec<String> {
        let mut lines = self.hca.dump();
        lines.retain(|line| selection.has(line));
        lines
    }

    /// The command trace.
    pub fn trace(&self) -> &Trace {
        &self.hca.env.trace
    }

    /// The command trace, to size it.
    pub fn trace_mut(&mut self) -> &mut Trace {
        &mut self.hca.env.trace
    }

    /// What card it is.
    pub fn profile(&self) -> &Profile {
        &self.hca.env.profile
    }

    /// Orders a fault.
    ///
    /// # Errors
    /// When it is about something that does not exist.
    pub fn inject(&mut self, fault: Fault) -> Result<(), FaultError> {
        let Some(now) = self.hca.env.faults.order(fault) else {
            return Ok(());
        };
        match now {
            Fault::QpContext { qpn } => {
                if !crate::transport::corrupt_context(&mut self.hca, qpn) {
                    return Err(FaultError(format!("no QP {qpn:#x}")));
                }
            }
            Fault::CqContext { cqn } => {
                if !self.hca.lose_cq(cqn) {
                    return Err(FaultError(format!("no CQ {cqn:#x}")));
                }
            }
            Fault::Health {
                syndrome,
                reset_request,
            } => {
                self.hca.iseg.syndrome = syndrome;
                self.hca.iseg.reset_request = reset_request;
            }
            Fault::SpuriousCommandEvent { slots } => {
                let eqn = self.hca.eq_of(raw::MLX5_EVENT_TYPE_CMD);
                let eqn = eqn.ok_or_else(|| FaultError("no command EQ".to_owned()))?;
                queue::command_event(&mut self.hca, eqn, slots);
            }
            other => return Err(FaultError(format!("{other:?} cannot happen now"))),
        }
        self.hca.work(BUDGET);
        Ok(())
    }

    /// The function, for tests inside the crate.
    #[cfg(test)]
    pub(crate) fn hca(&mut self) -> &mut Hca {
        &mut self.hca
    }
}
