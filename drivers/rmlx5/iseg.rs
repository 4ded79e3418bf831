// SPDX-License-Identifier: GPL-2.0
//! The initialization segment: the first 8 KiB of BAR0 (`struct mlx5_init_seg`).
//!
//! Everything in it is big endian. A register that reads all-ones where it cannot means that the
//! device is gone; nobody waits for it then.

use core::mem::offset_of;

use kernel::{
    prelude::*,
    time::Delta, //
};
use kernel_ext::{
    pci::{
        Bar,
        Io, //
    },
    time::{
        fsleep,
        Deadline, //
    },
};
use mlx5_hw::raw::{
    health_buffer,
    mlx5_init_seg, //
};

/// Bytes that are mapped: up to and including the clear-INTx register.
const LEN: usize = 0x2010;
/// Offset of the health buffer.
const HEALTH: usize = offset_of!(mlx5_init_seg, health);

/// Bytes of a page that is mapped for users.
const PAGE: u64 = 4096;

/// Command interface revision this driver speaks. Source: `mlx5_cmd_enable` in core/cmd.c.
const CMDIF_REV: u16 = 5;

/// Firmware revision.
#[derive(Clone, Copy)]
pub(crate) struct FwRev {
    pub(crate) major: u16,
    pub(crate) minor: u16,
    pub(crate) sub: u16,
}

/// What the device says about its command queue.
#[derive(Clone, Copy)]
pub(crate) struct QueueShape {
    /// log2 of the number of entries.
    pub(crate) log_size: u8,
    /// log2 of the distance of two entries in bytes.
    pub(crate) log_stride: u8,
}

/// State of the network interface behind the function. Source: `mlx5_get_nic_state`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NicState {
    /// The driver owns it.
    Full,
    /// The device switched it off.
    Disabled,
    /// Any other value.
    Other(u8),
}

/// What the health buffer says.
#[derive(Clone, Copy)]
pub(crate) struct Health {
    /// Moves all the time; all-ones when the device is gone.
    pub(crate) counter: u32,
    /// Zero when all is well.
    pub(crate) syndrome: u8,
    pub(crate) ext_syndrome: u16,
    /// The firmware asks for a reset.
    pub(crate) reset_request: bool,
    pub(crate) gone: bool,
}

/// The mapped segment. All accesses are single 32-bit MMIO operations; any context.
pub(crate) struct Iseg {
    io: Io<LEN>,
}

impl Iseg {
    /// Maps the segment. Fails when BAR0 is too small to be one.
    pub(crate) fn new(bar: &Bar) -> Result<Self> {
        Ok(Self { io: bar.map(0)? })
    }

    #[inline]
    fn get<const AT: usize>(&self) -> u32 {
        self.io.read_be32::<AT>()
    }

    #[inline]
    fn put<const AT: usize>(&self, value: u32) {
        self.io.write_be32::<AT>(value);
    }

    /// Whether the device has disappeared from the bus. Source: `sensor_pci_not_working`.
    pub(crate) fn gone(&self) -> bool {
        self.get::<{ HEALTH + offset_of!(health_buffer, fw_ver) }>() == u32::MAX
    }

    /// Firmware revision.
    pub(crate) fn fw_rev(&self) -> FwRev {
        let rev = self.get::<{ offset_of!(mlx5_init_seg, fw_rev) }>();
        let sub = self.get::<{ offset_of!(mlx5_init_seg, cmdif_rev_fw_sub) }>();
        // CAST: halves of a dword.
        FwRev {
            major: rev as u16,
            minor: (rev >> 16) as u16,
            sub: sub as u16,
        }
    }

    /// Whether the firmware is still starting.
    pub(crate) fn initializing(&self) -> bool {
        self.get::<{ offset_of!(mlx5_init_seg, initializing) }>() >> 31 != 0
    }

    /// Sleeps until the firmware has started, at most `bound`.
    ///
    /// Fails with `ENODEV` as soon as the device is gone and with `ETIMEDOUT` afterwards.
    ///
    /// A signal ends the wait with `EINTR`. `progress` is told about every ten seconds.
    pub(crate) fn wait_started(&self, bound: Delta, progress: impl Fn(i64)) -> Result {
        let deadline = Deadline::after(bound);
        let mut told = 0;
        loop {
            if self.gone() {
                return Err(ENODEV);
            }
            if !self.initializing() {
                return Ok(());
            }
            if deadline.is_over() {
                return Err(ETIMEDOUT);
            }
            if kernel::current!().signal_pending() {
                return Err(EINTR);
            }
            let waited = deadline.elapsed().as_millis();
            if waited >= told + 10_000 {
                told = waited;
                progress(waited / 1000);
            }
            fsleep(Delta::from_millis(10));
        }
    }

