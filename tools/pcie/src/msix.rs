// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MSI-X: the capability, the vector table, masking and the pending bits.
//!
//! Rule (PCI local bus specification 3.0, 6.8.2.9): a message asked for while its vector or the
//! function is masked sets the pending bit; unmasking sends it and clears the bit.

use crate::space::{Access, Space};

/// Capability id.
const ID: u32 = 0x11;
/// Bytes of the capability.
pub(crate) const LEN: u16 = 12;
/// Bytes of a table entry.
const ENTRY: usize = 16;
/// Vector control: masked.
const MASKED: u32 = 1;

/// The capability at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capability {
    at: u16,
}

impl Capability {
    /// Lays out the capability for `vectors` (1 to 2048) with table and pending bits in BAR0.
    pub(crate) fn define(
        space: &mut Space,
        at: u16,
        next: u8,
        vectors: u16,
        table: u32,
        pending: u32,
    ) -> Self {
        let size = u32::from(vectors.saturating_sub(1) & 0x7ff) << 16;
        let control = ID | (u32::from(next) << 8) | size;
        space.define(at, control, Access::rw(0b11 << 30));
        space.define(at + 4, table & !7, Access::RO);
        space.define(at + 8, pending & !7, Access::RO);
        Self { at }
    }

    /// (MSI-X enabled, function masked).
    pub(crate) fn control(self, space: &Space) -> (bool, bool) {
        let word = space.get(self.at);
        (word >> 31 != 0, (word >> 30) & 1 != 0)
    }
}

/// A message as the function writes it to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which vector it is.
    pub vector: u16,
    /// Bus address.
    pub address: u64,
    /// Data.
    pub data: u32,
}

/// What became of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raise {
    /// Send this now.
    Deliver(Message),
    /// Masked: the pending bit holds it.
    Latched,
    /// MSI-X is off, or there is no such vector: lost, as on silicon.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Vector {
    address: u64,
    data: u32,
    control: u32,
    pending: bool,
}

impl Vector {
    const RESET: Self = Self {
        address: 0,
        data: 0,
        control: MASKED,
        pending: false,
    };

    fn bytes(&self) -> [u8; ENTRY] {
        let mut out = [0; ENTRY];
        out[..8].copy_from_slice(&self.address.to_le_bytes());
        out[8..12].copy_from_slice(&self.data.to_le_bytes());
        out[12..].copy_from_slice(&self.control.to_le_bytes());
        out
    }
}

/// The table and its rules.
#[derive(Clone, Debug)]
pub struct Msix {
    vectors: Vec<Vector>,
    enabled: bool,
    masked: bool,
}

impl Msix {
    /// `vectors` entries, all masked, MSI-X off.
    pub fn new(vectors: u16) -> Self {
        Self {
            vectors: vec![Vector::RESET; usize::from(vectors)],
            enabled: false,
            masked: false,
        }
    }

    /// Back to the state after power-on.
    pub fn reset(&mut self) {
        self.vectors.fill(Vector::RESET);
        self.enabled = false;
        self.masked = false;
    }

    /// The message control register changed. Returns the messages that leave because of it.
    pub fn set_control(&mut self, enabled: bool, masked: bool) -> Vec<Message> {
        self.enabled = enabled;
        self.masked = masked;
        self.release()
    }

    /// Asks for an interrupt on `vector`.
    pub fn raise(&mut self, vector: u16) -> Raise {
        let (enabled, function_masked) = (self.enabled, self.masked);
        let Some(entry) = self
            .vectors
            .get_mut(usize::from(vector))
            .filter(|_| enabled)
        else {
            return Raise::Lost;
        };
        if function_masked || entry.control & MASKED != 0 {
            entry.pending = true;
            return Raise::Latched;
        }
        Raise::Deliver(Message {
            vector,
            address: entry.address,
            data: entry.data,
        })
    }

    /// Reads the table at byte `offset` in it; bytes beyond the last entry read as zero.
    pub fn read_table(&self, offset: u64, buf: &mut [u8]) {
        for (at, byte) in (offset..).zip(buf.iter_mut()) {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let entry = self.vectors.get(at / ENTRY);
            // PANIC: the remainder is below the size of the array.
            *byte = entry.map_or(0, |entry| entry.bytes()[at % ENTRY]);
        }
    }

    /// Writes the table: aligned 4- or 8-byte accesses, as the specification allows; others are
    /// ignored. Returns the messages that leave because a vector was unmasked.
    pub fn write_table(&mut self, offset: u64, data: &[u8]) -> Vec<Message> {
        if !matches!(data.len(), 4 | 8) || offset % data.len() as u64 != 0 {
            return Vec::new();
        }
        for (at, chunk) in (offset..).step_by(4).zip(data.chunks_exact(4)) {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let Some(entry) = self.vectors.get_mut(at / ENTRY) else {
                break;
            };
            let Ok(word) = <[u8; 4]>::try_from(chunk).map(u32::from_le_bytes) else {
                break;
            };
            match at % ENTRY {
                0 => entry.address = entry.address & !0xffff_ffff | u64::from(word & !3),
                4 => entry.address = entry.address & 0xffff_ffff | (u64::from(word) << 32),
                8 => entry.data = word,
                _ => entry.control = word & MASKED,
            }
        }
        self.release()
    }

