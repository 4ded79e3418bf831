// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vendor specific capability of the family: a gateway to internal address spaces.
//!
//! Registers and handshake as the kernel uses them (drivers/net/ethernet/mellanox/mlx5/core/lib/
//! pci_vsc.c). Of the spaces behind it the semaphores are here; for the registers of the chip, the command mailbox of
//! tools (under two numbers, mstflint's `AS_ICMD` and `AS_ICMD_EXT`) and the initialization segment (boot programs reach
//! it this way, iPXE's mlx_pci_gw.c) the card answers. Asking for another one answers "not supported", which every user
//! of the gateway knows how to take.

use crate::space::{Access, Space};

/// Capability id.
const ID: u32 = 0x09;
/// Bytes of the capability.
pub(crate) const LEN: u16 = 0x18;

/// Space number (low half), status in the three highest bits: 0 is not supported.
const CONTROL: u16 = 0x04;
/// Never reads the same value twice: the ticket for the semaphore.
const COUNTER: u16 = 0x08;
/// Taken by writing the last ticket, given back by writing zero.
const SEMAPHORE: u16 = 0x0c;
/// Address; bit 31 says that a write is wanted, or that a read has finished.
const ADDRESS: u16 = 0x10;
const DATA: u16 = 0x14;

const STATUS: u32 = 7 << 29;
const STATUS_OK: u32 = 1 << 29;
const FLAG: u32 = 1 << 31;
/// The address was not in the space.
const SYNDROME: u32 = 1 << 30;
/// What a read brings where nothing is (`BAD_ACCESS` in core/diag/crdump.c).
const NOTHING: u32 = 0xbada_cce5;
/// Space of the semaphores that functions of the card share.
const SPACE_SEMAPHORES: u32 = 0xa;
/// Spaces of the command mailbox of tools.
const SPACE_ICMD_EXT: u32 = 1;
const SPACE_ICMD: u32 = 3;
/// Space of the chip's registers.
const SPACE_CHIP: u32 = 2;
/// Space of the initialization segment.
const SPACE_INIT_SEGMENT: u32 = 4;
/// Words of the space of semaphores.
const SEMAPHORES: usize = 256;

/// Spaces that the card answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardSpace {
    /// Registers of the chip.
    Chip,
    /// Command mailbox of tools.
    Icmd,
    /// Initialization segment.
    InitSegment,
}

impl CardSpace {
    fn from_number(number: u32) -> Option<Self> {
        match number {
            SPACE_CHIP => Some(Self::Chip),
            SPACE_ICMD | SPACE_ICMD_EXT => Some(Self::Icmd),
            SPACE_INIT_SEGMENT => Some(Self::InitSegment),
            _ => None,
        }
    }
}

/// An access that the card has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Where.
    pub space: CardSpace,
    /// Byte address, 30 bits.
    pub address: u32,
    /// Value to write; `None` reads.
    pub write: Option<u32>,
}

/// The capability at its place, with what is behind it.
#[derive(Clone, Debug)]
pub(crate) struct Vendor {
    at: u16,
    ticket: u32,
    semaphores: Vec<u32>,
}

impl Vendor {
    /// Lays out the capability.
    pub(crate) fn define(space: &mut Space, at: u16, next: u8) -> Self {
        let header = ID | (u32::from(next) << 8) | (u32::from(LEN) << 16);
        space.define(at, header, Access::RO);
        space.define(at + CONTROL, 0, Access::rw(0xffff));
        space.define(at + COUNTER, 0, Access::RO);
        // The semaphore is not plainly writable: `written` decides.
        space.define(at + SEMAPHORE, 0, Access::RO);
        space.define(at + ADDRESS, 0, Access::rw(!SYNDROME));
        space.define(at + DATA, 0, Access::rw(!0));
        Self {
            at,
            ticket: 0,
            semaphores: vec![0; SEMAPHORES],
        }
    }

