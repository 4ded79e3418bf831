// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The initialization segment: the first 8 KiB of BAR0.
//!
//! Source: `struct mlx5_init_seg` and `struct health_buffer` in include/linux/mlx5/device.h.

use std::mem::offset_of;

use mlx5_hw::{field, raw};

use crate::{chip, cmd::queue, hca::Hca, nodnic};

/// Length of the segment in BAR0, in bytes.
pub const LEN: u64 = 0x2000;

/// `no_dram_nic_offset`, behind the health buffer (`mlx5_ifc_initial_seg_bits`; `struct mlx5_init_seg` has no name for it).
const NO_DRAM_NIC_OFFSET: u64 = 0x240;

/// Command interface revision that drivers of this generation insist on.
const CMDIF_REV: u32 = 5;

/// `initializing`: the device accepts a reset ordered by the driver.
const FW_RESET_OFFERED: u32 = 1 << 30;

/// `nic_interface_supported`: full driver, disabled and no DRAM NIC, a bit each.
const INTERFACES: u32 = 0b111 << 24;

/// NIC interface states, `MLX5_INITIAL_SEG_NIC_INTERFACE_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicState {
    /// A driver may run it.
    #[default]
    Full,
    /// A boot program runs it, see [`crate::nodnic`].
    NoDram,
    /// Not usable: after a software reset, until a driver programs the queue again.
    Disabled,
}

/// What a reset clears of the segment.
#[derive(Debug, Default)]
pub struct InitSegment {
    /// NIC interface state.
    pub nic: NicState,
    /// Syndrome in the health buffer; 0 is healthy.
    pub syndrome: u8,
    /// Whether a driver may order a software reset.
    pub reset_request: bool,
    cmdq_high: u32,
}

/// What a write to the segment asks for beyond the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    None,
    /// A driver starts: drop what is left of an earlier one, then use this queue address.
    Start(u64),
    /// Software reset.
    Reset,
    /// Switch the NIC interface off.
    Disable,
    /// A boot program takes the card.
    Boot,
    /// Commands wait in these slots.
    Doorbell(u32),
}

fn at(offset: usize) -> u64 {
    offset as u64
}

/// One dword of the segment, at a dword offset.
pub fn read(hca: &Hca, offset: u64) -> u32 {
    const HEALTH: usize = offset_of!(raw::mlx5_init_seg, health);
    let [major, minor, sub] = hca.env.profile.firmware.version.map(u32::from);
    let timer = internal_timer(hca);
    let iseg = &hca.iseg;
    // CAST: a counter that runs around is meant to.
    let health_counter = (hca.env.now().as_millis() / 10 + 1) as u32;
    match offset {
        o if o == at(offset_of!(raw::mlx5_init_seg, fw_rev)) => minor << 16 | major,
        o if o == at(offset_of!(raw::mlx5_init_seg, cmdif_rev_fw_sub)) => CMDIF_REV << 16 | sub,
        o if o == at(offset_of!(raw::mlx5_init_seg, cmdq_addr_h)) => iseg.cmdq_high,
        o if o == at(offset_of!(raw::mlx5_init_seg, cmdq_addr_l_sz)) => {
            let nic = match iseg.nic {
                NicState::Full => raw::MLX5_INITIAL_SEG_NIC_INTERFACE_FULL_DRIVER,
                NicState::NoDram => raw::MLX5_INITIAL_SEG_NIC_INTERFACE_NO_DRAM_NIC,
                NicState::Disabled => raw::MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED,
            };
            nic << 8 | queue::LOG_SLOTS << 4 | queue::LOG_STRIDE
        }
        o if o == at(offset_of!(raw::mlx5_init_seg, initializing)) => {
            let reset = if iseg.reset_request {
                FW_RESET_OFFERED
            } else {
                0
            };
            reset | INTERFACES
        }
        o if o == at(HEALTH + offset_of!(raw::health_buffer, fw_ver)) => {
            major << 24 | minor << 16 | sub
        }
        o if o == at(HEALTH + offset_of!(raw::health_buffer, hw_id)) => {
            chip::hardware_id(hca.env.profile.pci.device).into()
        }
        o if o == at(HEALTH + offset_of!(raw::health_buffer, rfr_severity)) => {
            u32::from(iseg.reset_request) << 31
        }
        o if o == at(HEALTH + offset_of!(raw::health_buffer, irisc_index)) => {
            u32::from(iseg.syndrome) << 16
        }
        NO_DRAM_NIC_OFFSET => nodnic::START,
        o if o == at(offset_of!(raw::mlx5_init_seg, internal_timer_h)) => (timer >> 32) as u32,
        o if o == at(offset_of!(raw::mlx5_init_seg, internal_timer_l)) => timer as u32,
        // Never zero: that means "no health counter" to a driver.
        o if o == at(offset_of!(raw::mlx5_init_seg, health_counter)) => health_counter.max(1),
        _ => 0,
    }
}

/// Ticks of the free running clock, at the frequency that the capabilities state. Completions have them as time stamps.
pub(crate) fn internal_timer(hca: &Hca) -> u64 {
    let khz = hca.caps.get(field!(cmd_hca_cap, device_frequency_khz));
    // CAST: 64 bits of ticks last for centuries.
    (hca.env.now().as_nanos() * u128::from(khz) / 1_000_000) as u64
}

/// Takes a write of one dword at a dword offset.
pub fn write(hca: &mut Hca, offset: u64, value: u32) -> Order {
    match offset {
        o if o == at(offset_of!(raw::mlx5_init_seg, cmdq_addr_h)) => {
            hca.iseg.cmdq_high = value;
            Order::None
        }
        o if o == at(offset_of!(raw::mlx5_init_seg, cmdq_addr_l_sz)) => match value >> 8 & 0x7 {
            raw::MLX5_INITIAL_SEG_NIC_INTERFACE_FULL_DRIVER => {
                let low = u64::from(value & !0xfff);
                Order::Start(u64::from(hca.iseg.cmdq_high) << 32 | low)
            }
            raw::MLX5_INITIAL_SEG_NIC_INTERFACE_DISABLED => Order::Disable,
            raw::MLX5_INITIAL_SEG_NIC_INTERFACE_NO_DRAM_NIC => Order::Boot,
            raw::MLX5_INITIAL_SEG_NIC_INTERFACE_SW_RESET => Order::Reset,
            state => {
                tracing::warn!("NIC interface state {state} is not supported");
                Order::None
            }
        },
        o if o == at(offset_of!(raw::mlx5_init_seg, cmd_dbell)) => Order::Doorbell(value),
        _ => {
            tracing::warn!("write of {value:#x} to read-only init segment offset {offset:#x}");
            Order::None
        }
    }
}