    /// Reads and checks the geometry of the command queue.
    ///
    /// `EPROTO`: another interface revision, or a geometry that cannot be.
    pub(crate) fn queue_shape(&self) -> Result<QueueShape> {
        // CAST: upper half of a dword.
        let rev = (self.get::<{ offset_of!(mlx5_init_seg, cmdif_rev_fw_sub) }>() >> 16) as u16;
        if rev != CMDIF_REV {
            return Err(EPROTO);
        }
        let word = self.get::<{ offset_of!(mlx5_init_seg, cmdq_addr_l_sz) }>();
        // CAST: nibbles.
        let shape = QueueShape {
            log_size: (word >> 4 & 0xf) as u8,
            log_stride: (word & 0xf) as u8,
        };
        // One slot is for pages, so there must be two; an entry is 64 bytes; all fit one page.
        let sane = (1..=5).contains(&shape.log_size)
            && shape.log_stride >= 6
            && shape.log_size + shape.log_stride <= 12;
        if sane {
            Ok(shape)
        } else {
            Err(EPROTO)
        }
    }

    /// Tells the device where the command queue is: a page-aligned bus address. This is also the
    /// signal that the function starts anew.
    pub(crate) fn set_queue(&self, address: u64) {
        // CAST: halves of the address.
        self.put::<{ offset_of!(mlx5_init_seg, cmdq_addr_h) }>((address >> 32) as u32);
        self.put::<{ offset_of!(mlx5_init_seg, cmdq_addr_l_sz) }>(address as u32);
    }

    /// Rings the command doorbell for the slots in `mask`.
    #[inline]
    pub(crate) fn ring(&self, mask: u32) {
        self.put::<{ offset_of!(mlx5_init_seg, cmd_dbell) }>(mask);
    }

    /// State of the network interface.
    pub(crate) fn nic_state(&self) -> NicState {
        match self.get::<{ offset_of!(mlx5_init_seg, cmdq_addr_l_sz) }>() >> 8 & 7 {
            0 => NicState::Full,
            1 => NicState::Disabled,
            // CAST: three bits.
            other => NicState::Other(other as u8),
        }
    }

    /// Where the page with the clock is in BAR0.
    pub(crate) const TIMER_PAGE: u64 = Self::TIMER - Self::TIMER_IN_PAGE;
    /// Where the clock is in that page.
    pub(crate) const TIMER_IN_PAGE: u64 = Self::TIMER % PAGE;
    // CAST: a small number.
    const TIMER: u64 = offset_of!(mlx5_init_seg, internal_timer_h) as u64;

    /// Reads the free running clock, in cycles. `None` when the device is gone.
    pub(crate) fn internal_timer(&self) -> Option<u64> {
        let high = || self.get::<{ offset_of!(mlx5_init_seg, internal_timer_h) }>();
        let low = || self.get::<{ offset_of!(mlx5_init_seg, internal_timer_l) }>();
        let (before, first, after) = (high(), low(), high());
        // The lower half ran around in between. It does not do so twice in a row.
        let low = if before == after { first } else { low() };
        let cycles = u64::from(after) << 32 | u64::from(low);
        (cycles != u64::MAX).then_some(cycles)
    }

    /// Reads the health buffer and counter: four registers.
    pub(crate) fn health(&self) -> Health {
        let counter = self.get::<{ offset_of!(mlx5_init_seg, health_counter) }>();
        let rfr = self.get::<{ HEALTH + offset_of!(health_buffer, rfr_severity) }>();
        // `irisc_index`, `synd` and `ext_synd` share a dword.
        let synd = self.get::<{ HEALTH + offset_of!(health_buffer, irisc_index) }>();
        // CAST: parts of a dword.
        Health {
            counter,
            syndrome: (synd >> 16) as u8,
            ext_syndrome: synd as u16,
            reset_request: rfr >> 31 != 0,
            gone: self.gone(),
        }
    }
}
