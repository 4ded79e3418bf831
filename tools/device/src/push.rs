// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A send WQE that came with its doorbell (BlueFlame): the card executes what was written to the
//! register and does not read the work queue.
//!
//! It counts only when one bus access brought all of it. A processor that combines writes sends 64
//! bytes at a time; one that does not sends 8, of which the first are a plain doorbell and the
//! others nothing: the card then reads the WQE from memory. That is what the stock driver's test
//! (core/wc.c) tells apart. A WQE of more than one such access is read from memory too.

use mlx5_hw::{raw, wire, wire::get};

/// Bytes that a processor combines into one access, and one basic block.
const LINE: usize = 64;
/// Bytes of the longest WQE that a register takes: half of its 512.
const LONGEST: usize = 256;
/// Unit of the size in the control segment.
const SEGMENT: usize = 16;

/// A whole WQE.
#[derive(Clone, Debug)]
pub struct Pushed {
    index: u16,
    bytes: Vec<u8>,
}

impl Pushed {
    /// The WQE in what one access wrote to a doorbell register; `None` when it is not there as a
    /// whole.
    pub fn parse(data: &[u8]) -> Option<Self> {
        if data.len() % LINE != 0 || data.len() > LONGEST {
            return None;
        }
        let head = get(data, wire!(mlx5_wqe_ctrl_seg, opmod_idx_opcode))?;
        let size = get(data, wire!(mlx5_wqe_ctrl_seg, qpn_ds))?;
        // CAST: six bits.
        let len = (size & u64::from(raw::MLX5_WQE_CTRL_DS_MASK)) as usize * SEGMENT;
        if len == 0 || len > data.len() {
            return None;
        }
        Some(Self {
            // CAST: the cut is the meaning.
            index: (head >> raw::MLX5_WQE_CTRL_WQE_INDEX_SHIFT) as u16,
            bytes: data.to_vec(),
        })
    }

    /// Number of its first basic block, modulo 2^16.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Copies its first bytes to `to`; what is beyond the end stays.
    pub fn copy_to(&self, to: &mut [u8]) {
        let len = to.len().min(self.bytes.len());
        // PANIC: neither is shorter.
        to[..len].copy_from_slice(&self.bytes[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A WQE for block `index` of `ds` segments, in `len` bytes.
    fn wqe(index: u16, ds: u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![0x5a; len];
        bytes[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0, 1, ds]);
        bytes[1..3].copy_from_slice(&index.to_be_bytes());
        bytes
    }

    #[test]
    fn a_whole_line_with_a_whole_wqe_counts() {
        let pushed = Pushed::parse(&wqe(0x1234, 4, 64)).unwrap();
        assert_eq!(pushed.index(), 0x1234);
        let mut copy = [0; 128];
        pushed.copy_to(&mut copy);
        assert_eq!(copy[..64], wqe(0x1234, 4, 64)[..]);
        assert_eq!(copy[64..], [0; 64]);
    }

    #[test]
    fn anything_else_is_read_from_memory() {
        for (ds, len, what) in [
            (1, 8, "a plain doorbell"),
            (1, 32, "a torn line"),
            (1, 56, "a torn line"),
            (5, 64, "a WQE of two lines of which one came"),
            (0, 64, "a WQE without size"),
            (1, 320, "more than a register holds"),
        ] {
            assert!(Pushed::parse(&wqe(0, ds, len)).is_none(), "{what}");
        }
        assert!(Pushed::parse(&wqe(0, 16, 256)).is_some());
        assert!(Pushed::parse(&[]).is_none());
    }
}
