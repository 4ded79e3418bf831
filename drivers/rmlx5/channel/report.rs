// SPDX-License-Identifier: GPL-2.0
//! What `selftest` and `channels` show.

use core::fmt::{
    self,
    Write, //
};

use kernel::sync::atomic::ordering::Relaxed;

use super::{
    endpoint::{
        Gid,
        Mac, //
    },
    latency::Histogram,
    op::Op,
    set::Channels,
    tally::Tally,
    Core, //
};
use crate::{
    port::{
        Link,
        Port, //
    },
    qp::state::QpState, //
};

/// Nanoseconds as microseconds with one digit.
struct Us(Option<u64>);

impl fmt::Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ns) => write!(f, "{}.{}", ns / 1000, ns % 1000 / 100),
            None => f.write_str("-"),
        }
    }
}

/// `part / whole` with two digits.
struct Ratio(u64, u64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.saturating_mul(100).checked_div(self.1) {
            Some(hundredths) => write!(f, "{}.{:02}", hundredths / 100, hundredths % 100),
            None => f.write_str("-"),
        }
    }
}

fn latency(f: &mut impl Write, histogram: &Histogram) -> fmt::Result {
    write!(
        f,
        " latency_us min={} median={} p99={}",
        Us(histogram.min()),
        Us(histogram.quantile(50)),
        Us(histogram.quantile(99))
    )
}

fn tally(f: &mut impl Write, tally: &Tally) -> fmt::Result {
    write!(
        f,
        "ops={} bytes={} verified={} faults={} reposted={} indeterminate={}",
        tally.ops(),
        tally.bytes(),
        tally.verified,
        tally.faults,
        tally.reposted,
        tally.indeterminate
    )?;
    for op in Op::ALL {
        write!(f, " {}={}", op.name(), tally.of(op).ops)?;
    }
    write!(
        f,
        " received={} received_imm={}",
        tally.messages, tally.immediates
    )
}

/// What all channels did together.
#[derive(Default)]
struct Sum {
    ops: u64,
    bytes: u64,
    verified: u64,
    faults: u64,
    lost: u64,
    completions: u64,
    interrupts: u64,
    recovered: u64,
    given_up: u32,
}

impl Core {
    /// One line about the run, added to `sum`.
    fn report(&self, f: &mut impl Write, sum: &mut Sum) -> fmt::Result {
        let inner = self.inner.lock();
        let account = &inner.flow.tally;
        let interrupts: u64 = self
            .events
            .load(Relaxed)
            .wrapping_sub(inner.events_before)
            .into();
        write!(f, "channel {} vector={} ", self.index, self.vector)?;
        tally(f, account)?;
        latency(f, &account.latency)?;
        writeln!(
            f,
            " completions={} interrupts={} completions_per_interrupt={} malformed={} recovered={}{}",
            inner.completions,
            interrupts,
            Ratio(inner.completions, interrupts),
            inner.malformed,
            inner.steps.recovered,
            if inner.steps.given_up { " GIVEN UP" } else { "" }
        )?;
        sum.add(account);
        sum.completions = sum.completions.wrapping_add(inner.completions);
        sum.interrupts = sum.interrupts.wrapping_add(interrupts);
        sum.recovered = sum.recovered.wrapping_add(inner.steps.recovered);
        sum.given_up = sum.given_up.saturating_add(inner.steps.given_up.into());
        Ok(())
    }

    /// One line about objects, state and recovery.
    fn describe(&self, f: &mut impl Write) -> fmt::Result {
        let inner = self.inner.lock();
        write!(f, "channel {} vector={}", self.index, self.vector)?;
        if let Some(hw) = &inner.hw {
            let (plain, pushed) = hw.qp.doorbells();
            write!(
                f,
                " qpn={:#x} state={} cqn={:#x} depth={} sq={} rq={} doorbells={} blueflame={}",
                hw.qp.number(),
                hw.qp
                    .query(&self.device.cmd)
                    .map_or("unknown", QpState::name),
                hw.cq.number(),
                hw.cq.entries(),
                hw.qp.sq().used(),
                hw.qp.rq().used(),
                plain,
                pushed
            )?;
        }
        let steps = &inner.steps;
        writeln!(
            f,
            " epoch={} broken={} catastrophic={} overruns={} attempts={} resets={} recovered={} failures={} given_up={} lost={} waiting={} ignored={} recovery_us last={} max={}",
            inner.handshake.epoch(),
            steps.broken,
            steps.catastrophic,
            steps.overruns,
            steps.attempts,
            steps.resets,
            steps.recovered,
            steps.failures,
            u8::from(steps.given_up),
            steps.lost,
            u8::from(inner.is_peer_lost()),
            steps.ignored,
            steps.last_us,
            steps.max_us
        )
    }
}

impl Sum {
    fn add(&mut self, account: &Tally) {
        self.ops = self.ops.wrapping_add(account.ops());
        self.bytes = self.bytes.wrapping_add(account.bytes());
        self.verified = self.verified.wrapping_add(account.verified);
        self.faults = self.faults.wrapping_add(account.faults);
        self.lost = self.lost.wrapping_add(account.indeterminate);
    }
}

impl Channels {
    /// The report of the current or last run.
    pub(super) fn report(&self, f: &mut impl Write) -> fmt::Result {
        let set = self.set.lock();
        let Some(run) = &set.run else {
            return writeln!(f, "state: idle");
        };
        let state = if run.is_active() { "running" } else { "done" };
        writeln!(
            f,
            "state: {state} mode={} elapsed_ms={}",
            run.options.mode.name(),
            run.elapsed() / 1_000_000
        )?;
        let mut sum = Sum::default();
        for channel in set.channels.iter() {
            channel.core.report(f, &mut sum)?;
        }
        if set.retired_channels != 0 {
            write!(f, "retired {} ", set.retired_channels)?;
            tally(f, &set.retired)?;
            latency(f, &set.retired.latency)?;
            writeln!(f)?;
            sum.add(&set.retired);
        }
        writeln!(
            f,
            "total: channels={} ops={} bytes={} verified={} faults={} indeterminate={} completions={} interrupts={} completions_per_interrupt={} recovered={} given_up={}",
            set.channels.len(),
            sum.ops,
            sum.bytes,
            sum.verified,
            sum.faults,
            sum.lost,
            sum.completions,
            sum.interrupts,
            Ratio(sum.completions, sum.interrupts),
            sum.recovered,
            sum.given_up
        )?;
        if !run.is_active() {
            let good = sum.faults == 0 && sum.given_up == 0 && sum.ops != 0;
            writeln!(f, "result: {}", if good { "pass" } else { "FAIL" })?;
        }
        Ok(())
    }

    /// The port, and objects and recovery counters of each channel. Asks the device.
    pub(super) fn describe(&self, f: &mut impl Write) -> fmt::Result {
        let set = self.set.lock();
        if let Some(identity) = set.identity() {
            writeln!(
                f,
                "port mac={} gid={} mtu={} link={}",
                Mac(&identity.mac),
                Gid(&identity.gid()),
                identity.path_mtu(),
                match Port::link(&self.device.cmd) {
                    Ok(Link::Up) => "up",
                    Ok(Link::Down) => "down",
                    Err(_) => "unknown",
                }
            )?;
        }
        if let Some(control) = &set.control {
            control.post.describe(f)?;
        }
        for channel in set.channels.iter() {
            channel.core.describe(f)?;
        }
        Ok(())
    }
}