    /// Reads the pending bits at byte `offset`; bits without a vector are zero.
    pub fn read_pending(&self, offset: u64, buf: &mut [u8]) {
        for (at, byte) in (offset..).zip(buf.iter_mut()) {
            let first = usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(8);
            let bits = self.vectors.iter().skip(first).take(8);
            *byte = bits
                .enumerate()
                .fold(0, |sum, (bit, v)| sum | (u8::from(v.pending) << bit));
        }
    }

    /// Marks `vector` masked or not from the platform's side: where a virtual machine monitor owns
    /// the table, a vector counts as unmasked while it has somewhere to signal. Returns the
    /// message that leaves because of it.
    pub fn set_mask(&mut self, vector: u16, masked: bool) -> Option<Message> {
        let entry = self.vectors.get_mut(usize::from(vector))?;
        entry.control = if masked { MASKED } else { 0 };
        self.release().pop()
    }

    /// Sends what is pending and may go.
    fn release(&mut self) -> Vec<Message> {
        if !self.enabled || self.masked {
            return Vec::new();
        }
        let mut out = Vec::new();
        for (vector, entry) in (0u16..).zip(self.vectors.iter_mut()) {
            if entry.pending && entry.control & MASKED == 0 {
                entry.pending = false;
                out.push(Message {
                    vector,
                    address: entry.address,
                    data: entry.data,
                });
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unmasked(vector: u16) -> Msix {
        let mut msix = Msix::new(64);
        msix.set_control(true, false);
        let at = u64::from(vector) * 16;
        msix.write_table(at, &0xfee0_1000u64.to_le_bytes());
        msix.write_table(at + 8, &0x4021u32.to_le_bytes());
        msix.write_table(at + 12, &0u32.to_le_bytes());
        msix
    }

    fn pending(msix: &Msix) -> u64 {
        let mut bytes = [0; 8];
        msix.read_pending(0, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn delivers_what_the_table_says() {
        let message = Message {
            vector: 5,
            address: 0xfee0_1000,
            data: 0x4021,
        };
        assert_eq!(unmasked(5).raise(5), Raise::Deliver(message));
    }

    #[test]
    fn latched_while_masked_and_sent_once_on_unmask() {
        let mut msix = unmasked(5);
        msix.write_table(5 * 16 + 12, &1u32.to_le_bytes());
        assert_eq!(msix.raise(5), Raise::Latched);
        assert_eq!(msix.raise(5), Raise::Latched);
        assert_eq!(pending(&msix), 1 << 5);
        let sent = msix.write_table(5 * 16 + 12, &0u32.to_le_bytes());
        assert_eq!(sent.iter().map(|m| m.vector).collect::<Vec<_>>(), [5]);
        assert_eq!(pending(&msix), 0);
    }

    #[test]
    fn function_mask_latches_and_releases() {
        let mut msix = unmasked(5);
        assert!(msix.set_control(true, true).is_empty());
        assert_eq!(msix.raise(5), Raise::Latched);
        assert_eq!(msix.set_control(true, false).len(), 1);
    }

    #[test]
    fn disabled_or_unknown_vectors_lose_it() {
        let mut msix = unmasked(5);
        assert_eq!(msix.raise(64), Raise::Lost);
        msix.set_control(false, false);
        assert_eq!(msix.raise(5), Raise::Lost);
    }

    #[test]
    fn reset_masks_all_and_forgets_pending() {
        let mut msix = unmasked(5);
        msix.set_control(true, true);
        msix.raise(5);
        msix.reset();
        assert_eq!(pending(&msix), 0);
        assert!(msix.set_control(true, false).is_empty());
        assert_eq!(msix.raise(5), Raise::Latched);
    }

    proptest! {
        #[test]
        fn nothing_is_sent_while_masked_and_nothing_latched_is_lost(
            steps in prop::collection::vec((0u8..5, 0u16..70, any::<u64>(), any::<u32>()), 0..200)
        ) {
            let mut msix = Msix::new(64);
            msix.set_control(true, false);
            for (what, vector, offset, word) in steps {
                let before = pending(&msix);
                let sent = match what {
                    0 => {
                        let latched = msix.raise(vector) == Raise::Latched;
                        prop_assert!(!latched || (pending(&msix) >> vector) & 1 == 1);
                        continue;
                    }
                    1 => msix.write_table((offset % 2048) & !3, &word.to_le_bytes()),
                    2 => msix.set_control(true, word & 1 != 0),
                    3 => msix.set_mask(vector, word & 1 != 0).into_iter().collect(),
                    _ => msix.write_table(offset, &u64::from(word).to_le_bytes()),
                };
                let gone = sent.iter().fold(0u64, |bits, m| bits | (1 << m.vector));
                prop_assert_eq!(before & !gone, pending(&msix));
                prop_assert_eq!(before & gone, gone);
            }
        }
    }
}
