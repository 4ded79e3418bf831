// SPDX-License-Identifier: GPL-2.0
//! Bringing the device up, in the order the interface wants; the same at probe and after a reset.
//!
//! Each step takes the state the step before left, so that none can be forgotten or done twice.
//! A step that fails says which one and why; the caller undoes everything with
//! [`undo`], which does not depend on the device's help.

use kernel::{
    prelude::*,
    time::Delta, //
};
use kernel_ext::{
    pci::BoundDevice,
    time::Deadline, //
};
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use crate::{
    caps::Caps,
    cmd::{
        Cmd,
        Command, //
    },
    iseg::Iseg,
    pages::{
        Pages,
        Stage, //
    },
    plain_command, //
};

/// How long the firmware may take from power on. The C driver waits 120 s (`fw pre-init`), silently.
const PRE_INIT: Delta = Delta::from_secs(60);
/// How long it may take where the PCI core waits with the device lock held.
const PRE_INIT_CALLBACK: Delta = Delta::from_secs(10);
/// How long it may take to accept the command queue (`fw init`).
const INIT: Delta = Delta::from_secs(2);
/// One command where the PCI core waits.
const COMMAND_CALLBACK: Delta = Delta::from_secs(5);
/// The whole bring-up where the PCI core waits.
const TOTAL_CALLBACK: Delta = Delta::from_secs(30);

/// HOST_ENDIANNESS register. Source: `MLX5_REG_HOST_ENDIANNESS` in include/linux/mlx5/driver.h.
const REG_HOST_ENDIANNESS: u16 = 0x7004;

plain_command! {
    /// ENABLE_HCA, of the function itself.
    EnableHca, MLX5_CMD_OP_ENABLE_HCA, enable_hca_in, enable_hca_out
}
plain_command! {
    /// DISABLE_HCA.
    DisableHca, MLX5_CMD_OP_DISABLE_HCA, disable_hca_in, disable_hca_out
}
plain_command! {
    /// INIT_HCA.
    InitHca, MLX5_CMD_OP_INIT_HCA, init_hca_in, init_hca_out
}
plain_command! {
    /// TEARDOWN_HCA, graceful.
    TeardownHca, MLX5_CMD_OP_TEARDOWN_HCA, teardown_hca_in, teardown_hca_out
}
plain_command! {
    /// SET_ISSI: the revision of steering, SRQs and more that both sides speak.
    SetIssi, MLX5_CMD_OP_SET_ISSI, set_issi_in, set_issi_out, version: u8 => current_issi
}

/// QUERY_ISSI: bit n says that revision n is spoken.
struct QueryIssi;

impl Command for QueryIssi {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_ISSI;
    type In = ifc::query_issi_in;
    type Out = ifc::query_issi_out;
    type Output = u32;

    fn fill(&self, _input: &mut Mut<'_, Self::In>) -> Result {
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(query_issi_out, supported_issi_dw0)))
    }
}

/// ACCESS_REG, write: tells the device the byte order of the host (all zero: little endian).
struct SetHostEndianness;

impl Command for SetHostEndianness {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ACCESS_REG;
    type In = ifc::access_register_in;
    type Out = ifc::access_register_out;
    type Output = ();

    fn in_tail(&self) -> usize {
        16
    }

    fn out_tail(&self) -> usize {
        16
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(
            field!(access_register_in, register_id),
            REG_HOST_ENDIANNESS.into(),
        );
        // The register data behind is zero: little endian.
        let _ = span!(access_register_in, register_data);
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// Who waits for the bring-up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Probe: the firmware may be starting.
    Probe,
    /// A callback of the PCI core.
    Callback,
}

/// The firmware runs and takes commands.
pub(crate) struct Talking(());
/// The function is enabled and has its boot pages.
pub(crate) struct Enabled(());
/// Capabilities are known and set.
pub(crate) struct Configured {
    caps: Caps,
}
/// The HCA is initialised; objects can be made.
pub(crate) struct Ready {
    pub(crate) caps: Caps,
}

/// What a bring-up works on.
#[derive(Clone, Copy)]
pub(crate) struct Card<'a> {
    pub(crate) pdev: &'a BoundDevice,
    pub(crate) iseg: &'a Iseg,
    pub(crate) cmd: &'a Cmd,
    pub(crate) pages: &'a Pages,
    /// Notes how far the card is, so that somebody else can undo it.
    pub(crate) progress: &'a dyn Fn(Progress),
}

/// A bring-up under way, in state `S`.
pub(crate) struct Boot<'a, S> {
    device: Card<'a>,
    deadline: Deadline,
    state: S,
}

/// Logs which step failed, and how.
fn named<T>(device: Card<'_>, step: &str, result: Result<T>) -> Result<T> {
    result.inspect_err(|error| {
        dev_err!(
            device.pdev,
            "bring-up failed at {}: error {}\n",
            step,
            error.to_errno()
        )
    })
}

