// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 4096 bytes of a function, with an access rule and a reset rule for every bit.

/// Size of the configuration space of a PCI Express function, bytes.
pub const CONFIG_SIZE: usize = 4096;

/// An access that leaves the configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Configuration access of {len} bytes at {offset:#x} leaves the space")]
pub struct OutOfRange {
    /// First byte of the access.
    pub offset: u64,
    /// Its length in bytes.
    pub len: usize,
}

/// The resets a function can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Power came: everything is at its default.
    Power,
    /// Hot reset through the bus above: sticky bits survive.
    Bus,
    /// Function level reset: sticky bits and the link's own settings survive.
    Function,
}

/// How far a register bit survives resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Every reset restores the default.
    No,
    /// A function level reset leaves it alone (maximum payload, link control).
    Function,
    /// Only power removes it.
    Sticky,
}

/// Who may change the bits of one register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Bits software writes.
    pub rw: u32,
    /// Status bits that writing a one clears.
    pub w1c: u32,
    /// Bits that survive resets as `keep` says; the others do not survive.
    pub kept: u32,
    /// What `kept` means.
    pub keep: Keep,
}

impl Access {
    /// Read only.
    pub(crate) const RO: Self = Self::rw(0);

    /// Plain writable bits.
    pub(crate) const fn rw(bits: u32) -> Self {
        Self {
            rw: bits,
            w1c: 0,
            kept: 0,
            keep: Keep::No,
        }
    }

    /// Adds write-one-to-clear bits.
    pub(crate) const fn w1c(mut self, bits: u32) -> Self {
        self.w1c = bits;
        self
    }

    /// Says how far some bits survive resets.
    pub(crate) const fn kept(mut self, bits: u32, keep: Keep) -> Self {
        self.kept = bits;
        self.keep = keep;
        self
    }
}

/// The bytes of a function.
///
/// # Invariants
/// All vectors hold [`CONFIG_SIZE`] bytes. A bit is never both `rw` and `w1c`.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    value: Vec<u8>,
    default: Vec<u8>,
    rw: Vec<u8>,
    w1c: Vec<u8>,
    /// Bits a function level reset keeps (the sticky ones are in here too).
    keep_function: Vec<u8>,
    /// Bits a bus reset keeps.
    keep_bus: Vec<u8>,
}

impl Space {
    /// All zero, all read only.
    pub(crate) fn new() -> Self {
        let zero = || vec![0u8; CONFIG_SIZE];
        Self {
            value: zero(),
            default: zero(),
            rw: zero(),
            w1c: zero(),
            keep_function: zero(),
            keep_bus: zero(),
        }
    }

    /// Lays out the 32-bit register at `offset` (a multiple of 4), with its value after power-on.
    pub(crate) fn define(&mut self, offset: u16, default: u32, access: Access) {
        debug_assert_eq!(offset % 4, 0);
        debug_assert_eq!(access.rw & access.w1c, 0);
        self.put(offset, default);
        let keep_function = if access.keep == Keep::No {
            0
        } else {
            access.kept
        };
        let keep_bus = if access.keep == Keep::Sticky {
            access.kept
        } else {
            0
        };
        for (field, bits) in [
            (&mut self.default, default),
            (&mut self.rw, access.rw),
            (&mut self.w1c, access.w1c),
            (&mut self.keep_function, keep_function),
            (&mut self.keep_bus, keep_bus),
        ] {
            if let Some(bytes) = field.get_mut(usize::from(offset)..usize::from(offset) + 4) {
                bytes.copy_from_slice(&bits.to_le_bytes());
            }
        }
    }

    /// The 32-bit register at `offset`; zero beyond the end.
    pub(crate) fn get(&self, offset: u16) -> u32 {
        let mut bytes = [0; 4];
        if let Some(from) = self.value.get(usize::from(offset)..usize::from(offset) + 4) {
            bytes.copy_from_slice(from);
        }
        u32::from_le_bytes(bytes)
    }

