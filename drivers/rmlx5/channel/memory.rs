// SPDX-License-Identifier: GPL-2.0
//! Memory of a channel; what is where is in [`super::layout`].

use kernel::{
    prelude::*,
    sync::barrier::{
        self,
        dma_mb, //
    }, //
};
use kernel_ext::{
    numa::Node,
    pci::BoundDevice, //
};

use super::{
    flow::Memory,
    layout,
    pattern::{
        Key,
        Mismatch, //
    }, //
};
use crate::{
    buf::Buf,
    record::Records, //
};

/// Bytes handled at a time on the stack; a multiple of 8.
const CHUNK: u32 = 256;

/// The memory that the device reads and writes for one channel.
pub(super) struct Area {
    /// What only this side may touch.
    pub(super) local: Buf,
    /// What the other end may touch too.
    pub(super) shared: Buf,
    /// Doorbell records.
    pub(super) records: Records,
}

impl Area {
    /// Allocates all of it on `node` where possible. Sleeps.
    pub(super) fn new(pdev: &BoundDevice, node: Node) -> Result<Self> {
        let dev = pdev.device();
        Ok(Self {
            local: Buf::new(dev, node, layout::LOCAL_BYTES as usize)?,
            shared: Buf::new(dev, node, layout::SHARED_BYTES as usize)?,
            records: Records::new(dev)?,
        })
    }

    fn generate(&self, at: u32, key: Key, len: u32, flip: u8) {
        let mut done = 0;
        while done < len {
            let n = CHUNK.min(len - done);
            let mut bytes = [0u8; CHUNK as usize];
            if let Some(part) = bytes.get_mut(..n as usize) {
                key.fill(done as usize, part);
                for byte in part.iter_mut() {
                    *byte ^= flip;
                }
                // The ranges are those of the layout; a message that was not written is found by
                // its reader.
                let _ = self.local.write((at + done) as usize, part);
            }
            done += n;
        }
    }
}

impl Memory for Area {
    fn fill(&self, at: u32, key: Key, len: u32) {
        self.generate(at, key, len, 0);
    }

    fn spoil(&self, at: u32, key: Key, len: u32) {
        self.generate(at, key, len, 0xff);
    }

    fn check(&self, at: u32, key: Key, len: u32) -> Result<(), Mismatch> {
        // The completion was read before; now the data.
        dma_mb(barrier::Read);
        let mut done = 0;
        while done < len {
            let n = CHUNK.min(len - done);
            let mut bytes = [0u8; CHUNK as usize];
            if let Some(part) = bytes.get_mut(..n as usize) {
                // What cannot be read stays zero and does not pass.
                let _ = self.local.read((at + done) as usize, part);
                key.check(done as usize, part)?;
            }
            done += n;
        }
        Ok(())
    }

    fn load64(&self, at: u32) -> u64 {
        dma_mb(barrier::Read);
        let mut bytes = [0u8; 8];
        let _ = self.local.read(at as usize, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    fn store64(&self, at: u32, value: u64) {
        let _ = self.local.write(at as usize, &value.to_ne_bytes());
    }
}