    /// Every lock is free again.
    pub(crate) fn reset(&mut self) {
        self.semaphores.fill(0);
    }

    /// Software is about to read `offset..`: hands out a new ticket if it reads the counter.
    pub(crate) fn reading(&mut self, space: &mut Space, offset: u64) {
        if offset == u64::from(self.at + COUNTER) {
            // Zero means unlocked, so it is never a ticket.
            self.ticket = self.ticket.wrapping_add(1).max(1);
            space.put(self.at + COUNTER, self.ticket);
        }
    }

    /// Software wrote `data` at `offset`; what the card has to answer, if it is that. Registers of the gateway are written as
    /// whole dwords, the space also as a word.
    pub(crate) fn written(
        &mut self,
        space: &mut Space,
        offset: u64,
        data: &[u8],
    ) -> Option<Transfer> {
        let register = offset.checked_sub(u64::from(self.at))?;
        if register == u64::from(CONTROL) && matches!(data.len(), 2 | 4) {
            let number = space.get(self.at + CONTROL) & 0xffff;
            let known = number == SPACE_SEMAPHORES || CardSpace::from_number(number).is_some();
            space.set_bits(self.at + CONTROL, STATUS, if known { STATUS_OK } else { 0 });
        }
        let word = <[u8; 4]>::try_from(data).map(u32::from_le_bytes).ok()?;
        if register == u64::from(SEMAPHORE) {
            let free = space.get(self.at + SEMAPHORE) == 0;
            if word == 0 || (free && word == self.ticket) {
                space.put(self.at + SEMAPHORE, word);
            }
        } else if register == u64::from(ADDRESS) {
            let control = space.get(self.at + CONTROL);
            if let Some(card) = CardSpace::from_number(control & 0xffff) {
                return Some(Transfer {
                    space: card,
                    address: word & !(FLAG | SYNDROME),
                    write: (word & FLAG != 0).then(|| space.get(self.at + DATA)),
                });
            }
            self.transfer(space, word);
        }
        None
    }

    /// The card has answered: `value` is what a read found, `None` says that there is nothing.
    pub(crate) fn answered(&mut self, space: &mut Space, transfer: Transfer, value: Option<u32>) {
        // A finished write shows the flag clear, a finished read shows it set.
        let done = if transfer.write.is_some() { 0 } else { FLAG };
        let syndrome = if value.is_some() { 0 } else { SYNDROME };
        if transfer.write.is_none() {
            space.put(self.at + DATA, value.unwrap_or(NOTHING));
        }
        space.set_bits(self.at + ADDRESS, FLAG | SYNDROME, done | syndrome);
    }