impl<'a> Boot<'a, Talking> {
    /// Waits for the firmware and programs the command queue.
    pub(crate) fn begin(device: Card<'a>, caller: Caller) -> Result<Self> {
        let (wait, total, bound) = match caller {
            Caller::Probe => (PRE_INIT, Delta::from_secs(600), crate::command_timeout()),
            Caller::Callback => (PRE_INIT_CALLBACK, TOTAL_CALLBACK, COMMAND_CALLBACK),
        };
        let deadline = Deadline::after(total);
        let iseg = device.iseg;
        let progress = |seconds| {
            dev_info!(
                device.pdev,
                "waiting for firmware since {} s, at most {} s\n",
                seconds,
                wait.as_millis() / 1000
            );
        };
        named(device, "firmware start", iseg.wait_started(wait, progress))?;
        device.cmd.set_bound(bound);
        named(device, "command queue", device.cmd.start())?;
        named(device, "firmware init", iseg.wait_started(INIT, progress))?;
        Ok(Self {
            device,
            deadline,
            state: Talking(()),
        })
    }

    /// ENABLE_HCA, ISSI, boot pages.
    pub(crate) fn enable(self) -> Result<Boot<'a, Enabled>> {
        let cmd = self.device.cmd;
        named(
            self.device,
            "ENABLE_HCA",
            cmd.exec(&EnableHca {}).map_err(Error::from),
        )?;
        (self.device.progress)(Progress::Enabled);
        // A firmware that does not know the command speaks revision 0, which knows another family
        // of SRQ commands: not supported here.
        let supported = named(
            self.device,
            "QUERY_ISSI",
            cmd.exec(&QueryIssi).map_err(Error::from),
        )?;
        if supported & 2 == 0 {
            dev_err!(
                self.device.pdev,
                "firmware is too old: ISSI mask {:#x}, need bit 1\n",
                supported
            );
            return Err(EOPNOTSUPP);
        }
        cmd.exec(&SetIssi { version: 1 })?;
        named(
            self.device,
            "boot pages",
            self.device.pages.supply(cmd, Stage::Boot),
        )?;
        self.next(Enabled(()))
    }
}

impl<'a> Boot<'a, Enabled> {
    /// Byte order and capabilities.
    pub(crate) fn configure(self) -> Result<Boot<'a, Configured>> {
        let cmd = self.device.cmd;
        cmd.exec(&SetHostEndianness)?;
        let caps = match named(self.device, "capabilities", Caps::negotiate(cmd))? {
            Ok(caps) => caps,
            Err(bad) => {
                dev_err!(self.device.pdev, "card is not usable: {}\n", bad);
                return Err(EOPNOTSUPP);
            }
        };
        self.next(Configured { caps })
    }
}

impl<'a> Boot<'a, Configured> {
    /// Init pages, INIT_HCA.
    pub(crate) fn initialise(self) -> Result<Boot<'a, Ready>> {
        let cmd = self.device.cmd;
        named(
            self.device,
            "init pages",
            self.device.pages.supply(cmd, Stage::Init),
        )?;
        named(
            self.device,
            "INIT_HCA",
            cmd.exec(&InitHca {}).map_err(Error::from),
        )?;
        (self.device.progress)(Progress::Initialised);
        let caps = self.state.caps;
        self.next(Ready { caps })
    }
}

impl Boot<'_, Ready> {
    /// The capabilities of the card.
    pub(crate) fn caps(&self) -> Caps {
        self.state.caps
    }
}

impl<'a, S> Boot<'a, S> {
    fn next<T>(self, state: T) -> Result<Boot<'a, T>> {
        if self.deadline.is_over() {
            dev_err!(self.device.pdev, "bring-up took too long, giving up\n");
            return Err(ETIMEDOUT);
        }
        Ok(Boot {
            device: self.device,
            deadline: self.deadline,
            state,
        })
    }
}

/// How far the device is, for [`undo`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Nothing to undo on the device.
    Nothing = 0,
    /// ENABLE_HCA was accepted.
    Enabled = 1,
    /// INIT_HCA was accepted.
    Initialised = 2,
}

/// Undoes what `progress` says was done: TEARDOWN_HCA, pages back, DISABLE_HCA. Answers are not
/// needed: what the device keeps is safe once it cannot master the bus.
pub(crate) fn undo(device: Card<'_>, progress: Progress) {
    let cmd = device.cmd;
    if progress >= Progress::Initialised {
        let _ = cmd.exec(&TeardownHca {});
    }
    if progress >= Progress::Enabled {
        device.pages.reclaim(cmd);
        let _ = cmd.exec(&DisableHca {});
    }
}
