// SPDX-License-Identifier: GPL-2.0
//! What a device has done, as text: one `name value` a line, for debugfs and for tests.

use core::fmt::Write;

use kernel::{
    fmt,
    prelude::*, //
};

use crate::{
    census::Kind,
    device::Device,
    recovery::Micros, //
};

/// Writes all counters of `device`.
pub(crate) fn write(device: &Device, out: &mut dyn Write) -> Result {
    let mut line = |args: fmt::Arguments<'_>| out.write_fmt(args).map_err(|_| ENOSPC);

    line(fmt!("state {}\n", device.recovery.state().name()))?;
    line(fmt!("generation {}\n", device.cmd.generation()))?;
    line(fmt!("resets {}\n", device.recovery.resets.get()))?;
    line(fmt!(
        "aer.correctable {}\n",
        device.recovery.correctable.get()
    ))?;
    line(fmt!("aer.nonfatal {}\n", device.recovery.nonfatal.get()))?;

    let times = &device.recovery.times;
    let callbacks: [(&str, &Micros); 5] = [
        ("error_detected", &times.error_detected),
        ("slot_reset", &times.slot_reset),
        ("resume", &times.resume),
        ("reset_prepare", &times.reset_prepare),
        ("reset_done", &times.reset_done),
    ];
    for (name, micros) in callbacks {
        line(fmt!("callback.{}.last_us {}\n", name, micros.last()))?;
        line(fmt!("callback.{}.max_us {}\n", name, micros.max()))?;
    }

    let commands = &device.cmd.stats;
    line(fmt!("commands.sent {}\n", commands.sent.get()))?;
    line(fmt!("commands.failed {}\n", commands.failed.get()))?;
    line(fmt!("commands.spurious {}\n", commands.spurious.get()))?;
    line(fmt!(
        "commands.lost_interrupts {}\n",
        commands.lost_interrupts.get()
    ))?;
    line(fmt!("commands.timeouts {}\n", commands.timeouts.get()))?;
    line(fmt!("commands.late {}\n", commands.late.get()))?;

    line(fmt!("pages.given {}\n", device.pages.given()))?;
    line(fmt!("pages.allocated {}\n", device.pages.allocated()))?;
    line(fmt!("pages.gave {}\n", device.pages.gave.get()))?;
    line(fmt!("pages.took {}\n", device.pages.took.get()))?;
    line(fmt!("pages.strangers {}\n", device.pages.strangers.get()))?;
    line(fmt!("pages.refused {}\n", device.refused_requests()))?;
    line(fmt!("events.unknown {}\n", device.events.unknown.get()))?;

    line(fmt!("blueflame {}\n", device.combining.known().name()))?;

    if let Some(eqs) = device.eqs() {
        let (command, asynchronous) = (eqs.command(), eqs.asynchronous());
        line(fmt!("eq.cmd.events {}\n", command.done().events))?;
        line(fmt!("eq.cmd.stray {}\n", command.stray.get()))?;
        line(fmt!("eq.async.events {}\n", asynchronous.done().events))?;
        line(fmt!("eq.async.stray {}\n", asynchronous.stray.get()))?;
        for (index, comp) in eqs.completions().iter().enumerate() {
            let done = comp.eq.done();
            line(fmt!("eq.comp{}.events {}\n", index, done.events))?;
            line(fmt!("eq.comp{}.rounds {}\n", index, done.rounds))?;
            line(fmt!("eq.comp{}.stray {}\n", index, comp.eq.stray.get()))?;
            line(fmt!(
                "eq.comp{}.unknown_cq {}\n",
                index,
                comp.eq.sink.unknown_cq.get()
            ))?;
        }
        for (index, vector) in eqs.vectors().iter().enumerate() {
            let cpu = vector.cpu.map_or(-1, |cpu| i64::from(cpu.as_u32()));
            line(fmt!("vector{}.irq {}\n", index, vector.number()))?;
            line(fmt!("vector{}.cpu {}\n", index, cpu))?;
            line(fmt!(
                "vector{}.interrupts {}\n",
                index,
                vector.interrupts.get()
            ))?;
        }
    }
    for kind in Kind::ALL {
        line(fmt!("objects.{} {}\n", kind.name(), kind.count()))?;
    }
    Ok(())
}