    fn transfer(&mut self, space: &mut Space, word: u32) {
        let write = word & FLAG != 0;
        // A finished write shows the flag clear, a finished read shows it set.
        let done = if write { 0 } else { FLAG };
        let supported = space.get(self.at + CONTROL) & STATUS != 0;
        // CAST: 30 bits fit a usize.
        let index = (word & !(FLAG | SYNDROME)) as usize;
        let cell = self.semaphores.get_mut(index).filter(|_| supported);
        let Some(cell) = cell else {
            space.set_bits(self.at + ADDRESS, FLAG | SYNDROME, done | SYNDROME);
            return;
        };
        if write {
            let id = space.get(self.at + DATA);
            // Taken stays taken until its owner gives it back by writing zero.
            if *cell == 0 || id == 0 {
                *cell = id;
            }
        } else {
            space.put(self.at + DATA, *cell);
        }
        space.set_bits(self.at + ADDRESS, FLAG | SYNDROME, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u16 = 0xc0;

    struct Gateway {
        space: Space,
        vendor: Vendor,
        asked: Option<Transfer>,
    }

    impl Gateway {
        fn new() -> Self {
            let mut space = Space::new();
            let vendor = Vendor::define(&mut space, AT, 0);
            Self {
                space,
                vendor,
                asked: None,
            }
        }

        fn read(&mut self, register: u16) -> u32 {
            self.vendor
                .reading(&mut self.space, u64::from(AT + register));
            self.space.get(AT + register)
        }

        fn write(&mut self, register: u16, word: u32) {
            let (offset, data) = (u64::from(AT + register), word.to_le_bytes());
            self.space.write(offset, &data).unwrap();
            self.asked = self.vendor.written(&mut self.space, offset, &data);
        }
    }

    #[test]
    fn gateway_lock_needs_the_ticket() {
        let mut gateway = Gateway::new();
        let ticket = gateway.read(COUNTER);
        gateway.write(SEMAPHORE, ticket.wrapping_add(7));
        assert_eq!(gateway.read(SEMAPHORE), 0);
        gateway.write(SEMAPHORE, ticket);
        assert_eq!(gateway.read(SEMAPHORE), ticket);
        let second = gateway.read(COUNTER);
        gateway.write(SEMAPHORE, second);
        assert_eq!(gateway.read(SEMAPHORE), ticket);
        gateway.write(SEMAPHORE, 0);
        assert_eq!(gateway.read(SEMAPHORE), 0);
    }

    #[test]
    fn a_semaphore_is_taken_once() {
        let mut gateway = Gateway::new();
        gateway.write(CONTROL, SPACE_SEMAPHORES);
        assert_ne!(gateway.read(CONTROL) & STATUS, 0);
        for (id, owner) in [(5, 5), (6, 5), (0, 0), (6, 6)] {
            gateway.write(DATA, id);
            gateway.write(ADDRESS, FLAG | 0x20);
            assert_eq!(gateway.read(ADDRESS) & FLAG, 0);
            gateway.write(ADDRESS, 0x20);
            assert_eq!(gateway.read(ADDRESS) & FLAG, FLAG);
            assert_eq!(gateway.read(DATA), owner);
        }
    }

    #[test]
    fn unknown_spaces_and_addresses_say_so() {
        let mut gateway = Gateway::new();
        gateway.write(CONTROL, 7);
        assert_eq!(gateway.read(CONTROL) & STATUS, 0);
        gateway.write(CONTROL, SPACE_SEMAPHORES);
        gateway.write(ADDRESS, 0x3fff_ffff);
        assert_eq!(gateway.read(ADDRESS) & (FLAG | SYNDROME), FLAG | SYNDROME);
    }

    #[test]
    fn the_card_answers_for_the_initialization_segment() {
        let mut gateway = Gateway::new();
        // iPXE writes the number of the space as a word.
        let (offset, data) = (u64::from(AT + CONTROL), [4, 0]);
        gateway.space.write(offset, &data).unwrap();
        assert_eq!(
            gateway.vendor.written(&mut gateway.space, offset, &data),
            None
        );
        assert_eq!(gateway.read(CONTROL) & STATUS, STATUS_OK);

        gateway.write(ADDRESS, 0x1fc);
        let read = Transfer {
            space: CardSpace::InitSegment,
            address: 0x1fc,
            write: None,
        };
        assert_eq!(gateway.asked, Some(read));
        gateway
            .vendor
            .answered(&mut gateway.space, read, Some(0x0700_0000));
        assert_eq!(gateway.read(ADDRESS) & (FLAG | SYNDROME), FLAG);
        assert_eq!(gateway.read(DATA), 0x0700_0000);

        gateway.write(DATA, 0x200);
        gateway.write(ADDRESS, FLAG | 0x14);
        let write = Transfer {
            space: CardSpace::InitSegment,
            address: 0x14,
            write: Some(0x200),
        };
        assert_eq!(gateway.asked, Some(write));
        gateway.vendor.answered(&mut gateway.space, write, None);
        assert_eq!(gateway.read(ADDRESS) & (FLAG | SYNDROME), SYNDROME);
    }
}