    /// Sets the register at `offset` from the device's side, past all masks.
    pub(crate) fn put(&mut self, offset: u16, value: u32) {
        if let Some(to) = self
            .value
            .get_mut(usize::from(offset)..usize::from(offset) + 4)
        {
            to.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Replaces the bits in `mask` of the register at `offset`, from the device's side.
    pub(crate) fn set_bits(&mut self, offset: u16, mask: u32, bits: u32) {
        let old = self.get(offset);
        self.put(offset, (old & !mask) | (bits & mask));
    }

    /// Reads `buf.len()` bytes at `offset`.
    ///
    /// # Errors
    /// [`OutOfRange`]; `buf` is unchanged then.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), OutOfRange> {
        let range = range(offset, buf.len())?;
        // PANIC: range() keeps both ends inside CONFIG_SIZE, the length of `value`.
        buf.copy_from_slice(&self.value[range]);
        Ok(())
    }

    /// Writes as software does: through the masks.
    ///
    /// # Errors
    /// [`OutOfRange`]; nothing changed then.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), OutOfRange> {
        let range = range(offset, data.len())?;
        for (at, new) in range.zip(data) {
            // PANIC: range() keeps `at` inside CONFIG_SIZE, the length of every vector.
            let (rw, w1c) = (self.rw[at], self.w1c[at]);
            let old = self.value[at];
            self.value[at] = ((old & !rw) | (new & rw)) & !(new & w1c);
        }
        Ok(())
    }

    /// Restores defaults as far as `reset` reaches.
    pub(crate) fn reset(&mut self, reset: Reset) {
        for at in 0..CONFIG_SIZE {
            // PANIC: `at` is below CONFIG_SIZE, the length of every vector.
            let keep = match reset {
                Reset::Power => 0,
                Reset::Bus => self.keep_bus[at],
                Reset::Function => self.keep_function[at],
            };
            self.value[at] = (self.value[at] & keep) | (self.default[at] & !keep);
        }
    }
}

/// The byte range of an access, if all of it is inside.
fn range(offset: u64, len: usize) -> Result<std::ops::Range<usize>, OutOfRange> {
    let outside = OutOfRange { offset, len };
    let start = usize::try_from(offset).map_err(|_| outside)?;
    let end = start.checked_add(len).ok_or(outside)?;
    if end > CONFIG_SIZE {
        return Err(outside);
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn w1c_clears_only_written_ones() {
        let mut space = Space::new();
        space.define(0x10, 0, Access::rw(0).w1c(0xff));
        space.put(0x10, 0xa5);
        space.write(0x10, &[0x21]).unwrap();
        assert_eq!(space.get(0x10), 0x84);
    }

    #[test]
    fn resets_keep_what_they_must() {
        let mut space = Space::new();
        space.define(0x10, 0x11, Access::rw(0xff).kept(0x0f, Keep::Function));
        space.define(0x14, 0x22, Access::rw(0xff).kept(0x0f, Keep::Sticky));
        let dirty = |space: &mut Space| {
            space.write(0x10, &[0xee]).unwrap();
            space.write(0x14, &[0xdd]).unwrap();
        };
        dirty(&mut space);
        space.reset(Reset::Function);
        assert_eq!((space.get(0x10), space.get(0x14)), (0x1e, 0x2d));
        dirty(&mut space);
        space.reset(Reset::Bus);
        assert_eq!((space.get(0x10), space.get(0x14)), (0x11, 0x2d));
        dirty(&mut space);
        space.reset(Reset::Power);
        assert_eq!((space.get(0x10), space.get(0x14)), (0x11, 0x22));
    }

    #[test]
    fn access_over_the_end_is_refused_and_changes_nothing() {
        let mut space = Space::new();
        space.define(0xffc, 0, Access::rw(!0));
        assert!(space.write(0xffe, &[1, 2, 3]).is_err());
        assert_eq!(space.get(0xffc), 0);
        assert!(space.read(u64::MAX, &mut [0; 4]).is_err());
    }

    proptest! {
        #[test]
        fn a_write_changes_only_writable_bits(
            default: u32, rw: u32, w1c: u32, old: u32, new: u32,
        ) {
            let w1c = w1c & !rw;
            let mut space = Space::new();
            space.define(0x40, default, Access::rw(rw).w1c(w1c));
            space.put(0x40, old);
            space.write(0x40, &new.to_le_bytes()).unwrap();
            let got = space.get(0x40);
            prop_assert_eq!(got & rw, new & rw);
            prop_assert_eq!(got & w1c, old & w1c & !new);
            prop_assert_eq!(got & !(rw | w1c), old & !(rw | w1c));
        }
    }
}
