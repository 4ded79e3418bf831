// SPDX-License-Identifier: GPL-2.0
//! Callbacks of the PCI core: errors and resets.
//!
//! All run in process context with the device lock held by the core, which takes it before it marks
//! the channel offline: loss is recognised by all-ones, not by pci_channel_offline(). Each has an
//! upper bound: `error_detected` and `reset_prepare` wait for nobody's answer; `slot_reset` and
//! `reset_done` are bounded by the bring-up ([`crate::boot`]); `resume` by the participants.
//! Contract: Documentation/PCI/pci-error-recovery.rst.

use kernel::{
    prelude::*,
    sync::Arc,
    time::Delta, //
};
use kernel_ext::{
    pci::{
        driver::ChannelState,
        Recovery as Vote, //
    },
    time::{
        fsleep,
        Deadline, //
    },
};

use crate::{
    boot::Caller,
    cmd::queue::Verdict,
    device::Device,
    recovery::State, //
};

/// How long a device that was reset may take to answer reads again. PCIe allows one second.
const BACK: Delta = Delta::from_secs(5);

/// The generation ends here, whoever says so.
fn drain(device: &Device, verdict: Verdict) {
    device.health.pause();
    device.lost(verdict);
    device.recovery.stop_all();
}

/// Waits until the device answers reads again, looking at least every 100 ms.
fn wait_back(device: &Device) -> Result {
    let deadline = Deadline::after(BACK);
    while device.iseg.gone() {
        if deadline.is_over() {
            return Err(ENODEV);
        }
        fsleep(Delta::from_millis(10));
    }
    Ok(())
}

/// Gives up, with the one line that says so.
fn give_up(device: &Device, why: &str, error: Error) {
    device.recovery.go(State::Dead);
    device.lost(Verdict::Broken);
    // A stale AER status would blame this device for the next error on the bus; restoring the
    // configuration clears all of it.
    if device.pdev.is_present() {
        device.pdev.restore_state();
    }
    device.quiesce();
    dev_err!(
        device.pdev,
        "recovery failed: {} (error {}), device is dead until it is bound again\n",
        why,
        error.to_errno()
    );
}

/// The hardware part of coming back.
fn rise(device: &Arc<Device>) -> Result {
    wait_back(device)?;
    device.up(Caller::Callback).inspect_err(|_| device.shut())
}

/// The rest: participants, state, counters.
fn restart(device: &Arc<Device>) {
    match device.recovery.start_all() {
        Ok(()) => {
            // Nobody waits under the device lock any more.
            device.cmd.set_bound(crate::command_timeout());
            if device.recovery.go(State::Up) {
                device.recovery.resets.inc();
                device.health.resume();
                device.recovery.resume_all();
                dev_info!(
                    device.pdev,
                    "recovered, reset number {}\n",
                    device.recovery.resets.get()
                );
            }
        }
        Err((name, error)) => {
            device.recovery.stop_all();
            give_up(device, name, error);
        }
    }
}

/// A correctable error was logged by the AER core.
pub(crate) fn correctable_error(device: &Arc<Device>) {
    device.recovery.correctable.inc();
    dev_info!(device.pdev, "PCIe Correctable Error, nothing lost\n");
}

/// An uncorrectable error.
pub(crate) fn error_detected(device: &Arc<Device>, channel: ChannelState) -> Vote {
    let clock = Deadline::after(Delta::from_secs(0));
    let vote = match channel {
        // A transaction failed, the link works. If the device does too, nothing is torn down.
        ChannelState::Normal if healthy(device) => {
            device.recovery.nonfatal.inc();
            dev_warn!(
                device.pdev,
                "PCIe non-fatal error, device works, going on\n"
            );
            Vote::CanRecover
        }
        ChannelState::Normal | ChannelState::Frozen => {
            if device.recovery.state() == State::Dead {
                Vote::Disconnect
            } else {
                let kind = match channel {
                    ChannelState::Frozen => "fatal",
                    _ => "non-fatal",
                };
                dev_err!(device.pdev, "PCIe Link Down: {} error, draining\n", kind);
                device.recovery.go(State::Draining);
                drain(device, Verdict::Dead);
                Vote::NeedReset
            }
        }
        ChannelState::PermanentFailure => {
            device.recovery.go(State::Dead);
            drain(device, Verdict::Gone);
            dev_err!(device.pdev, "PCIe Link Down: permanent failure\n");
            Vote::Disconnect
        }
    };
    device.recovery.times.error_detected.record(clock.elapsed());
    vote
}

fn healthy(device: &Device) -> bool {
    device.recovery.state() == State::Up
        && device.cmd.verdict() == Verdict::Alive
        && !device.iseg.gone()
}

/// The link was reset: configuration space holds reset values.
pub(crate) fn slot_reset(device: &Arc<Device>) -> Vote {
    let clock = Deadline::after(Delta::from_secs(0));
    let vote = if device.recovery.go(State::Resetting) {
        match device.reenable().and_then(|()| rise(device)) {
            Ok(()) => Vote::Recovered,
            Err(error) => {
                give_up(device, "device did not come back after slot reset", error);
                Vote::Disconnect
            }
        }
    } else {
        Vote::Disconnect
    };
    device.recovery.times.slot_reset.record(clock.elapsed());
    vote
}

/// Everybody on the bus has recovered.
pub(crate) fn resume(device: &Arc<Device>) {
    let clock = Deadline::after(Delta::from_secs(0));
    if device.recovery.state() == State::Resetting {
        restart(device);
    }
    let _ = device.pdev.clear_nonfatal_errors();
    device.recovery.times.resume.record(clock.elapsed());
}

/// Somebody is about to reset the function (sysfs `reset`, the driver itself).
pub(crate) fn reset_prepare(device: &Arc<Device>) {
    let clock = Deadline::after(Delta::from_secs(0));
    if device.recovery.go(State::Draining) {
        drain(device, Verdict::Dead);
    }
    device.recovery.times.reset_prepare.record(clock.elapsed());
}

/// The reset is over; the PCI core has restored configuration space.
pub(crate) fn reset_done(device: &Arc<Device>) {
    let clock = Deadline::after(Delta::from_secs(0));
    if device.recovery.go(State::Resetting) {
        match rise(device) {
            Ok(()) => restart(device),
            Err(error) => give_up(device, "device did not come back after reset", error),
        }
    }
    device.recovery.times.reset_done.record(clock.elapsed());
}
