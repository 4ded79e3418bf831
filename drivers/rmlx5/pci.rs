// SPDX-License-Identifier: GPL-2.0
//! What the driver does with the PCIe side of the card: link report, MRRS, MPS.
//!
//! MRRS is raised to 4096 and never lowered. MPS is raised as far as every bridge up to the root
//! port is set (bridges themselves are never changed). Both go back to what they were at unbind.

use kernel::{
    fmt,
    prelude::*, //
};
use kernel_ext::pci::{
    express::LinkReport,
    BoundDevice, //
};

/// Largest read request to ask for, in bytes.
const MRRS: u32 = 4096;

/// Before and after, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) before: u32,
    pub(crate) after: u32,
}

/// MPS and MRRS as tuned; restores them on drop.
pub(crate) struct Tuning {
    pdev: BoundDevice,
    /// Maximum payload size.
    pub(crate) mps: Change,
    /// Maximum read request size.
    pub(crate) mrrs: Change,
}

impl Tuning {
    /// Tunes the device. A refusal by the PCI core is accepted; the log line shows what came out.
    pub(crate) fn new(pdev: &BoundDevice) -> Self {
        let mps = tune_mps(pdev);
        let mrrs = tune_mrrs(pdev);
        Self {
            pdev: pdev.clone(),
            mps,
            mrrs,
        }
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        // Only what was changed, and only if nobody changed it since. Refusals: nothing to do.
        if self.mrrs.after != self.mrrs.before && self.pdev.mrrs() == self.mrrs.after {
            let _ = self.pdev.set_mrrs(self.mrrs.before);
        }
        if self.mps.after != self.mps.before && self.pdev.mps() == self.mps.after {
            let _ = self.pdev.set_mps(self.mps.before);
        }
    }
}

fn tune_mps(pdev: &BoundDevice) -> Change {
    let before = pdev.mps();
    let own = pdev.mps_supported();
    // On a root bus there is no bridge: the device may use its own maximum.
    let target = pdev.mps_of_path().map_or(own, |path| path.min(own));
    if target > before {
        let _ = pdev.set_mps(target);
    }
    Change {
        before,
        after: pdev.mps(),
    }
}

fn tune_mrrs(pdev: &BoundDevice) -> Change {
    let before = pdev.mrrs();
    if before < MRRS {
        let _ = pdev.set_mrrs(MRRS);
    }
    Change {
        before,
        after: pdev.mrrs(),
    }
}

/// The link in words, for the log and for sysfs `link`.
pub(crate) struct Link(LinkReport);

impl Link {
    /// Reads the state of the link and of the path to the root.
    pub(crate) fn of(pdev: &BoundDevice) -> Self {
        Self(pdev.link_report())
    }

    /// Whether a slot, a bridge or the negotiation gives less than the card can do.
    pub(crate) fn degraded(&self) -> bool {
        let report = &self.0;
        has_link(report) && report.available != report.capable
    }
}

fn has_link(report: &LinkReport) -> bool {
    report.available.lanes != 0
        && report.available.lanes <= 32
        && !report.available.speed.is_unknown()
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.0;
        if !has_link(report) {
            return f.write_str("no link (root bus)");
        }
        write!(
            f,
            "{} ({} Mb/s) of {}",
            report.available, report.available_mbps, report.capable
        )?;
        match report.limited_by {
            Some(bridge) if self.degraded() => write!(f, ", limited by {bridge}"),
            _ => Ok(()),
        }
    }
}

/// Logs link and sizes: one line.
pub(crate) fn report(pdev: &BoundDevice, tuning: &Tuning) {
    let link = Link::of(pdev);
    let could = pdev
        .mps_path_could_have()
        .map(|path| path.min(pdev.mps_supported()))
        .filter(|could| *could > tuning.mps.after);
    dev_info!(
        pdev,
        "link {}, MPS {} -> {}, MRRS {} -> {}{}\n",
        link,
        tuning.mps.before,
        tuning.mps.after,
        tuning.mrrs.before,
        tuning.mrrs.after,
        Hint(could)
    );
    if link.degraded() {
        dev_warn!(
            pdev,
            "PCIe link degraded: {}: check slot and cabling\n",
            link
        );
    }
}

struct Hint(Option<u32>);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(could) => write!(f, " (the path could do MPS {could}: pci=pcie_bus_perf)"),
            None => Ok(()),
        }
    }
}
